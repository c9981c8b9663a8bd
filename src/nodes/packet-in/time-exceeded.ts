import { TokenBucket } from '../../base/async/token-bucket.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { PacketExchange } from '../../dataplane/packet-io/packet-inbox.ts';
import { injected } from '../../dataplane/packet-io/packet-out.ts';
import { timeExceeded } from '../../dataplane/packet-io/time-exceeded-frame.ts';
import { virtualMac } from '../../dataplane/pipeline/well-known.ts';

/** Rate and burst of answers of this node; OVS meters the packets of each share of senders before (`compileTimeExceeded`). */
const rate = { perSecond: 500, burst: 1_000 } as const;

interface TimeExceededOptions {
  readonly packets: PacketExchange;
  /** Undefined until the node is known. */
  readonly environment: () => Pick<NodeEnvironment, 'gateway'> | undefined;
  readonly log: Log;
}

/**
 * Answers packets whose TTL or hop limit ended on this hop with ICMP time exceeded from the gateway's address. OVS receives the answer as if
 * the node's kernel had sent it through the gateway: connection tracking translates what it quotes, and the pipeline forwards it to the
 * sender, on any node.
 */
export class TimeExceededResponder {
  readonly #options: TimeExceededOptions;
  readonly #tokens = new TokenBucket(rate);
  #answered = 0;
  #suppressed = 0;

  constructor(options: TimeExceededOptions) {
    this.#options = options;
    options.packets.on('timeExceeded', ({ data }) => this.#receive(data));
  }

  get counters(): { readonly answered: number; readonly suppressed: number } {
    return { answered: this.#answered, suppressed: this.#suppressed };
  }

  #receive(frame: Uint8Array): void {
    if (!this.#tokens.take()) {
      this.#suppressed++;
      return;
    }
    const gateway = this.#options.environment()?.gateway;
    const answer = gateway && timeExceeded(frame, gateway, virtualMac);
    if (!answer) return;
    this.#answered++;
    this.#options.packets
      .send(injected(gateway.ofPort, [answer]))
      .catch((thrown: unknown) =>
        this.#options.log.debug('time exceeded was not sent', { cause: SeineError.from(thrown, 'packet-out').message }),
      );
  }
}
