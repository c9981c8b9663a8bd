import { type FlowDecision, type FlowEnd, type FlowLogState, type FlowSummary, type LossCause, lossCauses } from '../../api/flow-log.ts';
import { safeLine } from '../escape.ts';
import type { Paint, Tone } from '../paint.ts';
import type { MergedFlow } from './merge-flows.ts';

const tones: Readonly<Record<MergedFlow['verdict'], Tone | undefined>> = {
  allowed: undefined,
  denied: 'bad',
  'would-deny': 'warning',
  refused: 'warning',
};

/** Returns the line of a record; with `wide` also addresses, workloads and policies of both ends. */
export function flowLine(flow: MergedFlow, paint: Paint, isWide: boolean): string {
  const { time, event, verdict, protocol, source, destination, service, reason, repeated, nodes } = flow;
  const when = time.slice(11, 23);
  if (event === 'gap')
    return safeLine(`${when} gap     records since ${flow.startedAt ?? 'then'} are missing: ${reason ?? ''}  ${nodes.join()}`);
  const word = (verdict === 'would-deny' ? verdict : event).padEnd(7);
  const tone = tones[verdict];
  const through = service ? ` (service ${serviceText(service)})` : '';
  const parts = [
    `${endText(source, isWide)} -> ${endText(destination, isWide)} ${protocol}${through}`,
    decisionText(flow, isWide),
    countersText(flow),
    reason === undefined ? '' : reason,
    repeated === undefined ? '' : `and ${repeated} more packets`,
    nodes.join(' and '),
  ];
  return `${when} ${tone ? paint(tone, word) : word} ${safeLine(parts.filter((part) => part !== '').join('  '))}`;
}

function serviceText({ address, port, namespace, name }: NonNullable<MergedFlow['service']>): string {
  return name === undefined ? withPort(address, port) : `${namespace}/${name}`;
}

function withPort(address: string, port: number | undefined): string {
  const host = address.includes(':') && port !== undefined ? `[${address}]` : address;
  return port === undefined ? host : `${host}:${port}`;
}

function endText({ address, port, kind, namespace, name }: FlowEnd, isWide: boolean): string {
  const shown = name === undefined ? (isWide ? `${kind} ` : '') : kind === 'pod' ? `${namespace}/${name}` : `${kind} ${name}`;
  if (name === undefined) return shown + withPort(address, port);
  const at = port === undefined ? '' : `:${port}`;
  return isWide ? `${shown}${at} (${address})` : `${shown}${at}`;
}

/** Names the end that denied; else the rules that admitted, those of the receiver first. */
function decisionText({ egress, ingress }: MergedFlow, isWide: boolean): string {
  const text = (direction: string, { by }: FlowDecision): string => `${direction}: ${by.join(', ') || 'no policy'}`;
  const denied = [egress, ingress].some((each) => each?.verdict === 'denied');
  const shown = [
    ...(egress && (isWide || egress.verdict === 'denied' || (!denied && egress.by.length > 0)) ? [text('egress', egress)] : []),
    ...(ingress && (isWide || ingress.verdict === 'denied' || (!denied && ingress.by.length > 0)) ? [text('ingress', ingress)] : []),
  ];
  return shown.join('; ');
}

function countersText({ packets, bytes, estimated, startedAt, endedAt }: MergedFlow): string {
  const lasted = startedAt && endedAt ? `${((Date.parse(endedAt) - Date.parse(startedAt)) / 1_000).toFixed(1)} s  ` : '';
  if (bytes && estimated) return `${lasted}about ${sizeText(bytes.out)} out, ${sizeText(bytes.in)} in (estimated)`;
  if (!packets || !bytes) return lasted.trimEnd();
  return `${lasted}${packets.out} packets ${sizeText(bytes.out)} out, ${packets.in} packets ${sizeText(bytes.in)} in`;
}

/** Returns a number of bytes with a unit of 1,000. @param bytes digits */
export function sizeText(bytes: string): string {
  let value = Number(bytes);
  for (const unit of ['B', 'kB', 'MB', 'GB']) {
    if (value < 1_000) return `${unit === 'B' ? value : value.toFixed(1)} ${unit}`;
    value /= 1_000;
  }
  return `${value.toFixed(1)} TB`;
}

/** Texts of causes why connections have no record, after their number. */
export const lossTexts: Readonly<Record<LossCause, string>> = {
  sampling: 'openings not recorded: not in the sample',
  meter: 'openings not recorded: beyond the rate of their pod',
  rate: 'openings not recorded: beyond the rate of the node',
  queue: 'openings not recorded: OVS could not pass them on',
  ends: 'ends of connections not recorded: beyond a rate, or OVS could not pass them on',
  denied: 'denied packets not recorded: beyond the rate of their pod',
  names: 'names not recorded: too many different ones',
  disk: 'records not written to disk',
  kernel: 'moments in which ends of connections were not read',
};

/** Returns a line for each kind of what an answer lacks; empty if it is complete. */
export function lossLines({ node, enabled, sampling, losses, skipped }: FlowLogState): readonly string[] {
  if (!enabled) return [safeLine(`(${node}: the flow log is off; flowLog.enabled turns it on)`)];
  const lines = lossCauses.filter((cause) => losses[cause] > 0).map((cause) => `(${node}: ${losses[cause]} ${lossTexts[cause]})`);
  if (sampling !== undefined) lines.unshift(`(${node}: 1 of ${sampling} connections is recorded, all denied and refused ones are)`);
  return [...lines, ...(skipped > 0 ? [`(${node}: ${skipped} records skipped: too many for this reader)`] : [])].map(safeLine);
}

/** Returns the ends of a summary as one text. */
export function pairText({ source, destination, service }: FlowSummary): string {
  return `${source} -> ${service === undefined ? destination : `${destination} (service ${service})`}`;
}
