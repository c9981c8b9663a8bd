import { cidrContains, isIp, parseCidr, parseIp } from '../../base/net/ip.ts';
import type { ForwardedObjects, ServedObject } from '../../policy/verify/forwarding-reference/forwarded-objects.ts';
import { isSame, nodeAt } from '../../policy/verify/forwarding-reference/service-at.ts';
import { firstNames } from './first-names.ts';
import type { NodeQuestion, TraceEntry } from './whole-trace.ts';

/** Nodes that are named in a sentence. */
const NAMED_MAX = 5;

/**
 * Returns the node that a packet from outside enters, where the objects have a reason for one: the node whose address it is, or, for a
 * Service with `externalTrafficPolicy: Local`, a node with an endpoint. Undefined for all other questions.
 */
export function entryNode(
  objects: Pick<ForwardedObjects, 'nodes' | 'services' | 'slices'>,
  { from, to }: NodeQuestion,
): TraceEntry | undefined {
  if (!/^outside(?::|$)/.test(from) && !(isIp(from) && isOutside(objects, from))) return undefined;
  if (isIp(to)) {
    const node = nodeAt(objects.nodes, to);
    if (node) return { node: node.metadata.name };
  }
  const service = askedService(objects.services, to);
  if (service?.spec.externalTrafficPolicy !== 'Local') return undefined;
  const having = new Set(
    objects.slices
      .filter(({ metadata }) => isOf(metadata, service))
      .flatMap(({ endpoints }) => (endpoints ?? []).filter(({ conditions }) => conditions?.ready ?? true))
      .flatMap(({ nodeName }) => nodeName ?? []),
  );
  const names = objects.nodes.map(({ metadata }) => metadata.name);
  const [node] = names.filter((name) => having.has(name)).toSorted();
  const others = names.filter((name) => !having.has(name)).toSorted();
  if (node === undefined) return undefined;
  const which =
    others.length === 0 ? 'every node has an endpoint' : `nodes without an endpoint drop such packets: ${firstNames(others, NAMED_MAX)}`;
  return { node, reason: `externalTrafficPolicy Local: enters ${node}, which has an endpoint; ${which}` };
}

/** The address of a pod or node is no sender outside: its packets begin on its node. */
function isOutside({ nodes }: Pick<ForwardedObjects, 'nodes'>, address: string): boolean {
  const ip = parseIp(address);
  const isOfPods = nodes.some(({ spec }) => (spec.podCIDRs ?? []).some((network) => cidrContains(parseCidr(network), ip)));
  return !isOfPods && nodeAt(nodes, address) === undefined;
}

function askedService(services: readonly ServedObject[], to: string): ServedObject | undefined {
  const [, name] = /^service:(.+)$/.exec(to) ?? [];
  if (name !== undefined) return services.find(({ metadata }) => `${metadata.namespace}/${metadata.name}` === name);
  return services.find(({ spec, status }) =>
    [...(spec.externalIPs ?? []), ...(status?.loadBalancer?.ingress ?? []).map(({ ip }) => ip ?? '')].some((ip) => isSame(ip, to)),
  );
}

function isOf({ namespace, labels }: ForwardedObjects['slices'][number]['metadata'], { metadata }: ServedObject): boolean {
  return namespace === metadata.namespace && labels?.['kubernetes.io/service-name'] === metadata.name;
}
