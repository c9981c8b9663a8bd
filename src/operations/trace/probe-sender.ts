import type { SentProbe, TraceOnward } from '../../api/trace.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { isSpecial } from '../../base/net/special-ranges.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { isOwn, type KernelPacket } from './kernel-paths.ts';
import type { TracedEnds } from './trace-ends.ts';
import type { TraceQuestion } from './trace-question.ts';

/** Port by which a probe enters the bridge, or why no packet that is sent here takes the path of such packets. */
type ProbeEntry = { readonly ofPort: number } | { readonly unsent: string; readonly onward?: TraceOnward; readonly isOwn?: true };

/**
 * Returns the port at which packets of the sender enter the bridge. Those of the node and of hosts outside come from the gateway, after
 * the kernel of the node has admitted and routed them: a probe begins behind it.
 *
 * @throws SeineError `INVALID_INPUT` for a sender whose packets cannot be sent here
 */
export function probeEntry(
  { from, protocol }: TraceQuestion,
  { source, destination, port }: TracedEnds,
  environment: NodeEnvironment,
  onwardOf: (packet: KernelPacket) => TraceOnward | undefined,
): ProbeEntry {
  if (from.pod) return { ofPort: from.pod.ofPort };
  if (from.kind === 'tunnel')
    throw refused(
      from.name,
      'arrives in a tunnel, which no packet of this node does: trace from NAMESPACE/POD with a kubeconfig, and its own node sends the probe',
    );
  // The kernel drops such packets before the bridge; OVS is not prepared for all of them.
  if (isSpecial(source)) throw refused(from.name, `cannot be sent from: no packet with the source ${source.text} is routed`);
  if (source.text === destination.text) throw refused(from.name, 'is the receiver too: such packets stay in the kernel of the sender');
  if (isOwn(destination, environment))
    return { unsent: 'the node itself receives such packets: its bridge does not have them', isOwn: true };
  const ports = protocol === 'icmp' || port === undefined ? {} : { transport: protocol, port };
  const onward = onwardOf({ source, destination, ...ports, ...(from.kind !== 'direct' && { isBeforeBridge: true }) });
  if (!onward) return { ofPort: environment.gateway.ofPort };
  const sends = from.kind === 'node' ? 'sends' : 'forwards';
  return { unsent: `the kernel of the node ${sends} such packets itself, past its bridge`, onward };
}

function refused(name: string, why: string): SeineError {
  return new SeineError('INVALID_INPUT', `from: ${JSON.stringify(name)} ${why}`);
}

/** Returns the answer for a probe that is not sent; the kernel's way to the next node is its end here. */
export function unsentProbe(
  { sourcePort }: TraceQuestion,
  { source, destination, port }: TracedEnds,
  protocol: string,
  { unsent, onward, isOwn: isAtEnd }: Exclude<ProbeEntry, { ofPort: number }>,
): SentProbe {
  const ends = { source: source.text, destination: destination.text };
  const packet = { protocol, ...ends, ttl: 64, ...(port !== undefined && { sourcePort, destinationPort: port }) };
  const node = { what: 'node', to: 'the node', table: 'kernel', packet } as const;
  const end = onward ? { ...node, onward } : isAtEnd && node;
  return {
    family: source.family,
    number: 0,
    packet,
    end: end ?? null,
    notes: [`no probe was sent here: ${unsent}`],
    unsent: true,
    milliseconds: 0,
  };
}
