import type { NodeProbes, ProbeEnd, SeenProbe, SentProbe } from '../../api/trace.ts';
import type { NodeQuestion, ProbeResult, WholePath, WholeTrace } from './whole-trace.ts';

/** Reaches the agents that send and see probes. */
export interface ProbeAgents {
  readonly send: (node: string, question: NodeQuestion) => Promise<Answer<NodeProbes>>;
  /** Waits for a probe on the next node. @param peer node that it comes from */
  readonly seen: (node: string, number: number, peer: string) => Promise<Answer<SeenProbe>>;
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
    const asked = { ...question, family: trace.family };
    let probe = await probeOnce(trace, asked, agents);
    for (let attempt = 1; attempt < ATTEMPTS && probe.verdict === 'lost'; attempt++) probe = await probeOnce(trace, asked, agents);
    probed.push({ ...trace, probe });
  }
  return probed;
}

async function probeOnce(trace: WholeTrace, question: NodeQuestion, agents: ProbeAgents): Promise<ProbeResult> {
  const sent = await agents.send(trace.node, question);
  if ('failure' in sent) return { verdict: 'unknown', packet: trace.packet, ends: [], reason: sent.failure, notes: [] };
  const [probe] = sent.answer.probes;
  if (!probe) return { verdict: 'unknown', packet: trace.packet, ends: [], reason: `${trace.node} sent no probe`, notes: [] };
  return await follow(trace.node, probe, agents);
}

async function follow(node: string, { packet, end, notes, number }: SentProbe, agents: ProbeAgents): Promise<ProbeResult> {
  const known = { packet, notes };
  if (!end) {
    if (packet.protocol === 'ARP') return { ...known, verdict: 'unknown', ends: [] };
    return {
      ...known,
      verdict: 'lost',
      ends: [],
      reason: `it ended on ${node} at no flow of Seine: \`seinectl diff\` there shows flows of others`,
    };
  }
  const first = { node, end };
  if (notes.some((note) => note.startsWith('connection tracking knows'))) return { ...known, verdict: 'unknown', ends: [first] };
  if (end.what === 'dropped') return { ...known, verdict: 'denied', ends: [first] };
  if (end.what === 'pod' || (end.what === 'node' && !end.onward)) return { ...known, verdict: 'allowed', ends: [first] };
  if (end.what !== 'tunnel') {
    const reason = `a probe ends where ${node} gives packets to its kernel, which sends them to ${end.onward?.node}: the rest is from the bridge alone`;
    return { ...known, verdict: 'unknown', ends: [first], reason };
  }
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

/** Reports whether the data path did not do what the flows say. */
export function differsFromPacket({ probe, paths }: WholeTrace): boolean {
  const path = pathOfProbe(probe, paths);
  if (!probe || !path || probe.verdict === 'unknown' || path.bridge === 'unknown') return false;
  return probe.verdict !== path.bridge;
}

/** Path to the endpoint of the probe: a Service may have several. */
function pathOfProbe(probe: ProbeResult | undefined, paths: readonly WholePath[]): WholePath | undefined {
  const last = probe?.ends.at(-1)?.end.packet;
  const endpoint = `${last?.destination}:${last?.destinationPort ?? 0}`;
  return paths.find(({ endpoints }) => endpoints.includes(endpoint)) ?? paths[0];
}

/** Lines about a probe, not escaped yet. */
export function probeLines(trace: WholeTrace): string[] {
  const { probe } = trace;
  if (!probe) return [];
  const { verdict, ends, reason, notes, packet } = probe;
  const ports = packet.sourcePort === undefined ? '' : ` from port ${packet.sourcePort}`;
  const places = ends.map(({ node, end }) => `${node}: ${endText(end)}`).join('; ');
  const text = [places, ...(reason === undefined ? [] : [reason])].filter((part) => part !== '').join('; ');
  return [
    `  packet ${verdict}${text === '' ? '' : ` (${text})`}, by a probe${ports} that was not delivered`,
    ...notes.map((note) => `    ${note}`),
    ...(differsFromPacket(trace) ? difference : []),
  ];
}

const difference = [
  '  The data path does not do what its flows say. Causes, with what to do:',
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
      return onward ? `reached the kernel, for ${onward.node}` : 'reached the kernel of the node';
    default:
      return `dropped in ${table} (${drop?.name ?? to}): ${drop?.message ?? ''}`;
  }
}
