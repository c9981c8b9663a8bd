import type { HistoryEvent } from '../../api/history.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { ClusterClassNumbers, SubjectIntent } from '../../dataplane/compile/compile-entry.ts';
import { compileInputs } from '../../operations/compiler-inputs/compile-inputs.ts';
import type { NodeInputs, PodInput, ServiceInput } from '../../operations/compiler-inputs/node-inputs.ts';
import { podNameOf } from '../../simulate/cluster/bundled-node.ts';
import type { RecordedSource } from './recorded-source.ts';

/** Effect of policies on one direction of a pod, by the classes that its agent wanted. */
interface PastDirection {
  readonly state: 'free' | 'isolated' | 'closed';
  /** Policies, by the last event before the time; null if there is none, or if it does not agree with the class. */
  readonly isolatedBy: readonly string[] | null;
}

/** Pod at a past time, as far as it was recorded. */
export interface PastPod {
  readonly name: string;
  readonly node: string;
  /** Time that was asked for, and that of the record whose inputs were used (RFC 3339). */
  readonly at: string;
  readonly recorded: string;
  readonly interfaces: readonly PastInterface[];
  readonly ingress: PastDirection;
  readonly egress: PastDirection;
  /** Time since when the policies were those (RFC 3339); null if no event before the time is recorded. */
  readonly policiesSince: string | null;
  /** Ports of Services with the pod among their endpoints. */
  readonly services: readonly { readonly service: string; readonly port: string; readonly addresses: readonly string[] }[];
}

interface PastInterface {
  /** Name inside the pod. */
  readonly interface: string;
  readonly addresses: readonly string[];
  readonly mac: string;
  readonly ofPort: number;
  /** Limits (bit/s, bits); null without a limit. */
  readonly egress: { readonly rate: number; readonly burst: number } | null;
  readonly ingress: { readonly rate: number; readonly burst: number } | null;
  /** Number of flows and groups that the agent wanted for it. */
  readonly entries: number;
}

/** Kinds of events about the effect of policies on a pod. */
const standings: ReadonlySet<string> = new Set([
  'policy.free',
  'policy.isolated',
  'policy.blocked',
  'policy.suspendedPod',
  'policy.undecided',
]);

/**
 * Returns a pod as it was at a time.
 *
 * @param name `namespace/name`
 * @throws SeineError `INVALID_INPUT` that names the value: a time outside of the history, or a pod that was not there
 */
export async function podAt(source: RecordedSource, name: string, atMs: number): Promise<PastPod> {
  const { inputs, node, atMs: recordedMs } = await source.inputsAt(atMs);
  const recorded = new Date(recordedMs).toISOString();
  const pods = inputs.pods.filter(({ owner }) => podNameOf(owner) === name);
  if (pods.length === 0)
    throw new SeineError('INVALID_INPUT', `${node} had no pod ${JSON.stringify(name)} by the inputs recorded at ${recorded}`);
  return {
    ...{ name, node, at: new Date(atMs).toISOString(), recorded },
    ...(await effectAt(source, inputs, name, atMs)),
    interfaces: pods.map((pod) => interfaceOf(pod, inputs)),
    services: servicesOf(inputs, new Set(pods.flatMap(({ intent }) => intent.addresses.map(({ text }) => text)))),
  };
}

/** Returns how policies applied to a pod at a time. @param inputs those of that time */
export async function effectAt(
  source: Pick<RecordedSource, 'lastEvent'>,
  { subjects }: Pick<NodeInputs, 'subjects'>,
  name: string,
  atMs: number,
): Promise<Pick<PastPod, 'ingress' | 'egress' | 'policiesSince'>> {
  const event = await source.lastEvent(`pod/${name}`, atMs, (kind) => standings.has(kind));
  const own = subjects.filter(({ owner }) => podNameOf(owner) === name).map(({ intent }) => intent);
  return {
    ingress: directionOf('ingress', own, event),
    egress: directionOf('egress', own, event),
    policiesSince: event?.time ?? null,
  };
}

function interfaceOf({ owner, intent }: PodInput, inputs: NodeInputs): PastInterface {
  let entries = 0;
  compileInputs({ ...inputs, services: [], peers: [] }, { only: new Set([owner]), compiled: (_, { size }) => void (entries += size) });
  const { addresses, mac, ofPort, egress = null, ingress = null } = intent;
  const name = owner.split('/')[3]?.split('@')[0] ?? '';
  return { interface: name, addresses: addresses.map(({ text }) => text), mac, ofPort, egress, ingress, entries };
}

