import type { NodeAttempts, NodeProbes, PodAttempt, ProbeEnd, SeenProbe, SentProbe } from '../../api/trace.ts';
import type { NodeQuestion, ProbeResult, WholePath, WholeTrace } from '../../operations/path/whole-trace.ts';

/** Reaches the agents that send and see probes. */
export interface ProbeAgents {
  readonly send: (node: string, question: NodeQuestion) => Promise<Answer<NodeProbes>>;
  /** Waits for a probe on the next node. @param peer node that it comes from */
  readonly seen: (node: string, number: number, peer: string) => Promise<Answer<SeenProbe>>;
  /** Opens a connection from the sender. */
  readonly connect: (node: string, question: NodeQuestion) => Promise<Answer<NodeAttempts>>;
}

type Answer<T> = { readonly answer: T } | { readonly failure: string };

/** A packet may be lost on a busy node: several in a row are not. */
const ATTEMPTS = 3;

/**
 * Sends a probe for each trace, from the same node, and follows it to the next node.
 *
 * @returns the traces with the results
 */
export async function withProbes(
  traces: readonly WholeTrace[],
  question: NodeQuestion,
  agents: ProbeAgents,
): Promise<readonly WholeTrace[]> {
  const probed: WholeTrace[] = [];
  // One after another: agents limit them.
  for (const trace of traces) {
    const asked = { ...question, family: trace.family, ...targetOf(trace) };
    const probe = await probeOften(trace, asked, agents);
    const isOverTunnel = probe.verdict === 'allowed' && probe.ends[0]?.end.what === 'tunnel';
    probed.push({ ...trace, probe: isOverTunnel ? await withFullSize(trace, asked, agents, probe) : probe });
  }
  return probed;
}

/** A Service with several addresses for hosts outside has a trace for each. */
function targetOf({ way, packet: { destination, destinationPort, protocol } }: WholeTrace): Pick<NodeQuestion, 'to' | 'port'> | undefined {
  if (way === undefined) return undefined;
  return { to: destination, port: destinationPort === undefined ? 'icmp' : `${destinationPort}/${protocol}` };
}

/** Sends a probe as large as packets of pods may be: a network with a smaller MTU passes small ones only. */
async function withFullSize(trace: WholeTrace, question: NodeQuestion, agents: ProbeAgents, small: ProbeResult): Promise<ProbeResult> {
  const full = await probeOften(trace, { ...question, size: 'full' }, agents);
  if (full.verdict === 'unknown') return { ...small, notes: [...small.notes, unknownFull(full)] };
  if (full.verdict !== 'lost') return small;
  const [first, second] = small.ends;
  const reason = `small packets arrive on ${second?.node}, and packets as large as pods send them do not: the MTU of the network is too small; \`seinectl check --peer ${second?.node}\` on ${first?.node} prints the value for defaultMTU`;
  return { ...full, reason };
}

function unknownFull({ reason, notes }: ProbeResult): string {
  return `a packet as large as pods send them was not tried: ${reason ?? notes[0] ?? 'no result'}`;
}

/** Sends a probe again while it is lost, or the agent has chosen the source port of a connection. */
async function probeOften(trace: WholeTrace, question: NodeQuestion, agents: ProbeAgents): Promise<ProbeResult> {
  let probe = await probeOnce(trace, question, agents);
  const isToRepeat = ({ verdict, notes }: ProbeResult): boolean =>
    verdict === 'lost' || (question['source-port'] === undefined && notes.some(isOfKnownConnection));
  for (let attempt = 1; attempt < ATTEMPTS && isToRepeat(probe); attempt++) probe = await probeOnce(trace, question, agents);
  return probe;
}

function isOfKnownConnection(note: string): boolean {
  return note.startsWith('connection tracking knows');
}

async function probeOnce(trace: WholeTrace, question: NodeQuestion, agents: ProbeAgents): Promise<ProbeResult> {
  const sent = await agents.send(trace.node, question);
  if ('failure' in sent) return { verdict: 'unknown', packet: trace.packet, ends: [], reason: sent.failure, notes: [] };
  const [probe] = sent.answer.probes;
  if (!probe) return { verdict: 'unknown', packet: trace.packet, ends: [], reason: `${trace.node} sent no probe`, notes: [] };
  return await follow(trace.node, probe, agents);
}

