import { setImmediate as nextTurn } from 'node:timers/promises';
import { idle } from '../../base/async/pause.ts';
import { ByteWriter } from '../../base/bytes/bytes.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';
import { writePacketOut } from '../../openflow/packet.ts';
import { ofPort } from '../../openflow/protocol.ts';

/** Part of the bridge's connection that sends frames. */
export interface FrameSender {
  readonly openflow: Pick<OpenFlowConnection, 'send'>;
}

/** Sends frames out of a port. Delivery is not guaranteed. */
export function sendFrames(sender: FrameSender, port: number, frames: readonly Uint8Array[], signal: AbortSignal): void {
  sender.openflow.send(messagesOf({ from: ofPort.controller, output: port }, frames), signal).catch(() => undefined);
}

/** Time for which frames are gathered after the previous write (ms): for each write, ovs-vswitchd checks all of its ports. */
const GATHER_MS = 5;

/**
 * Injects frames into OVS as if a port had received them. Delivery is not guaranteed: neighbours send queries if they need the information.
 */
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
    this.#waiting.push(...injected(port, frames));
    if (!this.#isSending) void this.#send();
  }

  /** Sends the frames of one turn of the event loop together, at once; those that follow closely are gathered. */
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

/** Returns packet-outs by which OVS treats frames as if a port had received them. */
export function injected(port: number, frames: readonly Uint8Array[]): readonly Uint8Array[] {
  return messagesOf({ from: port, output: ofPort.table }, frames);
}

interface FramePath {
  readonly from: number;
  readonly output: number;
}

function messagesOf({ from, output }: FramePath, frames: readonly Uint8Array[]): readonly Uint8Array[] {
  return frames.map((data) => {
    const w = new ByteWriter(256);
    writePacketOut(w, { fields: { in_port: from }, actions: [{ kind: 'output', port: output }], data });
    return w.finish();
  });
}
