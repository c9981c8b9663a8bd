import * as z from 'zod';
import { parseObject, type Resource, stringMap } from './resource.ts';

/** A Namespace, for selectors of namespaces. */
export interface Namespace {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
}

const schema = z.object({ metadata: z.object({ name: z.string(), labels: stringMap }) });

export const namespaces: Resource<Namespace> = {
  kind: 'Namespace',
  path: '/api/v1/namespaces',
  revision: 1,
  project: (raw) => {
    const { name, labels } = parseObject(schema, raw).metadata;
    return { name, labels: labels ?? {} };
  },
};
