import { TokenBucket } from '../async/token-bucket.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { Log } from '../log/log.ts';
import { type PacketIn, writePacketOut } from '../openflow/packet.ts';
import { ofPort } from '../openflow/protocol.ts';
import { refuse } from '../proxy/refusal.ts';
import { bytesOf } from '../wire/bytes.ts';
import type { PacketExchange } from './packet-inbox.ts';

/** Answers a second, and how many at once: clients of an empty Service retry, and none of them is worth the agent's time. */
const rate = { perSecond: 500, burst: 1_000 } as const;

/** Answers connections to Services without endpoints. */
export class NoEndpointResponder {
  readonly #packets: PacketExchange;
  readonly #log: Log;
  readonly #tokens = new TokenBucket(rate);
  #answered = 0;
  #suppressed = 0;

  constructor(packets: PacketExchange, log: Log) {
    this.#packets = packets;
    this.#log = log;
    packets.on('noEndpoint', (packet) => this.#receive(packet));
  }

  get counters(): { readonly answered: number; readonly suppressed: number } {
    return { answered: this.#answered, suppressed: this.#suppressed };
  }

  #receive(packet: PacketIn): void {
    if (!this.#tokens.take()) {
      this.#suppressed++;
      return;
    }
    this.#answer(packet).catch((thrown: unknown) =>
      this.#log.debug('a connection to a Service without endpoints was not answered', {
        cause: SeineError.from(thrown, 'packet-out').message,
      }),
    );
  }

  async #answer({ data, fields }: PacketIn): Promise<void> {
    const inPort = fields.in_port;
    const answer = refuse(data);
    if (!answer || typeof inPort !== 'number') return;
    const out = bytesOf((w) =>
      writePacketOut(w, { fields: { in_port: ofPort.controller }, actions: [{ kind: 'output', port: inPort }], data: answer }),
    );
    await this.#packets.send([out]);
    this.#answered++;
  }
}
