import { isIp, parseIp } from '../../base/net/ip.ts';
import { keyOf } from '../../policy/reach/objects.ts';
import type { ServedObject } from '../../policy/verify/forwarding-reference/forwarded-objects.ts';
import type { SimulatedObjects } from '../objects/cluster-objects.ts';

/** Fields of a Service by which it claims addresses and ports. */
interface ClaimingObject {
  readonly spec: Pick<ServedObject['spec'], 'clusterIPs'> & {
    readonly type?: string | null;
    readonly externalIPs?: readonly string[] | null;
    readonly ports?: readonly { readonly port: number; readonly protocol?: string | null; readonly nodePort?: number | null }[] | null;
  };
  readonly status?: { readonly loadBalancer?: { readonly ingress?: readonly { readonly ip?: string }[] | null } | null } | null;
}

/** Returns conflicts that a change adds, one sentence each: an address or node port that two Services claim, or a Service and a pod or node. */
export function addedConflicts(before: SimulatedObjects, after: SimulatedObjects): readonly string[] {
  const known = new Set(conflictsOf(before));
  return conflictsOf(after).filter((text) => !known.has(text));
}

function conflictsOf({ services, pods, nodes }: SimulatedObjects): readonly string[] {
  const claims = Map.groupBy(services.flatMap(claimsOf), ({ claim }) => claim);
  const doubled = [...claims].flatMap(([claim, all]) => {
    const names = [...new Set(all.map(({ name }) => name))].sort();
    return names.length > 1 ? [`${claim} is claimed by the Services ${names.join(', ')}: the oldest of them is served`] : [];
  });
  const owners = new Map([
    ...nodes.flatMap(({ metadata, status }) =>
      status.addresses.map(({ address }) => [canonical(address), `node ${metadata.name}`] as const),
    ),
    ...pods
      .filter(({ spec }) => !spec.hostNetwork)
      .flatMap((pod) => (pod.status.podIPs ?? []).map(({ ip }) => [canonical(ip), `pod ${keyOf(pod)}`] as const)),
  ]);
  const owned = services.flatMap((service) =>
    (service.spec.clusterIPs ?? []).flatMap((address) => {
      const owner = owners.get(canonical(address));
      return owner === undefined ? [] : [`${address} of Service ${keyOf(service)} is an address of ${owner}`];
    }),
  );
  return [...doubled, ...owned];
}

function claimsOf(service: ServedObject): readonly { readonly claim: string; readonly name: string }[] {
  const { spec, status } = service as ClaimingObject;
  const name = keyOf(service);
  const hasNodePorts = spec.type === 'NodePort' || spec.type === 'LoadBalancer';
  const asked = [...(spec.externalIPs ?? []), ...(status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => ip ?? [])];
  return [
    ...(spec.clusterIPs ?? []).filter(isIp).map((address) => ({ claim: canonical(address), name })),
    ...(spec.ports ?? []).flatMap(({ port, protocol, nodePort }) => [
      ...[...new Set(asked.map(canonical))].map((address) => ({ claim: `${address} port ${port}/${protocol ?? 'TCP'}`, name })),
      ...(hasNodePorts && nodePort ? [{ claim: `node port ${nodePort}/${protocol ?? 'TCP'}`, name }] : []),
    ]),
  ];
}

function canonical(text: string): string {
  return isIp(text) ? parseIp(text).text : text;
}
