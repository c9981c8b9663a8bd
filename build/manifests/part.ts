import { type Pool, pooledName, poolLabels } from './pool.ts';

/** An object of the manifest, and the reasons for its fields. */
export interface Part {
  readonly object: KubeObject;
  /** In front of the object. */
  readonly about: string;
  /** Comments of single entries, by their path in the object. */
  readonly notes?: readonly Note[];
}

export type Note = readonly [path: readonly (string | number)[], text: string];

export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: { readonly name?: string; readonly namespace?: string };
}

/** On every object, so that they are found together: `kubectl get -l app.kubernetes.io/part-of=seine`. */
export function labelsOf(app: string): Record<string, string> {
  return { app, 'app.kubernetes.io/name': app, 'app.kubernetes.io/part-of': 'seine' };
}

/**
 * Of what each pool has one. `app` is what a DaemonSet knows its pods by, which can never be changed: it differs from pool to pool. `app.kubernetes.io/name`
 * is the same in all of them.
 */
export function pooledLabels(app: string, pool: Pool | undefined): Record<string, string> {
  const labels = labelsOf(app);
  return pool === undefined ? labels : { ...labels, app: pooledName(app, pool), [poolLabels.agent]: pool.name };
}
