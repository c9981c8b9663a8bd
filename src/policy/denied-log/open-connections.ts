import type { OpenConnections } from '../../api/open-connections.ts';
import type { Ip } from '../../base/net/ip.ts';
import { ctMark } from '../../dataplane/pipeline/fields.ts';
import { zones } from '../../dataplane/pipeline/well-known.ts';
import { type TrackedConnection, tcpEnded } from '../../netlink/conntrack.ts';
import { interpret } from '../matrix/interpret.ts';
import { type PolicyDirection, type PolicyMatrix, policyDirections } from '../matrix/matrix.ts';
import { type DeniedAttempt, protocolNames } from './denied-packet.ts';

interface JudgedPods {
  readonly matrix: PolicyMatrix;
  /** Pods of this node to which policies apply, `namespace/name`. */
  readonly policed: ReadonlySet<string>;
}

/**
 * Yields connections of the bridge in conntrack that the current policies deny, once for each end that is a pod of this node, including
 * idle ones. Connections that were never admitted, and TCP connections closed by both ends, are skipped.
 *
 * Yields undefined for each connection: there may be hundreds of thousands, and the caller lets other work run.
 */
export function* deniedConnections(
  connections: Iterable<TrackedConnection>,
  { matrix, policed }: JudgedPods,
): Generator<{ readonly pod: string; readonly attempt: DeniedAttempt } | undefined> {
  const podAt = new Map([...matrix.subjects].flatMap(([pod, { addresses }]) => addresses.map((address) => [address, pod] as const)));
  for (const connection of connections) {
    yield;
    if (!isLiving(connection)) continue;
    for (const direction of policyDirections) {
      const { own, peer } = endsOf(connection, direction);
      const pod = podAt.get(own.text);
      if (pod === undefined || !policed.has(pod)) continue;
      const attempt = attemptOf(connection, direction);
      const { protocol, ports } = attempt;
      const masqueraded = isOf(connection, externalMark);
      // Only a Service returns a connection to its pod.
      const way = { masqueraded, throughService: own.text === peer.text };
      const packet = { direction, pod, address: peer.text, protocol, ...way, ...(ports ? { port: ports.destination } : {}) };
      if (interpret(matrix, packet).verdict === 'deny') yield { pod, attempt };
    }
  }
}

/** Returns the ends of a connection of the bridge that was admitted, and that is not closed by both ends; undefined for others. */
export function livingEnds(connection: TrackedConnection): Omit<OpenConnections, 'connections'> | undefined {
  if (!isLiving(connection)) return undefined;
  const { ipProtocol, original, reply } = connection;
  const isTranslated = original.dst.text !== reply.src.text || original.dstPort !== reply.srcPort;
  return {
    protocol: protocolNames[ipProtocol] ?? String(ipProtocol),
    source: original.src.text,
    destination: reply.src.text,
    port: reply.srcPort,
    ...(isTranslated && { service: { address: original.dst.text, port: original.dstPort } }),
  };
}

/** Returns the ends of a living connection with the address that its client requested, like `livingEnds`. */
export function trackedConnection(connection: TrackedConnection) {
  if (!isLiving(connection)) return undefined;
  const { ipProtocol, original, reply } = connection;
  return {
    protocol: ipProtocol,
    source: { ip: original.src, port: original.srcPort },
    destination: { ip: reply.src, port: reply.srcPort },
    asked: { ip: original.dst, port: original.dstPort },
  };
}

const unadmittedMark = ctMark.unadmitted('yes');
const externalMark = ctMark.source('external');

function isLiving(connection: TrackedConnection): boolean {
  const { family, zone, tcpState } = connection;
  return zone === zones[family].main && !isOf(connection, unadmittedMark) && !(tcpState !== undefined && tcpEnded.has(tcpState));
}

function isOf({ mark = 0 }: TrackedConnection, { value, mask }: typeof unadmittedMark): boolean {
  return (mark & mask) >>> 0 === value;
}

/** Uses the address of the endpoint that replies, not that of the Service. */
function endsOf({ original, reply }: TrackedConnection, direction: PolicyDirection): { readonly own: Ip; readonly peer: Ip } {
  return direction === 'egress' ? { own: original.src, peer: reply.src } : { own: reply.src, peer: original.src };
}

function attemptOf(connection: TrackedConnection, direction: PolicyDirection): DeniedAttempt {
  const { ipProtocol, original, reply } = connection;
  const protocol = protocolNames[ipProtocol] ?? String(ipProtocol);
  return { direction, ...endsOf(connection, direction), protocol, ports: { source: original.srcPort, destination: reply.srcPort } };
}
