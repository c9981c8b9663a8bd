import { cidrContains, parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { isPoliced, keyOf } from '../../src/policy/reach/objects.ts';
import type { ForwardedObjects } from '../../src/policy/verify/forwarding-reference/forwarded-objects.ts';

/** Returns the cluster without pods whose addresses are not of their own node alone: no agent gives out such addresses. */
export function atHome(objects: ForwardedObjects): ForwardedObjects {
  const names = new Set(homePods(objects));
  return { ...objects, slices: [], pods: objects.pods.filter((pod) => names.has(keyOf(pod))) };
}

function homePods({ pods, nodes }: ForwardedObjects): readonly string[] {
  const owners = Map.groupBy(
    pods.filter(isPoliced).flatMap(({ status }) => status.podIPs ?? []),
    ({ ip }) => ip,
  );
  return pods
    .filter((pod) => {
      const networks = nodes.find(({ metadata }) => metadata.name === pod.spec.nodeName)?.spec.podCIDRs ?? [];
      const own = pod.status.podIPs ?? [];
      return (
        isPoliced(pod) &&
        own.length > 0 &&
        own.every(({ ip }) => networks.some((cidr) => cidrContains(parseCidr(cidr), parseIp(ip))) && owners.get(ip)?.length === 1)
      );
    })
    .map(keyOf);
}
