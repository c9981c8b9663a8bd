import type { PodExplanation, PodFlows, PodRepair, PodService, PodView } from '../../../api/object.ts';
import { withoutCode } from '../../../base/errors/seine-error.ts';
import { standingPortPattern } from '../../../dataplane/targets/links/pre-plugged-links.ts';
import type { PodStanding } from '../../../policy/controller/pod-policy-state.ts';

/** Interface of a pod. */
export interface ExplainedAttachment {
  readonly view: PodView;
  readonly gateways: readonly string[];
  readonly flows: readonly PodFlows[];
  /** Time that its oldest flow has been on the bridge; null if none is present. */
  readonly ageSeconds: number | null;
  /** Other owners of one of its addresses. */
  readonly rivals: readonly string[];
}

/** State of the pod in the API server. */
interface KnownPod {
  readonly podIps: readonly string[];
  readonly hostNetwork: boolean;
  readonly phase: string;
}

export interface PodFacts {
  /** `namespace/name`. */
  readonly name: string;
  readonly node: string;
  readonly bridge: string;
  readonly attachments: readonly ExplainedAttachment[];
  readonly known: KnownPod | undefined;
  readonly services: readonly PodService[];
  readonly repairs: readonly PodRepair[];
  /** NetworkPolicies of its namespace. */
  readonly policies: number;
  /** Their effect on the pod; absent while it has no attachment. */
  readonly standing?: PodStanding | undefined;
  /** Number of other nodes by the way in which packets are sent to their pods, for each family. */
  readonly peers: readonly {
    readonly mode: 'tunnel' | 'direct' | 'wireguard' | 'blocked';
    readonly family: 'ipv4' | 'ipv6';
    readonly peers: number;
  }[];
  readonly pausedForSeconds: number;
  readonly notReady: string | undefined;
  /** Problems of the node as a whole. */
  readonly warnings: readonly string[];
}

const REPAIRS_SHOWN = 5;
const SERVICES_SHOWN = 20;
const POLICIES_SHOWN = 10;

/** Describes a pod's network, one sentence per line, and its problems. Pure. */
export function explainPod(facts: PodFacts): PodExplanation {
  const { name, node, attachments, known, services, repairs } = facts;
  const problems = problemsOf(facts);
  const verdict = problems.length === 0 ? 'ok' : `not ok: ${problems.length === 1 ? '1 problem' : `${problems.length} problems`}`;
  const lines = known?.hostNetwork
    ? [`Pod ${name} uses the own network of node ${node}: there is nothing of Seine's to explain.`]
    : [
        `Pod ${name} on node ${node} is ${verdict}.`,
        ...problems.map((problem) => `! ${problem}.`),
        ...attachments.flatMap((attachment) => attachmentLines(attachment, facts)),
        ...peersLines(facts),
        ...servicesLines(services),
        ...policyLines(facts),
        ...repairLines(repairs),
        ...(facts.pausedForSeconds > 0 ? [`Repair is paused: foreign changes to it stay for another ${facts.pausedForSeconds} s.`] : []),
      ];
  return {
    name,
    state: problems.length === 0 ? 'ok' : 'wrong',
    lines,
    problems,
    attachments: attachments.map(plainAttachment),
    services,
    repairs,
  };
}

function plainAttachment({ view, gateways, flows, ageSeconds, rivals }: ExplainedAttachment): PodExplanation['attachments'][number] {
  return { ...view, gateways, tables: flows, ageSeconds, rivals };
}

const modeWords = {
  tunnel: 'through the tunnel',
  direct: 'without a tunnel',
  wireguard: 'encrypted by WireGuard',
  blocked: 'blocked without encryption',
} as const;

/** Returns how the pod's packets reach other nodes, where some of them are not in the tunnel. */
function peersLines({ attachments, peers }: PodFacts): readonly string[] {
  if (attachments.length === 0 || peers.every(({ mode, peers: count }) => mode === 'tunnel' || count === 0)) return [];
  const families = (['ipv4', 'ipv6'] as const).flatMap((family) => {
    const parts = peers
      .filter((each) => each.family === family && each.peers > 0)
      .map(({ mode, peers: count }) => `${count} ${modeWords[mode]}`);
    return parts.length === 0 ? [] : [`${family === 'ipv4' ? 'IPv4' : 'IPv6'}: ${parts.join(', ')}`];
  });
  return [`Its packets reach pods of other nodes: ${families.join('; ')}; seinectl get nodes -o wide lists these nodes.`];
}

function problemsOf({ attachments, known, standing, notReady, warnings }: PodFacts): readonly string[] {
  if (known?.hostNetwork) return [];
  const several = attachments.length > 1;
  return [
    ...(attachments.length === 0 ? ['the API server has it on this node, and the runtime has not requested its network yet'] : []),
    ...attachments.flatMap(({ view, rivals }) => [
      ...view.differences.map((difference) => `${several ? `${view.interface}: ` : ''}${difference}`),
      ...(view.error ? [`the node refuses its entries: ${withoutCode(view.error.message)}`] : []),
      ...rivals.map((rival) => `${rival} also claims one of its addresses`),
    ]),
    ...disagreement(attachments, known),
    ...(standing?.is === 'closed' ? [`it is blocked; only its node can reach it: ${standing.why}`] : []),
    ...(notReady === undefined ? [] : [`the agent is not ready: ${notReady}`]),
    ...warnings,
  ];
}

