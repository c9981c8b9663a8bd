import { TokenBucket } from '../../base/async/token-bucket.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { PacketExchange } from '../../dataplane/packet-io/packet-inbox.ts';
import { repeated } from '../../dataplane/packet-io/repeated.ts';

/** Rate and burst of packets that are sent again; clients send theirs again after a second. */
const rate = { perSecond: 200, burst: 500 } as const;

/**
 * Sends packets again for which connection tracking found no free tuple in three attempts (`dataplane/compile/compile-service-path.ts`):
 * each attempt chooses other ports, and one pass through the data path has no room for more.
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
