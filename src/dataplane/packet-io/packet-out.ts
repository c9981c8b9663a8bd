import { setImmediate as nextTurn } from 'node:timers/promises';
import { idle } from '../../base/async/pause.ts';
import { ByteWriter } from '../../base/bytes/bytes.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';
import { writePacketOut } from '../../openflow/packet.ts';
import { ofPort } from '../../openflow/protocol.ts';

/** The bridge's connection, as far as frames are sent by it. */
export interface FrameSender {
  readonly openflow: Pick<OpenFlowConnection, 'send'>;
}

/** Lets the switch send frames out of a port. What is lost is lost. */
export function sendFrames(sender: FrameSender, port: number, frames: readonly Uint8Array[], signal: AbortSignal): void {
  sender.openflow.send(messagesOf({ from: ofPort.controller, output: port }, frames), signal).catch(() => undefined);
}

/** Frames that come within this of those that were sent last are sent together: each time it is written to, ovs-vswitchd looks at all of its ports (ms). */
const GATHER_MS = 5;

/** Lets the switch take frames as if a port had received them. What is lost is lost: neighbours ask when they need to know. */
export class FrameInjector {
  readonly #sender: FrameSender;
  readonly #signal: AbortSignal;
  #waiting: Uint8Array[] = [];
  #isSending = false;

  constructor(sender: FrameSender, signal: AbortSignal) {
    this.#sender = sender;
    this.#signal = signal;
  }

  inject(port: number, frames: readonly Uint8Array[]): void {
    this.#waiting.push(...messagesOf({ from: port, output: ofPort.table }, frames));
    if (!this.#isSending) void this.#send();
  }

  /** Those of one turn of the loop together, at once; what comes right behind them waits for its turn. */
  async #send(): Promise<void> {
    this.#isSending = true;
    await nextTurn();
    while (this.#waiting.length > 0) {
      const messages = this.#waiting;
      this.#waiting = [];
      this.#sender.openflow.send(messages, this.#signal).catch(() => undefined);
      await idle(GATHER_MS, this.#signal);
    }
    this.#isSending = false;
  }
}

interface FrameWay {
  readonly from: number;
  readonly output: number;
}

function messagesOf({ from, output }: FrameWay, frames: readonly Uint8Array[]): readonly Uint8Array[] {
  return frames.map((data) => {
    const w = new ByteWriter(256);
    writePacketOut(w, { fields: { in_port: from }, actions: [{ kind: 'output', port: output }], data });
    return w.finish();
  });
}
