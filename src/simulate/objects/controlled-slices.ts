import { isIp, parseIp } from '../../base/net/ip.ts';
import { keyOf, type ServiceObject, services } from '../../policy/reach/objects.ts';
import type { ServedObject, SliceObject } from '../../policy/verify/forwarding-reference/forwarded-objects.ts';
import type { PodObject } from '../../policy/verify/reference/objects.ts';
import { namedPort } from '../../policy/verify/reference/parties.ts';
import type { SimulatedObjects } from './cluster-objects.ts';

type SliceEndpointObject = NonNullable<SliceObject['endpoints']>[number];
type SlicePortObject = NonNullable<SliceObject['ports']>[number];

/**
 * Returns the EndpointSlices after a change as the endpoint controller of Kubernetes makes them: where other pods match the selector of a
 * Service, or its target ports change, its slices become those of the pods that match. Conditions and hints of endpoints that stay are kept.
 *
 * @param written Services, `namespace/name`, whose slices the change itself states
 */
export function controlledSlices(before: SimulatedObjects, after: SimulatedObjects, written: ReadonlySet<string>): readonly SliceObject[] {
  const former = new Map(before.services.map((each) => [keyOf(each), each]));
  const pods = { before: Map.groupBy(before.pods, namespaceOf), after: Map.groupBy(after.pods, namespaceOf) };
  const replaced = new Map<string, readonly SliceObject[]>();
  for (const served of after.services) {
    const key = keyOf(served);
    const known = former.get(key);
    const own = pods.after.get(served.metadata.namespace) ?? [];
    if (written.has(key) || (known === served && own.every((pod, at) => pod === pods.before.get(served.metadata.namespace)?.[at])))
      continue;
    const now = targetsOf(services.project(withPorts(served)), own);
    const then = known && targetsOf(services.project(withPorts(known)), pods.before.get(known.metadata.namespace) ?? []);
    if (now === undefined || (then !== undefined && textOf(then) === textOf(now))) continue;
    replaced.set(key, slicesFor(served, now, after.slices));
  }
  if (replaced.size === 0) return after.slices;
  return [...after.slices.filter((slice) => !replaced.has(serviceOf(slice) ?? '')), ...[...replaced.values()].flat()];
}

/** Makes the EndpointSlices of Services that have a selector and none yet, as for manifests. */
export function firstSlices({ pods, services: all, slices }: SimulatedObjects): readonly SliceObject[] {
  const known = new Set(slices.flatMap((slice) => serviceOf(slice) ?? []));
  const byNamespace = Map.groupBy(pods, namespaceOf);
  return all
    .filter((served) => !known.has(keyOf(served)))
    .flatMap((served) => {
      const targets = targetsOf(services.project(withPorts(served)), byNamespace.get(served.metadata.namespace) ?? []);
      return targets ? slicesFor(served, targets, []) : [];
    });
}

function namespaceOf({ metadata }: PodObject): string {
  return metadata.namespace;
}

function withPorts(served: ServedObject): unknown {
  return { ...served, spec: { ...served.spec, ports: served.spec.ports ?? [] } };
}

function serviceOf({ metadata: { namespace, labels } }: SliceObject): string | undefined {
  const name = labels?.['kubernetes.io/service-name'];
  return name === undefined ? undefined : `${namespace}/${name}`;
}

interface ServiceTarget {
  readonly pod: PodObject;
  readonly ports: readonly SlicePortObject[];
}

/** Pods that a Service selects, with its target ports there; undefined if it has no selector. */
function targetsOf({ spec }: ServiceObject, pods: readonly PodObject[]): readonly ServiceTarget[] | undefined {
  const { selector, type } = spec;
  if (!selector || Object.keys(selector).length === 0 || type === 'ExternalName') return undefined;
  return pods
    .filter(({ metadata: { labels = {} }, status: { phase, podIPs = [] } }) => {
      const isSelected = Object.entries(selector).every(([key, value]) => Object.hasOwn(labels, key) && labels[key] === value);
      return isSelected && podIPs.length > 0 && phase !== 'Succeeded' && phase !== 'Failed';
    })
    .map((pod) => ({
      pod,
      ports: spec.ports.flatMap(({ name, protocol, port, targetPort }) => {
        const target = targetPort ?? port;
        const number = typeof target === 'number' ? target : namedPort(pod, target, protocol ?? 'TCP');
        return number === undefined ? [] : [{ name: name ?? '', protocol: protocol ?? 'TCP', port: number === 0 ? port : number }];
      }),
    }));
}

function textOf(targets: readonly ServiceTarget[]): string {
  return JSON.stringify(targets.map(({ pod, ports }) => [keyOf(pod), pod.status, pod.spec.nodeName, ports]));
}

function slicesFor(served: ServedObject, targets: readonly ServiceTarget[], former: readonly SliceObject[]): readonly SliceObject[] {
  const { namespace, name } = served.metadata;
  const known = new Map<string, SliceEndpointObject>(
    former
      .filter((slice) => serviceOf(slice) === keyOf(served))
      .flatMap(({ endpoints }) => (endpoints ?? []).map((each) => [each.addresses[0] ?? '', each] as const)),
  );
  return (['ipv4', 'ipv6'] as const).flatMap((family) =>
    [...Map.groupBy(targets, ({ ports }) => JSON.stringify(ports)).values()].flatMap((same, at): readonly SliceObject[] => {
      const endpoints = same.flatMap(({ pod }) => endpointOf(pod, family, known));
      if (endpoints.length === 0) return [];
      return [
        {
          metadata: { namespace, name: `${name}-${family}-${at}`, labels: { 'kubernetes.io/service-name': name } },
          addressType: family === 'ipv4' ? 'IPv4' : 'IPv6',
          endpoints,
          ports: same[0]?.ports ?? [],
        } as SliceObject,
      ];
    }),
  );
}

function endpointOf(
  { spec, status }: PodObject,
  family: 'ipv4' | 'ipv6',
  known: ReadonlyMap<string, SliceEndpointObject>,
): readonly SliceEndpointObject[] {
  const address = (status.podIPs ?? []).map(({ ip }) => ip).find((ip) => isIp(ip) && parseIp(ip).family === family);
  if (address === undefined) return [];
  const made = { addresses: [address], conditions: { ready: status.phase === 'Running' } };
  return [known.get(address) ?? (spec.nodeName === undefined ? made : { ...made, nodeName: spec.nodeName })];
}
