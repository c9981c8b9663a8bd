import type { PodObject } from '../verify/reference/objects.ts';

/**
 * Returns the name of the workload that a pod belongs to, by the labels that controllers set: `api` for `api-7d9c4b8f6d-x2kqz`, `db` for `db-0`.
 * The name of a pod of its own otherwise.
 */
export function workloadName({ metadata: { name, labels = {} } }: PodObject): string {
  const label = (key: string): string | undefined => (Object.hasOwn(labels, key) ? labels[key] : undefined);
  const hash = label('pod-template-hash');
  if (hash !== undefined && hash !== '') {
    const at = name.lastIndexOf(`-${hash}-`);
    if (at > 0) return name.slice(0, at);
  }
  if (label('statefulset.kubernetes.io/pod-name') === name) return name.replace(/-\d+$/, '');
  if (label('controller-revision-hash') !== undefined) return name.replace(/-[a-z0-9]{5}$/, '');
  return name.replace(/-\d+$/, '');
}
