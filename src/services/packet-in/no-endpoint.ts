import { TokenBucket } from '../../base/async/token-bucket.ts';
import { bytesOf } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { PacketExchange } from '../../dataplane/packet-io/packet-inbox.ts';
import { type PacketIn, writePacketOut } from '../../openflow/packet.ts';
import { ofPort } from '../../openflow/protocol.ts';
import { type Destination, destinationOf, refuse } from '../compile/refusal.ts';

/** Rate and burst of replies: clients of a Service without endpoints retry, and must not use much of the agent's time. */
const rate = { perSecond: 500, burst: 1_000 } as const;

/** Reports whether the address is a Service's and the Service does not have that port. False while this is unknown. */
export type UnservedPortCheck = (destination: Destination) => boolean;

interface NoEndpointOptions {
  readonly packets: PacketExchange;
  readonly isUnservedPort: UnservedPortCheck;
  readonly log: Log;
}

/** Answers connections to Services without endpoints, and to ports that a Service does not have. */
export class NoEndpointResponder {
  readonly #options: NoEndpointOptions;
  /** Token buckets, one for each reason: clients that try unused ports must not use up the replies of others. */
  readonly #tokens = { noEndpoint: new TokenBucket(rate), unservedPort: new TokenBucket(rate) };
  readonly #listeners = new Set<(packet: Pick<PacketIn, 'data' | 'fields'>) => void>();
  #answered = 0;
  #suppressed = 0;

  constructor(options: NoEndpointOptions) {
    this.#options = options;
    options.packets.on('noEndpoint', (packet) => this.#receive(packet, this.#tokens.noEndpoint));
    options.packets.on('unservedPort', (packet) => {
      const destination = destinationOf(packet.data);
      if (destination && options.isUnservedPort(destination)) this.#receive(packet, this.#tokens.unservedPort);
    });
  }

  get counters(): { readonly answered: number; readonly suppressed: number } {
    return { answered: this.#answered, suppressed: this.#suppressed };
  }

  /** Calls back for each packet that is answered, until the returned function is called. */
  subscribe(listener: (packet: Pick<PacketIn, 'data' | 'fields'>) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #receive(packet: PacketIn, tokens: TokenBucket): void {
    if (!tokens.take()) {
      this.#suppressed++;
      return;
    }
    this.#answer(packet).catch((thrown: unknown) =>
      this.#options.log.debug('a connection to a Service was not refused', { cause: SeineError.from(thrown, 'packet-out').message }),
    );
  }

  async #answer({ data, fields }: PacketIn): Promise<void> {
    const inPort = fields.in_port;
    const answer = refuse(data);
    if (!answer || typeof inPort !== 'number') return;
    for (const listener of this.#listeners) listener({ data, fields });
    const out = bytesOf((w) =>
      writePacketOut(w, { fields: { in_port: ofPort.controller }, actions: [{ kind: 'output', port: inPort }], data: answer }),
    );
    await this.#options.packets.send([out]);
    this.#answered++;
  }
}
