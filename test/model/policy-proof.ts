import { clusterNetworkPoliciesOf } from '../../src/kubernetes/resources/cluster-network-policy.ts';
import { namespaces } from '../../src/kubernetes/resources/namespace.ts';
import { networkPolicies } from '../../src/kubernetes/resources/network-policy.ts';
import { nodes } from '../../src/kubernetes/resources/node.ts';
import { policyPods } from '../../src/kubernetes/resources/policy-pod.ts';
import { addressesOf } from '../../src/policy/controller/object-feed.ts';
import type { PolicyNode } from '../../src/policy/engine/identities/addresses.ts';
import type { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { answerOf, lookUp, type MatrixAnswer, type PolicyPacket } from '../../src/policy/matrix/interpret.ts';
import { classesIn, type PolicyDecision, type PolicyMatrix, policyDirections, unnumbered } from '../../src/policy/matrix/matrix.ts';
import type {
  ClusterNetworkPolicyObject,
  NetworkPolicyObject,
  NodeObject,
  PodObject,
  PolicyObjects,
} from '../../src/policy/verify/reference/objects.ts';
import { type JudgedConnection, whoHas } from '../../src/policy/verify/reference/parties.ts';
import { judge } from '../../src/policy/verify/reference/reference-verdict.ts';

/*
 * The matrix compared with the reference: every local pod × direction × address at which anything may begin or end × port at which anything
 * may.
 */

/** The node whose pods are checked. */
export const provenNode = 'n1';

type EnginePort = Pick<
  PolicyEngine,
  | 'putNamespace'
  | 'removeNamespace'
  | 'putNode'
  | 'removeNode'
  | 'putPod'
  | 'removePod'
  | 'putPolicy'
  | 'removePolicy'
  | 'putClusterPolicy'
  | 'removeClusterPolicy'
  | 'update'
  | 'matrix'
>;

type Party = ReturnType<typeof whoHas>;

/** Objects by kind and name, `Pod shop/db`. */
export type ObjectSet = ReadonlyMap<string, PolicyObject>;
export type PolicyObject =
  | { readonly kind: 'Namespace'; readonly object: PolicyObjects['namespaces'][number] }
  | { readonly kind: 'Node'; readonly object: NodeObject }
  | { readonly kind: 'Pod'; readonly object: PodObject }
  | { readonly kind: 'NetworkPolicy'; readonly object: NetworkPolicyObject }
  | { readonly kind: 'ClusterNetworkPolicy'; readonly object: ClusterNetworkPolicyObject };

export function objectSet({
  namespaces,
  nodes,
  pods,
  networkPolicies,
  clusterNetworkPolicies = [],
}: PolicyObjects): Map<string, PolicyObject> {
  const all: PolicyObject[] = [
    ...namespaces.map((object) => ({ kind: 'Namespace' as const, object })),
    ...nodes.map((object) => ({ kind: 'Node' as const, object })),
    ...pods.map((object) => ({ kind: 'Pod' as const, object })),
    ...networkPolicies.map((object) => ({ kind: 'NetworkPolicy' as const, object })),
    ...clusterNetworkPolicies.map((object) => ({ kind: 'ClusterNetworkPolicy' as const, object })),
  ];
  return new Map(all.map((each) => [nameOf(each), each]));
}

export function nameOf({ kind, object: { metadata } }: PolicyObject): string {
  return `${kind} ${'namespace' in metadata ? `${metadata.namespace}/` : ''}${metadata.name}`;
}

export function objectsOf(set: ObjectSet): PolicyObjects {
  const of = <K extends PolicyObject['kind']>(kind: K) =>
    [...set.values()].filter((each): each is Extract<PolicyObject, { kind: K }> => each.kind === kind).map(({ object }) => object);
  return {
    namespaces: of('Namespace') as PolicyObjects['namespaces'],
    nodes: of('Node') as PolicyObjects['nodes'],
    pods: of('Pod') as PolicyObjects['pods'],
    networkPolicies: of('NetworkPolicy') as PolicyObjects['networkPolicies'],
    clusterNetworkPolicies: of('ClusterNetworkPolicy') as readonly ClusterNetworkPolicyObject[],
  };
}

const clusterPolicies = clusterNetworkPoliciesOf('v1beta1');

/** Adds an object through the projections of the sources, as an agent reads them. */
export function put(engine: EnginePort, each: PolicyObject): void {
  switch (each.kind) {
    case 'Namespace': {
      const namespace = namespaces.project(each.object);
      if (namespace) engine.putNamespace(namespace.name, namespace.labels, namespace.denied);
      return;
    }
    case 'Node':
      engine.putNode(nodeOf(each.object));
      return;
    case 'Pod': {
      const pod = policyPods.project(each.object);
      if (pod) engine.putPod(pod);
      else engine.removePod(keyOf(each));
      return;
    }
    case 'NetworkPolicy': {
      const policy = networkPolicies.project({ ...each.object, metadata: { ...each.object.metadata, uid: 'u' } });
      if (policy) engine.putPolicy(policy);
      return;
    }
    case 'ClusterNetworkPolicy': {
      const policy = clusterPolicies.project({ ...each.object, metadata: { ...each.object.metadata, uid: 'u' } });
      if (policy) engine.putClusterPolicy(policy);
    }
  }
}

export function remove(engine: EnginePort, each: PolicyObject): void {
  const key = keyOf(each);
  if (each.kind === 'Namespace') engine.removeNamespace(key);
  else if (each.kind === 'Node') engine.removeNode(key);
  else if (each.kind === 'Pod') engine.removePod(key);
  else if (each.kind === 'NetworkPolicy') engine.removePolicy(key);
  else engine.removeClusterPolicy(key);
}

function keyOf(each: PolicyObject): string {
  return nameOf(each).slice(each.kind.length + 1);
}

function nodeOf(object: NodeObject): PolicyNode {
  const node = nodes.project({ ...object, metadata: { ...object.metadata, uid: 'u' } });
  return {
    name: object.metadata.name,
    podCidrs: node?.podCidrs ?? [],
    addresses: node ? addressesOf(node) : [],
    labels: object.metadata.labels ?? {},
  };
}

export interface ProofResult {
  readonly differences: readonly string[];
  readonly allowed: number;
  readonly denied: number;
  /** Number of probes by kind of the other end. */
  readonly peers: Readonly<Record<string, number>>;
}

export type ProbedPorts = Readonly<Record<'TCP' | 'UDP' | 'SCTP', readonly number[]>>;

/** A further oracle, and its sampling rate. */
interface ThirdOracle {
  /** Undefined: no such packet reaches its tables. */
  readonly verdict: (packet: PolicyPacket) => 'allow' | 'deny' | undefined;
  /** Reports whether a denied packet is shown to the agent, which may answer it; absent: not compared. */
  readonly isRefused?: (packet: PolicyPacket) => boolean;
  readonly every: number;
}

/** @param addresses the other ends @param ports destination ports, for each protocol that has some */
export function prove(
  set: ObjectSet,
  matrix: PolicyMatrix,
  addresses: readonly string[],
  ports: ProbedPorts,
  third?: ThirdOracle,
): ProofResult {
  let probe = 0;
  const objects = objectsOf(set);
  const result = { differences: [] as string[], allowed: 0, denied: 0, peers: {} as Record<string, number> };
  const services = [
    ...(['TCP', 'UDP', 'SCTP'] as const).flatMap((protocol) => ports[protocol].map((port) => ({ protocol, port }))),
    { protocol: 'ICMP' },
    { protocol: 'GRE' },
  ];
  const parties = new Map<string, Party>();
  const partyOf = (address: string): Party => {
    const party = parties.get(address) ?? whoHas(objects, address);
    parties.set(address, party);
    return party;
  };
  const ends = addresses.map((address) => ({ address, peer: `${partyOf(address).is} ${address.includes(':') ? 'ipv6' : 'ipv4'}` }));
  for (const { pod, ips } of localPods(objects))
    for (const direction of policyDirections)
      for (const { address, peer } of ends)
        for (const own of ips.filter((ip) => ip.includes(':') === address.includes(':')))
          for (const way of waysOf(direction, address, own, matrix)) {
            const found = lookUp(matrix, { direction, pod, address, ...way });
            for (const service of services) {
              if (third && probe++ % third.every !== 0) continue;
              const packet: PolicyPacket = { direction, pod, address, ...service, ...way };
              const answer = answerOf(found, packet);
              const other = third?.verdict(packet) ?? answer.verdict;
              if (other !== answer.verdict) result.differences.push(`${JSON.stringify(packet)}: matrix ${answer.verdict}, flows ${other}`);
              // External clients, as which packets to local pods arrive in the model, are never answered.
              const refused = direction === 'egress' && !packet.throughService && 'denial' in answer && answer.denial === 'reject';
              if (third?.isRefused && third.verdict(packet) !== undefined && third.isRefused(packet) !== refused)
                result.differences.push(`${JSON.stringify(packet)}: matrix ${JSON.stringify(answer)}, flows differ in the answer`);
              result.peers[peer] = (result.peers[peer] ?? 0) + 1;
              if (answer.verdict === 'allow') result.allowed++;
              else result.denied++;
              const tuple = direction === 'ingress' ? { from: address, to: own } : { from: own, to: address };
              const difference = differenceOf(packet, answer, { ...tuple, ...service, ...way }, (connection) =>
                judge(objects, connection, { source: partyOf(connection.from), destination: partyOf(connection.to) }),
              );
              if (difference !== undefined) result.differences.push(difference);
            }
          }
  return result;
}

type PacketWay = Pick<PolicyPacket, 'masqueraded' | 'throughService'>;

/** Ways of a packet to its destination, where they differ. */
function waysOf(direction: PolicyPacket['direction'], address: string, own: string, { ownNode }: PolicyMatrix): readonly PacketWay[] {
  if (address === own) return [{ throughService: false }, { throughService: true }];
  return direction === 'ingress' && ownNode.has(address) ? [{ masqueraded: false }, { masqueraded: true }] : [{}];
}

function differenceOf(
  { direction, pod }: PolicyPacket,
  answer: MatrixAnswer,
  connection: JudgedConnection,
  judged: (connection: JudgedConnection) => ReturnType<typeof judge>,
): string | undefined {
  const end = judged(connection)[direction];
  const { from, to, protocol, port, masqueraded, throughService } = connection;
  const what = `${direction} of ${pod}: ${masqueraded ? 'masqueraded ' : ''}${throughService ? 'through a Service ' : ''}${from} > ${to} ${protocol}/${port ?? '-'}`;
  if (!end) return `${what}: the reference knows of no pod there`;
  const said = `${what}: matrix ${JSON.stringify(answer)}, reference ${JSON.stringify(end)}`;
  if (end.verdict !== answer.verdict) return said;
  if (end.answer !== ('denial' in answer ? answer.denial : undefined)) return said;
  if (answer.why !== 'decision') return answer.why === end.why ? undefined : said;
  if (end.decidedBy !== undefined) return answer.by.join() === end.decidedBy ? undefined : said;
  if (answer.verdict === 'deny') return answer.by.join() === end.isolatedBy.join() ? undefined : said;
  return answer.by.length === 1 && end.allowedBy.includes(answer.by[0] ?? '') ? undefined : said;
}

/** Live pods of the node, with their unshared addresses. */
export function localPods({ pods }: PolicyObjects): readonly { readonly pod: string; readonly ips: readonly string[] }[] {
  const live = pods.filter(({ spec, status }) => spec.hostNetwork !== true && !['Succeeded', 'Failed'].includes(status.phase));
  const uses = Map.groupBy(
    live.flatMap(({ status }) => (status.podIPs ?? []).map(({ ip }) => ip)),
    (ip) => ip,
  );
  return live
    .filter(({ spec }) => spec.nodeName === provenNode)
    .map(({ metadata, status }) => ({
      pod: `${metadata.namespace}/${metadata.name}`,
      ips: (status.podIPs ?? []).map(({ ip }) => ip).filter((ip) => uses.get(ip)?.length === 1),
    }));
}

/** The matrix with contents in place of numbers: equal for two engines with the same meaning. */
export function describe({ subjects, ownNode, ingress, egress }: PolicyMatrix): unknown {
  const directions = { ingress, egress };
  const described = policyDirections.map((direction) => {
    const { identities, relations } = directions[direction];
    const names = new Map<string, string>();
    for (const subject of subjects.values()) for (const own of classesIn(subject, direction)) names.set(`${own.id}`, own.text);
    const classes = new Map<string, string>([
      ['0', ''],
      [`${unnumbered.id}`, 'no number'],
    ]);
    for (const { coarse, fine } of identities.values())
      for (const each of [coarse, fine]) classes.set(`${each.id}`, each.terms.join(' | '));
    return {
      identities: sorted(
        [...identities].map(([cidr, { coarse, fine }]) => `${cidr}: ${coarse.terms.join(' | ')} & ${fine.terms.join(' | ')}`),
      ),
      relations: sorted(
        [...relations].map(([key, decision]) => {
          const [subject = '', coarse, fine] = key.split(' ');
          const nameIn = (id: string | undefined) => (id === undefined ? '-' : (classes.get(id) ?? `unused class ${id}`));
          return `${names.get(subject) ?? `unused subject ${subject}`} / ${nameIn(coarse)} / ${nameIn(fine)}: ${decisionLine(decision)}`;
        }),
      ),
    };
  });
  return {
    subjects: sorted(
      [...subjects].map(([key, each]) =>
        [key, ...each.addresses, ...policyDirections.flatMap((direction) => classesIn(each, direction).map(({ text }) => text))].join(' '),
      ),
    ),
    ownNode: sorted([...ownNode]),
    described,
  };
}

function decisionLine({ ranges, otherwise }: PolicyDecision): string {
  return JSON.stringify([ranges, otherwise]);
}

function sorted(lines: readonly string[]): readonly string[] {
  return lines.toSorted();
}
