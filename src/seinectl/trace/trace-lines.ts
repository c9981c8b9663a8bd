import type { TracedPacket, TraceOnward, TraceOutcome } from '../../api/trace.ts';
import { firstNames } from '../../operations/path/first-names.ts';
import { outcomeLines, policyLines } from '../../operations/path/outcome-lines.ts';
import {
  differsInResult,
  type PathMeaning,
  type TraceTime,
  type TraceVerdict,
  type WholePath,
  type WholeTrace,
} from '../../operations/path/whole-trace.ts';
import type { Room } from '../table.ts';
import { differsFromPacket, probeLines } from './probe-path.ts';

const verdictWords = { allowed: 'ALLOWED', denied: 'DENIED', unknown: 'UNKNOWN' } as const satisfies Record<TraceVerdict, string>;
/** Endpoints that are named in a sentence. */
const NAMED_MAX = 3;
const tones = { allowed: 'good', denied: 'bad', unknown: 'warning' } as const;
/** Lines of a trace, not escaped yet. @param isWide true to print tables without an effect, and flows */
export function traceLines(trace: WholeTrace, meanings: readonly (PathMeaning | undefined)[], isWide: boolean, { paint }: Room): string[] {
  const paths = trace.paths.flatMap((path, at) => {
    const differs = differsInResult(path) || (at === 0 && differsFromPacket(trace));
    const tone = differs ? 'bad' : tones[path.verdict];
    const word = differs ? 'DIFFERS' : verdictWords[path.verdict];
    return [
      `${paint(tone, word)}  ${endsText(trace, path)}`,
      ...(trace.entry === undefined ? [] : [`  ${trace.entry}.`]),
      ...path.segments.flatMap((segment) => segmentLines(segment, isWide)),
      ...path.segments.flatMap(connectionLines),
      ...path.segments.flatMap((segment) => outcomeLines(segment.bridge, segment.node)),
      ...path.segments.flatMap(policyLines),
      ...path.segments.flatMap(differenceLines),
      ...(path.missing ? [`  The part of ${path.missing.node} is unknown: ${path.missing.reason}`] : []),
      ...(at === 0 ? endpointLines(trace, meanings[0]) : []),
      `  ${trace.at ? pastVerdictText(path, trace.at) : verdictsText(path, meanings[at])}`,
      ...meaningLines(path, meanings[at], trace.node),
    ];
  });
  return [...paths, ...probeLines(trace)];
}

/** Lines about the endpoints among which flows choose, and those that objects give the client. */
function endpointLines({ choice, moreEndpoints }: WholeTrace, meaning: PathMeaning | undefined): string[] {
  const others = choice && choice.ofOtherSourcePorts > 0 ? `; packets with other source ports get ${choice.ofOtherSourcePorts} others` : '';
  const chosen = choice ? `flows choose one of ${choice.endpoints}${others}` : '';
  const [given, unchosen = []] = [meaning?.choice ?? '', meaning?.unchosen];
  const text = [chosen, given].filter((each) => each !== '').join(' · ');
  return [
    ...(text === '' ? [] : [`  Endpoints: ${text}.`]),
    ...(moreEndpoints > 0 ? [`  ${moreEndpoints} more endpoints were not traced.`] : []),
    ...(unchosen.length > 0
      ? [`  No flow sends the packet to ${firstNames(unchosen, NAMED_MAX)}, which the objects give this client.`]
      : []),
  ];
}

function endsText({ from, to, packet, way, node, connection, at }: WholeTrace, { endpoints, segments }: WholePath): string {
  const target = `${to}${way === undefined ? '' : `, ${way}`} ${to.includes(packet.destination) ? '' : `${packet.destination} `}${portText(packet)}`;
  const first = endpoints.slice(0, NAMED_MAX).join(', ');
  const more = endpoints.length > NAMED_MAX ? ` and ${endpoints.length - NAMED_MAX} more with the same result` : '';
  const isKnown = segments.some(({ known }) => known && known.from !== 'assumption');
  const which = isKnown ? 'a later packet of an open connection' : 'a packet of a connection that is assumed to be established';
  const established = connection === 'established' ? `, ${which}` : '';
  const past = at ? `, at ${at.asked}` : '';
  return `${from} (${packet.source}, ${node}) -> ${target}${endpoints.length > 0 ? ` -> ${first}${more}` : ''}${established}${past}`;
}

function portText({ destinationPort, protocol }: TracedPacket): string {
  if (protocol === 'ARP') return 'ARP request: the sender asks for the Ethernet address first';
  return destinationPort === undefined ? `${protocol} echo` : `${destinationPort}/${protocol}`;
}

