import type { ConnectionEndView, ConnectionPolicyView } from '../../../api/policy.ts';
import { parseIp } from '../../../base/net/ip.ts';
import { shortageText } from '../../../policy/engine/identities/peer-shares.ts';
import type { PolicyEngine } from '../../../policy/engine/policy-engine.ts';
import { combined, lookUp } from '../../../policy/matrix/interpret.ts';
import {
  type DecidedRange,
  type PolicyDecision,
  type PolicyDirection,
  type PolicyMatrix,
  type PolicyOutcome,
  policyDirections,
} from '../../../policy/matrix/matrix.ts';
import { type PolicyStanding, portsText } from './policed-pods.ts';

/** One end of a connection. */
export interface ConnectionParty {
  /** Name in the request: `namespace/name` or an address. */
  readonly name: string;
  readonly addresses: readonly string[];
  /** Set for a pod of this node: the state that its flows implement. */
  readonly local?: { readonly pod: string; readonly standing: PolicyStanding };
  /** Set for a pod of another node. */
  readonly elsewhere?: { readonly node: string };
}

export interface AskedConnection {
  readonly from: ConnectionParty;
  readonly to: ConnectionParty;
  /** Absent: all. */
  readonly port?: { readonly protocol: DecidedRange['protocol']; readonly number: number };
  /** Answer to denied pods where neither a namespace nor a policy states it; absent: none. */
  readonly denied?: PolicyOutcome['denial'];
}

/** Verdict of one end for a connection, by port. */
interface PortOutcome {
  readonly ports: string;
  readonly verdict: 'allow' | 'deny';
  readonly why: ConnectionEndView['why'];
  readonly by: readonly string[];
  readonly refused?: true;
}

/** Policies as this node applies them. */
type ExplainedPolicies = { readonly matrix: PolicyMatrix } & Pick<PolicyEngine, 'leftOutAt'>;

/** Decides whether policies allow a connection, with the matrix of this node alone. */
export function explainConnection(inForce: ExplainedPolicies, asked: AskedConnection): ConnectionPolicyView {
  const { from, to, port } = asked;
  const pairs = from.addresses.flatMap((source) =>
    to.addresses.filter((each) => parseIp(each).family === parseIp(source).family).map((destination) => [source, destination] as const),
  );
  const byPair = pairs.map(([source, destination]) =>
    policyDirections.flatMap((direction) => endOf(inForce, asked, direction, source, destination)),
  );
  return {
    from: from.name,
    to: to.name,
    ...(port ? { port: `${port.number}/${port.protocol}` } : {}),
    verdict: joined(byPair.map(pairVerdict)),
    ends: byPair.flat(),
    remarks: [
      ...remarksOn('egress', from),
      ...remarksOn('ingress', to),
      ...(pairs.length === 0 ? ['They have no family of addresses in common'] : []),
    ],
  };
}

function endOf(
  { matrix, leftOutAt }: ExplainedPolicies,
  { from, to, port, denied }: AskedConnection,
  direction: PolicyDirection,
  source: string,
  destination: string,
): readonly ConnectionEndView[] {
  const [own, peer] = direction === 'egress' ? [from, to] : [to, from];
  if (!own.local) return [];
  const { pod, standing } = own.local;
  const peerAddress = parseIp(direction === 'egress' ? destination : source).text;
  return outcomesOf(matrix, { direction, pod, peerAddress, isItself: peer.local?.pod === pod, standing, port, denied }).map((outcome) => {
    const isDenied = outcome.verdict === 'deny' && outcome.why === 'no rule allows it';
    const shortage = isDenied ? leftOutAt(direction, pod, { address: parseIp(peerAddress), port }) : undefined;
    const end = { direction, pod, from: source, to: destination, ...outcome };
    if (!shortage) return { ...end, change: changeOf(direction, pod, peer.name, outcome, standing) };
    const change = `Fewer networks in the rules: ${shortage.rules.join(', ')} would allow it, but ${shortageText(shortage)}`;
    return { ...end, why: 'networks left out' as const, change };
  });
}

interface AskedEnd {
  readonly direction: PolicyDirection;
  readonly pod: string;
  /** Canonical form. */
  readonly peerAddress: string;
  readonly isItself: boolean;
  readonly standing: PolicyStanding;
  readonly port: AskedConnection['port'];
  readonly denied: AskedConnection['denied'];
}

