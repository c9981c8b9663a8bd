import { TokenBucket } from '../../base/async/token-bucket.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { PacketExchange } from '../../dataplane/packet-io/packet-inbox.ts';
import { repeated } from '../../dataplane/packet-io/repeated.ts';

/** Packets a second that are sent once more, and how many at once; clients send theirs again, a second later. */
const rate = { perSecond: 200, burst: 500 } as const;

/**
 * Sends packets once more that the switch found no free tuple for in three tries (`dataplane/compile/compile-service-path.ts`): each try
 * draws other ports, and one pass through the data path has no room for more of them.
 */
export class UntranslatedPackets {
  readonly #tokens = new TokenBucket(rate);
  #repeated = 0;

  constructor(packets: PacketExchange, log: Log) {
    packets.on('untranslated', ({ fields, data }) => {
      const again = this.#tokens.take() ? repeated(fields, data) : undefined;
      if (!again) return;
      this.#repeated++;
      packets.send([again]).catch((thrown: unknown) => {
        log.debug('a packet was not repeated', { cause: SeineError.from(thrown, 'repeat').message });
      });
    });
  }

  get repeated(): number {
    return this.#repeated;
  }
}