function directionOf(direction: 'ingress' | 'egress', subjects: readonly SubjectIntent[], event: HistoryEvent | undefined): PastDirection {
  // Without a subject the pod has no flows in the entry tables: it sends and receives nothing.
  if (subjects.length === 0 || subjects.some((each) => each[direction] === 'closed')) return { state: 'closed', isolatedBy: null };
  const isIsolated = subjects.some((each) => each[direction] !== undefined || hasClass(each.cluster?.[direction]));
  const named = event?.kind === 'policy.isolated' ? event.data[direction] : [];
  const names = Array.isArray(named) ? named.filter((each) => typeof each === 'string') : [];
  const agrees = event !== undefined && names.length > 0 === isIsolated;
  return { state: isIsolated ? 'isolated' : 'free', isolatedBy: agrees ? names : null };
}

function hasClass(numbers: ClusterClassNumbers | undefined): boolean {
  return numbers?.admin !== undefined || numbers?.baseline !== undefined;
}

function servicesOf({ services }: NodeInputs, ips: ReadonlySet<string>): PastPod['services'] {
  return services
    .filter(({ intent: { cluster, local } }) => [...cluster, ...local].some(({ ip }) => ips.has(ip.text)))
    .map(({ owner, intent }) => ({
      service: owner.replace(/^service\//, '').replace(/:[^:]*$/, ''),
      port: `${intent.port}/${intent.transport.toUpperCase()}`,
      addresses: addressesOf(intent),
    }));
}

function addressesOf({ addresses }: ServiceInput['intent']): readonly string[] {
  const texts = addresses.map(({ kind, ip, port }) => {
    if (kind === 'nodePort') return `node port ${port}`;
    return ip.family === 'ipv6' ? `[${ip.text}]:${port}` : `${ip.text}:${port}`;
  });
  return [...new Set(texts)];
}

/** Lines of `policy pod --at`, not escaped yet. */
export function pastPolicyLines(pod: PastPod): readonly string[] {
  const { name, interfaces, ingress, egress } = pod;
  const addresses = interfaces.flatMap((each) => each.addresses);
  return [
    `Pod ${name} (${addresses.join(', ')}) at ${pod.at}`,
    directionLine('ingress', ingress),
    directionLine('egress', egress),
    sourceLine(pod),
    ...(pod.policiesSince === null ? [] : [`These policies applied since ${pod.policiesSince}, by the timeline of the pod.`]),
    'Not known of that time: rules, their peers and ports (seinectl trace --at has the verdict of a packet), and what Open vSwitch had.',
  ];
}

function directionLine(direction: string, { state, isolatedBy }: PastDirection): string {
  if (state === 'closed') return `${direction}: blocked except for its own node`;
  if (state === 'free') return `${direction}: free, no policy isolates it`;
  return `${direction}: isolated ${isolatedBy ? `by ${isolatedBy.join(', ')}` : 'by policies whose names are not recorded'}`;
}

function sourceLine({ recorded, node }: PastPod): string {
  return `Desired by the agent, by the inputs recorded at ${recorded} on ${node}.`;
}

/** Lines of `explain pod --at`, not escaped yet. */
export function pastPodLines(pod: PastPod): readonly string[] {
  const { name, node, interfaces, ingress, egress, services } = pod;
  return [
    `Pod ${name} on node ${node} at ${pod.at}.`,
    sourceLine(pod),
    ...interfaces.flatMap((each) => [
      `It had ${each.addresses.join(' and ')} on ${each.interface} (${each.mac}), port ${each.ofPort}; the agent wanted ${each.entries} flows for it.`,
      ...(each.egress ? [`What it sent was limited to ${each.egress.rate} bit/s, in bursts of ${each.egress.burst} bits.`] : []),
      ...(each.ingress ? [`What it received was limited to ${each.ingress.rate} bit/s, in bursts of ${each.ingress.burst} bits.`] : []),
    ]),
    servicesLine(services),
    directionLine('ingress', ingress),
    directionLine('egress', egress),
    'Not known of that time: whether its flows were on the bridge, the interface and MTU, its age, host ports, repairs and problems (seinectl timeline',
    `pod ${name} --until ${pod.at} has what was noticed).`,
  ];
}

const SERVICES_SHOWN = 20;

function servicesLine(services: PastPod['services']): string {
  if (services.length === 0) return 'No Service of this node had it as an endpoint.';
  const shown = services
    .slice(0, SERVICES_SHOWN)
    .map(({ service, port, addresses }) => `${service} port ${port} (${addresses.join(', ')})`);
  const more = services.length - shown.length;
  return `Services of this node had it as an endpoint: ${shown.join('; ')}${more > 0 ? ` and ${more} more` : ''}.`;
}
