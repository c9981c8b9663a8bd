import { parseIp } from '../../base/net/ip.ts';
import type { PodObject, PolicyObjects } from '../verify/reference/objects.ts';
import { whoHas } from '../verify/reference/parties.ts';
import { isPoliced } from './objects.ts';

/**
 * Removes addresses from pods that do not own them. Several pods list the same address for a moment after one was deleted and another one got
 * its address; packets from it are those of one pod.
 */
export function withOwnedAddresses<T extends PolicyObjects>(objects: T): T {
  const first = new Map<string, PodObject>();
  /** Pods of each address that several have: few, while a cluster may have 150,000 addresses. */
  const claims = new Map<string, PodObject[]>();
  for (const pod of objects.pods.filter(isPoliced))
    for (const { ip } of pod.status.podIPs ?? []) {
      const { text } = parseIp(ip);
      const known = first.get(text);
      if (!known) first.set(text, pod);
      else claims.set(text, [...(claims.get(text) ?? [known]), pod]);
    }
  const lost = new Map<PodObject, Set<string>>();
  for (const [address, pods] of claims) {
    const owner = whoHas({ ...objects, pods }, address);
    for (const pod of pods) if (owner.is !== 'pod' || owner.pod !== pod) lost.set(pod, (lost.get(pod) ?? new Set()).add(address));
  }
  return lost.size === 0 ? objects : { ...objects, pods: objects.pods.map((pod) => without(pod, lost.get(pod))) };
}

function without(pod: PodObject, addresses: ReadonlySet<string> | undefined): PodObject {
  if (!addresses) return pod;
  const podIPs = (pod.status.podIPs ?? []).filter(({ ip }) => !addresses.has(parseIp(ip).text));
  return { ...pod, status: { ...pod.status, podIPs } };
}
