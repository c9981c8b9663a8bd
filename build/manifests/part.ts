import { type Pool, pooledName, poolLabels } from './pool.ts';

/** An object of the manifest, and the reasons for its fields. */
export interface Part {
  readonly object: KubeObject;
  /** Comment before the object. */
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

/** Labels of every object, by which all are found: `kubectl get -l app.kubernetes.io/part-of=seine`. */
export function labelsOf(app: string): Record<string, string> {
  return { app, 'app.kubernetes.io/name': app, 'app.kubernetes.io/part-of': 'seine' };
}

/**
 * Labels of an object of which each pool has its own. `app` is the selector of a DaemonSet, which is immutable: it differs between pools.
 * `app.kubernetes.io/name` is the same in all of them.
 */
export function pooledLabels(app: string, pool: Pool | undefined): Record<string, string> {
  const labels = labelsOf(app);
  return pool === undefined ? labels : { ...labels, app: pooledName(app, pool), [poolLabels.agent]: pool.name };
}