function outcomesOf(
  matrix: PolicyMatrix,
  { direction, pod, peerAddress, isItself, standing, port, denied }: AskedEnd,
): readonly PortOutcome[] {
  const whole = (verdict: 'allow' | 'deny', why: PortOutcome['why']): readonly PortOutcome[] => [
    { ports: port ? askedPorts(port) : 'any', verdict, why, by: [] },
  ];
  if (isItself) return whole('allow', 'itself');
  if (standing?.is === 'closed') return matrix.ownNode.has(peerAddress) ? whole('allow', 'own node') : whole('deny', 'closed');
  if (standing?.is === 'suspended') return whole('allow', 'suspended');
  if (standing?.is === 'free') return whole('allow', 'not isolated');
  const found = lookUp(matrix, { direction, pod, address: peerAddress });
  if ('verdict' in found) return whole(found.verdict, found.why === 'no row' ? 'no rule allows it' : found.why);
  return decidedPorts(combined(found), port, denied);
}

function decidedPorts(
  { ranges, otherwise }: PolicyDecision,
  port: AskedConnection['port'],
  denied: AskedConnection['denied'],
): readonly PortOutcome[] {
  const say = (ports: string, { verdict, by, denial = denied }: PolicyOutcome): PortOutcome => {
    const why = isOfClusterPolicy(by) ? 'a cluster rule denies it' : 'no rule allows it';
    if (verdict === 'deny') return { ports, verdict, why, by, ...(denial === 'reject' && { refused: true }) };
    return { ports, verdict: 'allow', why: by.length === 0 ? 'not isolated' : 'a rule allows it', by };
  };
  if (!port)
    return [...ranges.map((range) => say(portsText(range), range.outcome)), say(ranges.length > 0 ? 'any other' : 'any', otherwise)];
  const range = ranges.find(({ protocol, first, last }) => protocol === port.protocol && port.number >= first && port.number <= last);
  return [say(askedPorts(port), range?.outcome ?? otherwise)];
}

/** Reports whether an outcome is that of a cluster policy, whose name has no namespace. */
function isOfClusterPolicy(by: readonly string[]): boolean {
  return by.length > 0 && by.every((name) => !name.split(' ', 1)[0]?.includes('/'));
}

function askedPorts({ protocol, number }: NonNullable<AskedConnection['port']>): string {
  return portsText({ protocol, first: number, last: number });
}

function changeOf(
  direction: PolicyDirection,
  pod: string,
  peer: string,
  { verdict, why, by, ports }: PortOutcome,
  standing: PolicyStanding,
): string {
  const [namespace] = pod.split('/', 1);
  const type = direction === 'ingress' ? 'Ingress' : 'Egress';
  if (why === 'itself' || why === 'own node') return 'nothing: no policy applies to this';
  if (why === 'suspended') return 'the end of the suspension: run `seinectl policy explain` again after it';
  if (why === 'closed') return `its policies have to become known (${standing?.is === 'closed' ? standing.why : 'nothing is known of it'})`;
  if (why === 'not isolated')
    return `a policy of namespace ${namespace} that selects ${pod} and has the type ${type} would deny what it does not name`;
  if (why === 'a cluster rule denies it') return `${by.join(', ')} would have to go, or a cluster rule before it would have to accept it`;
  if (verdict === 'allow') return `${by.join(', ')} would have to go, with every other rule that allows the same`;
  const where = `${direction === 'ingress' ? 'from' : 'to'} that matches ${peer}${ports.startsWith('any') ? '' : ` and ports with ${ports}`}`;
  return `a rule in spec.${direction} of ${by.join(' or ')}, or of another policy that selects ${pod}, with ${where}`;
}

/** Combines the verdicts of both ends for one pair of addresses: both have to allow it. */
function pairVerdict(ends: readonly ConnectionEndView[]): ConnectionPolicyView['verdict'] {
  const byDirection = policyDirections.flatMap((direction) => {
    const verdicts = ends.filter((end) => end.direction === direction).map(({ verdict }) => verdict);
    return verdicts.length === 0 ? [] : [joined(verdicts)];
  });
  if (byDirection.includes('deny')) return 'deny';
  return byDirection.includes('mixed') ? 'mixed' : 'allow';
}

function joined(verdicts: readonly ConnectionPolicyView['verdict'][]): ConnectionPolicyView['verdict'] {
  const [first = 'deny'] = verdicts;
  return verdicts.every((each) => each === first) ? first : 'mixed';
}

function remarksOn(direction: PolicyDirection, { name, local, elsewhere }: ConnectionParty): readonly string[] {
  if (elsewhere) return [`The ${direction} policies of ${name} are decided on ${elsewhere.node}: its agent has the rest`];
  if (local && !local.standing)
    return [`The bridge still has the flows of an earlier agent for ${local.pod}; this is the decision that will apply`];
  return [];
}
