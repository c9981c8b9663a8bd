import * as z from 'zod';
import { logAnnotation, parseObject, type Resource, stringMap } from '../client/resource.ts';
import { type DeniedAnswer, deniedIn } from './denied-annotation.ts';

/** Namespace, for selectors of namespaces. */
export interface Namespace {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Annotation `seine.dev/log`, truncated; absent if there is none. */
  readonly log?: string;
  /** Annotation `seine.dev/denied`: answer to clients that the isolation of its pods denies; absent if there is none, or an invalid one. */
  readonly denied?: DeniedAnswer;
}

const schema = z.object({ metadata: z.object({ name: z.string(), labels: stringMap, annotations: stringMap }) });

export const namespaces: Resource<Namespace> = {
  kind: 'Namespace',
  path: '/api/v1/namespaces',
  revision: 3,
  project: (raw) => {
    const { name, labels, annotations } = parseObject(schema, raw).metadata;
    return { name, labels: labels ?? {}, ...logAnnotation(annotations), ...deniedIn(annotations) };
  },
};
