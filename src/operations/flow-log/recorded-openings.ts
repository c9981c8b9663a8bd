import type { NumberedFlow } from './records/flow-record.ts';
import type { FlowRing } from './records/flow-ring.ts';
import { OpenedIndex } from './records/opened-index.ts';
import type { SeenConnection } from './sources/attribution.ts';
import type { OpeningPacket } from './sources/seen-packet.ts';
import { firstOfOpening } from './sources/tcp-bytes.ts';

/** Time for which denied or opening packets of one connection count as repetitions of the first (ms): a client retransmits after 1, 2, 4 s. */
export const repeatedMs = 10_000;

type IndexedEnds = Pick<SeenConnection, 'protocol' | 'source' | 'destination'>;

/** Records of opened connections, and of those that were open before, by their ends. */
export class RecordedOpenings {
  readonly #ring: FlowRing;
  readonly #index: OpenedIndex;

  /** @param records number of records of the ring */
  constructor(ring: FlowRing, records: number) {
    this.#ring = ring;
    this.#index = new OpenedIndex(2 * records); // those through a Service have two entries
  }

  add(connection: SeenConnection, number: number): void {
    this.#index.add(tupleOf(connection), number);
    const { asked, destination } = connection;
    // Replies have the address of the Service.
    if (asked && asked.ip.text !== destination.ip.text) this.#index.add(tupleOf({ ...connection, destination: asked }), number);
  }

  /** Returns the record of a connection, by the address that its client requested if that is known. */
  of({ protocol, source, destination, asked }: SeenConnection): NumberedFlow | undefined {
    return (asked && this.#find({ protocol, source, destination: asked })) ?? this.#find({ protocol, source, destination });
  }

  /**
   * Returns the record of the connection of which a packet is a further opening one. A packet that its client repeats before the first is
   * answered opens no connection, but OVS copies it if it waited beside the first.
   *
   * @param timeMs time of the packet, by the clock of the records
   */
  repeatedBy({ connection, tcp }: Pick<OpeningPacket, 'connection' | 'tcp'>, timeMs: number): NumberedFlow | undefined {
    const { source, destination } = connection;
    if (source.port === undefined) return undefined; // echoes of several processes have the same ends
    const flow = this.of(connection);
    if (flow?.event !== 'opened' || this.#ring.isEnded(flow.number) || timeMs - flow.timeMs >= repeatedMs) return undefined;
    const isSame = flow.destination.ip.text === destination.ip.text && flow.destination.port === destination.port;
    // Another connection of these ports begins with another number.
    return isSame && (!tcp || firstOfOpening(tcp).out === this.#ring.first(flow.number).out) ? flow : undefined;
  }

  #find(ends: IndexedEnds): NumberedFlow | undefined {
    const tuple = tupleOf(ends);
    for (const number of this.#index.candidates(tuple)) {
      const flow = this.#ring.get(number);
      if (!flow || (flow.event !== 'opened' && flow.event !== 'seen')) continue;
      const { service } = flow;
      if (tupleOf(flow) === tuple || (service && tupleOf({ ...flow, destination: service }) === tuple)) return flow;
    }
    return undefined;
  }
}

/** Returns the ends of a connection as text. Pure. */
export function tupleOf({ protocol, source, destination }: IndexedEnds): string {
  return `${protocol} ${source.ip.text} ${source.port} ${destination.ip.text} ${destination.port}`;
}
