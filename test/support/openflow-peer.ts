import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { OpenFlowFramer } from '../../src/openflow/connection/framer.ts';
import { decodeMessage, encodeMessage, type Message } from '../../src/openflow/message.ts';
import { OPENFLOW_13, type Version } from '../../src/openflow/protocol.ts';

/** A minimal controller: sends messages in one version, and returns all answers until a barrier is answered. */
export class OpenFlowPeer {
  readonly version: Version;
  readonly #socket: Socket;
  readonly #framer = new OpenFlowFramer();
  #received: Uint8Array[] = [];
  #wake: (() => void) | undefined;

  private constructor(version: Version, socket: Socket) {
    this.version = version;
    this.#socket = socket;
    socket.on('data', (chunk: Uint8Array) => {
      this.#received.push(...this.#framer.push(chunk));
      this.#wake?.();
    });
  }

  static async connect(path: string, version: Version): Promise<OpenFlowPeer> {
    const socket = connect(path);
    await once(socket, 'connect');
    const peer = new OpenFlowPeer(version, socket);
    const elements = Buffer.from(version === OPENFLOW_13 ? '0001000800000010' : '0001000800000040', 'hex');
    socket.write(encodeMessage({ kind: 'hello', version, xid: 0, body: { elements } }));
    return peer;
  }

  /** @returns the bytes of the answers, except hellos, echoes and the answer to the barrier */
  async exchange(messages: readonly Uint8Array[]): Promise<Uint8Array[]> {
    const barrier: Message = { kind: 'barrierRequest', version: this.version, xid: 0x7fff_ffff, body: {} };
    this.#socket.write(Buffer.concat([...messages, encodeMessage(barrier)]));
    const isLast = (message: Uint8Array) => message[1] === 21;
    while (!this.#received.some(isLast)) await new Promise<void>((resolve) => (this.#wake = resolve));
    const came = this.#received.filter((message) => !isLast(message) && message[1] !== 0 && message[1] !== 2);
    this.#received = [];
    return came;
  }

  /** Like `exchange`, with messages as values. */
  async ask(...messages: readonly Message[]): Promise<Message[]> {
    return (await this.exchange(messages.map(encodeMessage))).map(decodeMessage);
  }

  close(): void {
    this.#socket.destroy();
  }
}
