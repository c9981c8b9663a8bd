import type { OpenFlowConnection } from '../openflow/connection.ts';
import { writePacketOut } from '../openflow/packet.ts';
import { ofPort } from '../openflow/protocol.ts';
import { ByteWriter } from '../wire/bytes.ts';

/** The bridge's connection, as far as frames are sent by it. */
export interface FrameSender {
  readonly openflow: Pick<OpenFlowConnection, 'send'>;
}

/** Lets the switch send frames out of a port. What is lost is lost. */
export function sendFrames(sender: FrameSender, port: number, frames: readonly Uint8Array[], signal: AbortSignal): void {
  send(sender, { from: ofPort.controller, output: port }, frames, signal);
}

/** Lets the switch take frames as if a port had received them. What is lost is lost: neighbours ask when they need to know. */
export class FrameInjector {
  readonly #sender: FrameSender;
  readonly #signal: AbortSignal;

  constructor(sender: FrameSender, signal: AbortSignal) {
    this.#sender = sender;
    this.#signal = signal;
  }

  inject(port: number, frames: readonly Uint8Array[]): void {
    send(this.#sender, { from: port, output: ofPort.table }, frames, this.#signal);
  }
}

function send(
  { openflow }: FrameSender,
  { from, output }: { readonly from: number; readonly output: number },
  frames: readonly Uint8Array[],
  signal: AbortSignal,
): void {
  const messages = frames.map((data) => {
    const w = new ByteWriter(256);
    writePacketOut(w, { fields: { in_port: from }, actions: [{ kind: 'output', port: output }], data });
    return w.finish();
  });
  openflow.send(messages, signal).catch(() => undefined);
}