async function follow(node: string, { packet, end, notes, number, unsent }: SentProbe, agents: ProbeAgents): Promise<ProbeResult> {
  const known = { packet, notes, ...(unsent && { unsent }) };
  if (!end) {
    // Older agents do not report that they have sent none.
    if (unsent || packet.protocol === 'ARP') return { ...known, unsent: true, verdict: 'unknown', ends: [] };
    const reason = `it ended on ${node} at no flow of Seine: \`seinectl diff\` there shows flows of others`;
    return { ...known, verdict: 'lost', ends: [], reason };
  }
  const first = { node, end };
  if (notes.some(isOfKnownConnection)) return { ...known, verdict: 'unknown', ends: [first] };
  const verdict = verdictOf(end);
  if (verdict) return { ...known, verdict, ends: [first] };
  if (end.what !== 'tunnel') return await behindKernel(first, known, agents);
  const seen = await agents.seen(end.to, number, node);
  if ('failure' in seen)
    return { ...known, verdict: 'unknown', ends: [first], reason: `${end.to} does not report its end: ${seen.failure}` };
  const arrived = seen.answer.end;
  if (!arrived) {
    const reason = `it left ${node} through the tunnel, and did not arrive on ${end.to}: \`seinectl check --peer ${end.to}\` on ${node} tests network, firewall and MTU`;
    return { ...known, verdict: 'lost', ends: [first], reason };
  }
  const ends = [first, { node: end.to, end: arrived }];
  return { ...known, verdict: arrived.what === 'dropped' ? 'denied' : 'allowed', ends };
}

/** Verdict of an end; undefined where the packet continues on another node. */
function verdictOf({ what, onward }: ProbeEnd): 'allowed' | 'denied' | undefined {
  if (what === 'dropped' || onward?.mode === 'blocked') return 'denied';
  return what === 'pod' || (what === 'node' && !onward) ? 'allowed' : undefined;
}

/**
 * Sends another probe on the next node, from where its kernel gives such packets to the bridge: the kernels of the nodes carry the packets,
 * which the bit of a probe does not survive.
 */
async function behindKernel(
  first: ProbeResult['ends'][number],
  known: Pick<ProbeResult, 'packet' | 'notes'>,
  agents: ProbeAgents,
): Promise<ProbeResult> {
  const { node, end } = first;
  const next = end.onward?.node ?? '';
  const isSame = node === next;
  const between = isSame
    ? `the kernel of ${node} translates the port, which no probe tests: \`seinectl check\` does`
    : `between ${node} and ${next} their kernels carry the packets, which no probe tests: \`seinectl check --peer ${next}\` on ${node} does`;
  const sent = await agents.send(next, fromKernel(first));
  const unknown = (why: string): ProbeResult => ({ ...known, verdict: 'unknown', ends: [first], reason: `${between}; ${next}: ${why}` });
  if ('failure' in sent) return unknown(sent.failure);
  const [probe] = sent.answer.probes;
  if (!probe) return unknown('it sent no probe');
  if (!probe.end) return unknown(probe.notes[0] ?? 'the second probe ended at no flow of Seine: `seinectl diff` there');
  if (probe.notes.some(isOfKnownConnection)) return unknown('connection tracking knows a connection with this source port');
  return {
    ...known,
    notes: [...known.notes, between],
    verdict: verdictOf(probe.end) ?? 'unknown',
    ends: [first, { node: next, end: probe.end }],
  };
}

function fromKernel({ node, end: { packet, onward } }: ProbeResult['ends'][number]): NodeQuestion {
  const { sourcePort, destination, destinationPort, protocol } = packet;
  const source = onward?.source ?? packet.source;
  return {
    from: `direct:${node}/${source}`,
    to: destination,
    family: source.includes(':') ? 'ipv6' : 'ipv4',
    port: destinationPort === undefined ? 'icmp' : `${destinationPort}/${protocol}`,
    ...(destinationPort !== undefined && sourcePort !== undefined && { 'source-port': String(sourcePort) }),
  };
}

/** Opens a connection from the sender of each trace. @returns the traces with the outcomes */
export async function withConnections(
  traces: readonly WholeTrace[],
  question: NodeQuestion,
  agents: Pick<ProbeAgents, 'connect'>,
): Promise<readonly WholeTrace[]> {
  const connected: WholeTrace[] = [];
  for (const trace of traces) {
    const reply = await agents.connect(trace.node, { ...question, family: trace.family });
    const connect = 'failure' in reply ? reply.failure : (reply.answer.attempts[0] ?? `${trace.node} made no attempt`);
    connected.push({ ...trace, connect });
  }
  return connected;
}

