import { askedDestination } from '../../../dataplane/packet-io/asked-destination.ts';
import type { PacketIn } from '../../../openflow/packet.ts';
import { type DeniedAttempt, protocolNames, readPacketOf } from '../../../policy/denied-log/denied-packet.ts';
import type { SeenConnection } from './attribution.ts';

const protocolNumbers = new Map(Object.entries(protocolNames).map(([number, name]) => [name, Number(number)]));

/** Copy of a packet that opens a connection, and the port by which it entered. */
interface OpeningPacket {
  readonly inPort: number;
  readonly connection: SeenConnection;
}

/** Reads a copy of an admitted packet; undefined if it cannot be read. The number of headers that are followed is limited. */
export function readOpening(packet: Pick<PacketIn, 'fields' | 'data'>): OpeningPacket | undefined {
  const attempt = readPacketOf('egress', packet);
  return attempt && { inPort: attempt.ofPort, connection: connectionOf(attempt, packet.fields) };
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