/** Only if the API server has the pod: kubelet may be late. */
function disagreement(attachments: readonly ExplainedAttachment[], known: KnownPod | undefined): readonly string[] {
  if (!known || known.podIps.length === 0 || attachments.length === 0 || known.phase !== 'Running') return [];
  const own = new Set(attachments.flatMap(({ view }) => view.addresses));
  const others = known.podIps.filter((ip) => !own.has(ip));
  return others.length === 0 ? [] : [`in the API server it has ${others.join(' and ')}, which is not one of its addresses`];
}

function attachmentLines({ view, gateways, flows, ageSeconds }: ExplainedAttachment, { bridge }: PodFacts): readonly string[] {
  const { addresses, interface: name, mac, mtu, hostInterface, ofPort, wantedOfPort, egress, ingress, hostPorts } = view;
  const hops = gateways.length === 0 ? '' : `; it reaches everything else by ${gateways.join(' and ')}`;
  const wanted = flows.reduce((sum, each) => sum + each.wanted, 0);
  const held = flows.reduce((sum, each) => sum + each.held, 0);
  return [
    `It has ${addresses.join(' and ')} on ${name} (${mac}${mtu === null ? '' : `, MTU ${mtu}`})${hops}.`,
    `On the node that is ${hostInterface}, port ${ofPort ?? 'none'} of ${bridge}${ofPort === wantedOfPort ? '' : ` instead of ${wantedOfPort ?? 'none'}`}.`,
    ...(standingPortPattern.test(hostInterface)
      ? [`It uses a pre-plugged port: ${name} is a macvlan over its other end, not a veth.`]
      : []),
    ...(egress ? [`What it sends is limited to ${egress.rate} bit/s, in bursts of ${egress.burst} bits.`] : []),
    ...(ingress ? [`What it receives is limited to ${ingress.rate} bit/s, in bursts of ${ingress.burst} bits.`] : []),
    ...(hostPorts.length > 0 ? [`Host ports of the node are forwarded to it: ${reported(hostPorts)}.`] : []),
    ageSeconds === null
      ? 'None of its flows is on the bridge.'
      : `It has been on the bridge for ${span(ageSeconds)}, according to its oldest flow.`,
    `${held === wanted ? `All ${wanted}` : `${held} of ${wanted}`} flows that it needs are there: ${flows.map(({ table, held: there }) => `${there} in ${table}`).join(', ')}.`,
  ];
}

function servicesLines(services: readonly PodService[]): readonly string[] {
  const text = ({ service, port, addresses }: PodService): string => `${service} port ${port} (${addresses.join(', ')})`;
  const used = services.filter((each) => each.why === undefined);
  const unused = services.filter((each) => each.why !== undefined);
  return [
    used.length === 0
      ? 'No Service of this node has it as an endpoint.'
      : `Services of this node have it as an endpoint: ${reported(used.map(text))}.`,
    ...(unused.length === 0
      ? []
      : [`It is named by, and not used for: ${reported(unused.map((each) => `${text(each)}, because it is ${each.why}`))}.`]),
  ];
}

function reported(texts: readonly string[]): string {
  const more = texts.length - SERVICES_SHOWN;
  return `${texts.slice(0, SERVICES_SHOWN).join('; ')}${more > 0 ? ` and ${more} more` : ''}`;
}

function policyLines({ policies, standing }: PodFacts): readonly string[] {
  if (!standing) return [];
  const { is, ingress, egress } = standing;
  if (is === 'closed') return []; // a problem
  if (is === 'undecided') return ['Its policies are not known yet: until then the flows of the bridge stay in force.'];
  const isolated = [direction('ingress', ingress), direction('egress', egress)].flat();
  if (isolated.length > 0) return isolated;
  if (policies === 0) return ['No NetworkPolicy is in its namespace: it is free.'];
  return [
    `It is free: ${policies === 1 ? 'the NetworkPolicy' : `none of the ${policies} NetworkPolicies`} of its namespace ${policies === 1 ? 'does not isolate' : 'isolates'} it.`,
  ];
}

function direction(name: 'ingress' | 'egress', by: readonly string[]): readonly string[] {
  if (by.length === 0) return [];
  const shown = by.slice(0, POLICIES_SHOWN).join(', ');
  const more = by.length > POLICIES_SHOWN ? ` and ${by.length - POLICIES_SHOWN} more` : '';
  return [`In ${name} it is isolated by ${shown}${more}: only what they allow passes.`];
}

function repairLines(repairs: readonly PodRepair[]): readonly string[] {
  if (repairs.length === 0) return ['No foreign change since the agent started.'];
  const last = repairs
    .slice(-REPAIRS_SHOWN)
    .map(({ at, what, entries }) => `${at} ${what}${entries === null ? '' : `, ${entries} of its entries`}`);
  return [
    `Repaired ${repairs.length === 1 ? 'once' : `${repairs.length} times`}, after foreign changes or a restart of Open vSwitch: ${last.join('; ')}.`,
  ];
}

function span(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} days`;
}