/** Outcomes that show that packets pass in both directions: the receiver, or something in its place, answered. */
const answered: ReadonlySet<PodAttempt['outcome']> = new Set(['connected', 'answered', 'refused']);

/** Reports whether no answer came although the flows let the packet pass. A denial may be answered, so the reverse is no difference. */
function differsFromConnection({ connect, paths }: WholeTrace): boolean {
  if (connect === undefined || typeof connect === 'string' || paths[0]?.bridge !== 'allowed') return false;
  return !answered.has(connect.outcome);
}

/** Reports whether the data path did not do what the flows say. */
export function differsFromPacket(trace: WholeTrace): boolean {
  return differsFromProbe(trace) || differsFromConnection(trace);
}

function differsFromProbe({ probe, paths }: WholeTrace): boolean {
  const path = pathOfProbe(probe, paths);
  if (!probe || !path || probe.verdict === 'unknown' || path.bridge === 'unknown') return false;
  return probe.verdict !== path.bridge;
}

/** Path to the endpoint of the probe: a Service may have several. */
export function pathOfProbe(probe: ProbeResult | undefined, paths: readonly WholePath[]): WholePath | undefined {
  const last = probe?.ends.at(-1)?.end.packet;
  const endpoint = `${last?.destination}:${last?.destinationPort ?? 0}`;
  return paths.find(({ endpoints }) => endpoints.includes(endpoint)) ?? paths[0];
}

/** Lines about a probe, not escaped yet. */
export function probeLines(trace: WholeTrace): string[] {
  const lines = [...linesOfProbe(trace), ...linesOfConnection(trace)];
  return differsFromPacket(trace) ? [...lines, ...difference] : lines;
}

function linesOfConnection({ connect }: WholeTrace): string[] {
  if (connect === undefined) return [];
  if (typeof connect === 'string') return [`  connection unknown: ${connect}`];
  const { outcome, from, to, port, milliseconds } = connect;
  return [
    `  connection ${outcome} after ${milliseconds} ms, from a socket of the pod: ${from} -> ${to}${port === undefined ? '' : ` port ${port}`}`,
  ];
}

function linesOfProbe({ probe }: WholeTrace): string[] {
  if (!probe) return [];
  const { verdict, ends, notes, packet, unsent } = probe;
  const ports = packet.sourcePort === undefined ? '' : ` from port ${packet.sourcePort}`;
  const text = probeText(probe);
  const by = unsent && ends.length < 2 ? '' : `, by a probe${ports} that was not delivered`;
  return [`  packet ${verdict}${text === '' ? '' : ` (${text})`}${by}`, ...notes.map((note) => `    ${note}`)];
}

/** Where a probe ended on each node, and why it was lost or is unknown. */
export function probeText({ ends, reason }: ProbeResult): string {
  const places = ends.map(({ node, end }) => `${node}: ${endText(end)}`).join('; ');
  return [places, ...(reason === undefined ? [] : [reason])].filter((part) => part !== '').join('; ');
}

const difference = [
  '  The flows let the packet pass, or drop it, and the data path does not do so. Causes, with what to do:',
  '    nothing listens, or the application does not answer: look at the receiver; a probe that is allowed shows this',
  '    packets lost between the nodes: `seinectl check --peer NODE` on both nodes tests tunnel, firewall and MTU',
  '    another program filters packets: `seinectl check` names it as firewall.pods',
  '    a cached decision that is out of date: `ovs-appctl revalidator/purge` on the node; the agent does this by itself for OVS before 3.5',
];

function endText({ what, to, drop, table, onward }: ProbeEnd): string {
  switch (what) {
    case 'pod':
      return `reached the output to ${to}`;
    case 'tunnel':
      return `left through the tunnel to ${to}`;
    case 'node':
      if (onward?.mode === 'service') return 'reached the kernel of the node, which returns it to the bridge';
      return onward ? `reached the kernel, for ${onward.node}` : 'reached the kernel of the node';
    default:
      return `dropped in ${table} (${drop?.name ?? to}): ${drop?.message ?? ''}`;
  }
}