function segmentLines({ node, hops }: WholePath['segments'][number], isWide: boolean): string[] {
  const shown = hops.filter(({ text }) => isWide || text !== '');
  const width = Math.max(...shown.map(({ table }) => table.length), 0);
  const nodeWidth = node.length;
  return shown.flatMap(({ table, text, flow, owner }, at) => {
    const left = at === 0 ? node : ' '.repeat(nodeWidth);
    const line = `  ${left}  ${table.padEnd(width)}  ${text || (flow === null ? 'no flow matches' : 'passes')}`.trimEnd();
    return isWide && flow !== null ? [line, `  ${' '.repeat(nodeWidth)}    ${flow}${owner === null ? '' : `  (${owner})`}`] : [line];
  });
}

function differenceLines({ difference, node }: WholePath['segments'][number]): string[] {
  if (!difference) return [];
  const { table, desired, bridge, owner } = difference;
  return [
    `  The bridge of ${node} lacks the desired flows, first in table ${table}${owner === null ? '' : ` (${owner})`}:`,
    `    desired  ${desired ?? 'no flow'}`,
    `    present  ${bridge ?? 'no flow'}`,
    '    Another program changed flows, OVS refused one, or a change is in progress. The agent repairs it unless repair is paused:',
    `    \`seinectl diff\` and \`seinectl status\` on ${node}.`,
  ];
}

/** Line about the connection of a later packet. */
function connectionLines({ node, known }: WholePath['segments'][number]): string[] {
  if (!known) return [];
  const { from, sourcePort, openedAt, note } = known;
  if (from === 'assumption') return note === undefined ? [] : [`  Connection: ${node} assumes that it is established: ${note}.`];
  const port = sourcePort === undefined ? '' : ` from port ${sourcePort}`;
  const source = from === 'tracker' ? 'connection tracking' : 'the flow log';
  const since = openedAt === undefined ? '' : `, opened at ${openedAt}`;
  return [`  Connection: ${source} of ${node} has it${port}${since}${note === undefined ? '' : `; ${note}`}.`];
}

/** Lines about objects that specify something else than the flows do. */
function meaningLines({ bridge, desired }: WholePath, meaning: PathMeaning | undefined, node: string): string[] {
  const isOther = meaning && (meaning.verdict !== bridge || meaning.unchosen !== undefined);
  if (!isOther || meaning.verdict === 'unknown' || bridge === 'unknown' || desired !== bridge) return [];
  return [
    `  The objects in the API server specify something else: an agent of the path has not received one of them yet, or could not read it.`,
    `    \`seinectl status\` on ${node} shows the age of its copies; \`seinectl get nodes\`, \`get services\` and \`policy pod\` show what is not served as specified.`,
  ];
}

function verdictsText({ desired, bridge, segments }: WholePath, meaning: PathMeaning | undefined): string {
  const tables = segments.reduce((sum, { hops }) => sum + hops.length, 0);
  const milliseconds = segments.reduce((sum, segment) => sum + segment.milliseconds, 0);
  const specified = meaning ? `${meaning.verdict} (${meaning.why})` : 'not compared';
  const results = ['desired', 'bridge'] as const;
  const [wanted, installed] = results.map(
    (which) => `${{ desired, bridge }[which]} (${segments.map((each) => resultText(each[which])).join(', then ')})`,
  );
  return `meaning ${specified} · desired ${wanted} · bridge ${installed} · ${tables} tables in ${milliseconds} ms`;
}

/** Only the flows that agents wanted are known of the past. */
function pastVerdictText({ desired, segments }: WholePath, { records }: TraceTime): string {
  const results = segments.map((each) => resultText(each.desired)).join(', then ');
  const passed = records.filter(({ node }) => segments.some((each) => each.node === node));
  const times = passed.map(({ node, recorded }) => `${recorded} on ${node}`).join(', ');
  return `desired ${desired} (${results}), by the inputs recorded at ${times}; what Open vSwitch had is not known`;
}

function kernelText({ mode, node }: TraceOnward): string {
  return mode === 'service' ? 'to the node, which returns it' : `${mode} to ${node}`;
}

function resultText({ what, to, onward }: TraceOutcome): string {
  const byKernel = onward ? kernelText(onward) : 'to the node';
  return { pod: to, tunnel: `to ${to}`, node: byKernel, answered: to, dropped: to, unreadable: 'unreadable' }[what];
}
