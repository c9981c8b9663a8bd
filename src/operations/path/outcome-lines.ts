import type { TraceOnward, TraceOutcome } from '../../api/trace.ts';
import { decidedEnds, type WholePath } from './whole-trace.ts';

const answers: Readonly<Record<string, string>> = {
  noEndpoint: 'The agent refuses the connection: the Service has no endpoint for this client',
  unservedPort: 'The agent refuses the connection: no Service has this address and port',
  refused: 'The agent refuses the connection, because policy denies it',
  halfOpen: 'The agent decides about the half-open connection',
  timeExceeded: 'The agent reports to the sender that the TTL ended',
  untranslated: 'The agent repeats the packet: no free source port was found',
};

/** Sentences about the end of a path on a node, indented by two spaces for each level. Not escaped. */
export function outcomeLines({ what, to, drop, onward }: TraceOutcome, node: string): string[] {
  switch (what) {
    case 'pod':
      return [`  Delivered to ${to} on ${node}.`];
    case 'node':
      if (onward) return [`  ${onwardText(onward, node)}`];
      return [`  Given to the kernel of ${node}, which routes it on: its firewall and routes are not part of this trace.`];
    case 'tunnel':
      return [];
    case 'unreadable':
      return [`  A flow on ${node} cannot be read: ${to}.`];
    case 'answered':
      return [`  ${answers[to] ?? `Given to the agent (${to})`} (${drop?.name ?? to}, table ${drop?.table}) on ${node}.`];
    case 'dropped':
      return drop ? dropLines(drop, node) : [`  Dropped on ${node}.`];
  }
}

function onwardText({ node: to, mode, device, source }: TraceOnward, node: string): string {
  if (mode === 'service') return `The kernel of ${node} returns it to the bridge: it is for a Service's port of the node.`;
  if (mode === 'blocked')
    return `The kernel of ${node} drops it: there is no encrypted way to ${to} yet, and wireGuard.unencryptedPeers is drop.`;
  if (mode === 'wireguard') return `The kernel of ${node} sends it by ${device}, encrypted, to ${to}.`;
  const from = source === undefined ? '' : `, with the source ${source}`;
  return `The kernel of ${node} sends it ${device === undefined ? 'by its own routes' : `by ${device}`}, without a tunnel, to ${to}${from}.`;
}

function dropLines({ table, name, message, cause, remedy, packets }: NonNullable<TraceOutcome['drop']>, node: string): string[] {
  return [
    `  ${table === 'kernel' ? 'Not served' : `Dropped in ${table}`} on ${node} (${name})${packets === null ? '' : `; ${packets} such packets so far`}: ${message}.`,
    `    Usual cause: ${cause}.`,
    `    What to do: ${remedy}.`,
  ];
}

/** Sentences about the policies that decide, indented by two spaces. Not escaped. */
export function policyLines({ policy }: WholePath['segments'][number]): string[] {
  return decidedEnds(policy).map(({ direction, pod, verdict, by, why, change }) => {
    const names = by.join(', ');
    if (verdict === 'allow') return `  Policy: ${direction} of ${pod} is allowed by ${names}.`;
    return `  Policy: ${direction} of ${pod} is denied: ${why}${names === '' ? '' : `; isolated by ${names}`}. To allow it: ${change}.`;
  });
}
