import { packetInController } from '../datapath/to-openflow.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { Log } from '../log/log.ts';
import { OpenFlowConnection } from '../openflow/connection.ts';
import { writeSetConfig, writeSetControllerId, writeUsePacketIn2 } from '../openflow/control.ts';
import { type PacketIn, writePacketOut } from '../openflow/packet.ts';
import { ofPort } from '../openflow/protocol.ts';
import { decodeUnsolicited } from '../openflow/unsolicited.ts';
import { packetInReason } from '../pipeline/well-known.ts';
import { refuse } from '../proxy/refusal.ts';
import { bytesOf } from '../wire/bytes.ts';

const WHOLE_PACKET = 0xffff;
/** Answers a second, and how many at once: clients of an empty Service retry, and none of them is worth the agent's time. */
const rate = { perSecond: 500, burst: 1_000 } as const;

/**
 * Answers connections to Services without endpoints, over an OpenFlow connection of its own, so that a flood of them never
 * delays programming.
 */
export class NoEndpointResponder {
  readonly connection: OpenFlowConnection;
  readonly #log: Log;
  readonly #signal: AbortSignal;
  #tokens: number = rate.burst;
  #refilledMs = performance.now();
  #answered = 0;
  #suppressed = 0;

  constructor(endpoint: string, log: Log, signal: AbortSignal) {
    this.#log = log;
    this.#signal = signal;
    this.connection = new OpenFlowConnection({
      endpoint,
      greeting: [
        bytesOf(writeUsePacketIn2),
        bytesOf((w) => writeSetControllerId(w, packetInController)),
        // A management socket gets no packet-in before it has said how much of a packet it wants.
        bytesOf((w) => writeSetConfig(w, { fragments: 0, missSendLength: WHOLE_PACKET })),
      ],
      unsolicited: (bytes) => this.#receive(bytes),
    });
  }

  get counters(): { readonly answered: number; readonly suppressed: number } {
    return { answered: this.#answered, suppressed: this.#suppressed };
  }

  run(): Promise<void> {
    return this.connection.run(this.#signal);
  }

  #receive(bytes: Uint8Array): void {
    const received = decodeUnsolicited(bytes);
    if (received.kind !== 'packetIn' || received.packet.userdata?.[0] !== packetInReason.noEndpoint) return;
    if (!this.#takeToken()) {
      this.#suppressed++;
      return;
    }
    this.#answer(received.packet).catch((thrown: unknown) =>
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
    await this.connection.send([out], this.#signal);
    this.#answered++;
  }

  #takeToken(): boolean {
    const nowMs = performance.now();
    this.#tokens = Math.min(rate.burst, this.#tokens + ((nowMs - this.#refilledMs) / 1_000) * rate.perSecond);
    this.#refilledMs = nowMs;
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }
}
