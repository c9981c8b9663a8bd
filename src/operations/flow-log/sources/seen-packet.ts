import { askedDestination } from '../../../dataplane/packet-io/asked-destination.ts';
import { numberOf } from '../../../dataplane/packet-io/repeated.ts';
import type { PacketIn } from '../../../openflow/packet.ts';
import { type DeniedAttempt, protocolNames, readPacketOf, type TcpNumbers } from '../../../policy/denied-log/denied-packet.ts';
import type { SeenConnection } from './attribution.ts';

const protocolNumbers = new Map(Object.entries(protocolNames).map(([number, name]) => [name, Number(number)]));

/** Copy of a packet that opens a connection, and the port by which it entered. */
export interface OpeningPacket {
  readonly inPort: number;
  readonly connection: SeenConnection;
  /** Present in a TCP segment. */
  readonly tcp?: TcpNumbers;
}

/** Reads a copy of an admitted packet; undefined if it cannot be read. The number of headers that are followed is limited. */
export function readOpening(packet: Pick<PacketIn, 'fields' | 'data'>): OpeningPacket | undefined {
  const attempt = readPacketOf('egress', packet);
  if (!attempt) return undefined;
  const { ofPort, tcp } = attempt;
  return { inPort: ofPort, connection: connectionOf(attempt, packet.fields), ...(tcp && { tcp }) };
}

/** Bit of `ct_state`. Source: ovs-fields(7) "ct_state". */
const REPLY = 0x08;

/** Copy of a later packet of a connection, which is shown as its client opened it. */
export interface LaterPacket {
  readonly connection: SeenConnection;
  /** True if the end that was connected to sent the packet. */
  readonly isReply: boolean;
  /** Absent if the packet is no TCP segment. */
  readonly tcp?: TcpNumbers;
}

/** Reads a copy of a packet of a known connection; undefined if it cannot be read. Pure. */
export function readLater(packet: Pick<PacketIn, 'fields' | 'data'>): (LaterPacket & Pick<OpeningPacket, 'inPort'>) | undefined {
  const read = readOpening(packet);
  if (!read) return undefined;
  const isReply = (numberOf(packet.fields.ct_state) & REPLY) !== 0;
  const { source, destination } = read.connection;
  const ends = isReply ? { source: destination, destination: source } : {};
  return { inPort: read.inPort, isReply, connection: { ...read.connection, ...ends }, ...(read.tcp && { tcp: read.tcp }) };
}

/** Returns the ends of a packet as those of its connection. @param fields pipeline fields, for the address that the client requested */
export function connectionOf(attempt: DeniedAttempt, fields: PacketIn['fields']): SeenConnection {
  const { direction, own, peer, protocol, ports } = attempt;
  const [source, destination] = direction === 'egress' ? [own, peer] : [peer, own];
  const asked = askedDestination(fields);
  return {
    protocol: protocolNumbers.get(protocol) ?? Number(protocol),
    source: { ip: source, ...(ports && { port: ports.source }) },
    destination: { ip: destination, ...(ports && { port: ports.destination }) },
    ...(asked && ports && { asked }),
  };
}
