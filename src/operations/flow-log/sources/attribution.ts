import type { FlowDecision } from '../../../api/flow-log.ts';
import type { Ip } from '../../../base/net/ip.ts';
import { protocolNames } from '../../../policy/denied-log/denied-packet.ts';
import { interpret } from '../../../policy/matrix/interpret.ts';
import type { PolicyDirection, PolicyMatrix } from '../../../policy/matrix/matrix.ts';
import type { RecordedEnd, RecordedService } from '../records/flow-record.ts';

/** Knowledge of this node about addresses. */
export interface AddressNames {
  /** Returns `namespace/name` of a pod, or `node NAME`; undefined if the address has no known owner. */
  readonly ownerOf: (address: Ip) => string | undefined;
  readonly isInPodNetwork: (address: Ip) => boolean;
  /** Returns `namespace/name` of the Service at an address and port. */
  readonly serviceAt: (address: Ip, port: number | undefined, protocol: string) => string | undefined;
}

/** Ends of a connection, and the address that its client requested if that is of a Service. */
export interface SeenConnection {
  readonly protocol: number;
  readonly source: { readonly ip: Ip; readonly port?: number };
  readonly destination: { readonly ip: Ip; readonly port?: number };
  readonly asked?: { readonly ip: Ip; readonly port?: number };
}

/** Connection that has ended. Times are Unix times in ms. */
export interface ClosedConnection extends SeenConnection {
  readonly packets?: { readonly out: number; readonly in: number };
  readonly bytes?: { readonly out: number; readonly in: number };
  /** True if the bytes are an estimate; then the packets are not known. */
  readonly estimated?: true;
  readonly startedMs?: number;
  readonly endedMs: number;
}

/** Connection that was denied at one end, with the policies that did it. */
export interface DeniedConnection extends SeenConnection {
  readonly direction: 'ingress' | 'egress';
  readonly by: readonly string[];
  readonly reason: string;
}

const nodePrefix = 'node ';

/** Returns an end with the name that is valid now. Pure. */
export function namedEnd({ ip, port }: SeenConnection['source'], { ownerOf, isInPodNetwork }: AddressNames): RecordedEnd {
  const owner = ownerOf(ip);
  const place = { ip, ...(port !== undefined && { port }) };
  if (owner === undefined) return { ...place, kind: isInPodNetwork(ip) ? 'unknown' : 'outside' };
  return owner.startsWith(nodePrefix)
    ? { ...place, kind: 'node', name: owner.slice(nodePrefix.length) }
    : { ...place, kind: 'pod', name: owner };
}

/** Returns the Service that the client requested; undefined if it requested the destination itself. Pure. */
export function namedService({ protocol, destination, asked }: SeenConnection, { serviceAt }: AddressNames): RecordedService | undefined {
  if (!asked || (asked.ip.text === destination.ip.text && asked.port === destination.port)) return undefined;
  const name = serviceAt(asked.ip, asked.port, protocolNames[protocol] ?? String(protocol));
  return { ...asked, ...(name !== undefined && { name }) };
}

/**
 * Returns the decision of the policies of one end; undefined if the end is not a pod of this node. Pure.
 *
 * @param throughService true if the client requested a Service: only then policies decide about a pod that reaches itself
 */
export function decisionAt(
  matrix: PolicyMatrix,
  direction: PolicyDirection,
  { protocol, source, destination }: { readonly protocol: number; readonly source: RecordedEnd; readonly destination: RecordedEnd },
  throughService: boolean,
): FlowDecision | undefined {
  const [own, peer] = direction === 'egress' ? [source, destination] : [destination, source];
  if (own.kind !== 'pod' || own.name === undefined || !matrix.subjects.has(own.name)) return undefined;
  const answer = interpret(matrix, {
    direction,
    pod: own.name,
    address: peer.ip.text,
    protocol: protocolNames[protocol] ?? String(protocol),
    throughService,
    ...(destination.port !== undefined && { port: destination.port }),
  });
  return { verdict: answer.verdict === 'deny' ? 'denied' : 'allowed', by: answer.why === 'decision' ? answer.by : [] };
}
