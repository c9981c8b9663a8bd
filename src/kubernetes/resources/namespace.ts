import * as z from 'zod';
import { logAnnotation, parseObject, type Resource, stringMap } from '../client/resource.ts';
import { type DeniedAnswer, deniedIn, invalidDeniedIn } from './denied-annotation.ts';

/** Namespace, for selectors of namespaces. */
export interface Namespace {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Annotation `seine.dev/log`, truncated; absent if there is none. */
  readonly log?: string;
  /** Annotation `seine.dev/denied`: answer to clients that the isolation of its pods denies; absent if there is none, or an invalid one. */
  readonly denied?: DeniedAnswer;
  /** Annotation `seine.dev/denied` with an invalid value, truncated, and what an event about it needs; absent if there is none. */
  readonly invalidDenied?: { readonly text: string; readonly uid: string };
}

const schema = z.object({ metadata: z.object({ name: z.string(), uid: z.string().nullish(), labels: stringMap, annotations: stringMap }) });

export const namespaces: Resource<Namespace> = {
  kind: 'Namespace',
  path: '/api/v1/namespaces',
  revision: 3,
  project: (raw) => {
    const { name, uid, labels, annotations } = parseObject(schema, raw).metadata;
    const text = invalidDeniedIn(annotations);
    const invalid = text === undefined ? {} : { invalidDenied: { text, uid: uid ?? '' } };
    return { name, labels: labels ?? {}, ...logAnnotation(annotations), ...deniedIn(annotations), ...invalid };
  },
};
