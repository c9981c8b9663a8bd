import { Duplex } from 'node:stream';
import type { RawData, WebSocket } from 'ws';
import { SeineError } from '../../base/errors/seine-error.ts';
import { execChannels, exitCodeIn } from './exec-status.ts';

/** Maximum number of bytes kept of the standard error, and of the status. */
const REMARK_BYTES_MAX = 4_096;
const REMARK_CHARACTERS_MAX = 200;

/**
 * Standard streams of a program in a container: writing is its standard input, reading its standard output. Destroying ends the exec, and
 * so its input.
 *
 * It fails with a SeineError when the program ends other than with 0: `REFUSED` if it was not run, else `UNAVAILABLE` with the first line of
 * its standard error, and the exit code in `context.exitCode`.
 */
export class ExecStream extends Duplex {
  readonly #socket: WebSocket;
  readonly #remarks = { stderr: '', status: '' };

  /** Takes over a WebSocket, which may still be connecting; its owner reports failures until it is open. */
  constructor(socket: WebSocket) {
    super();
    this.#socket = socket;
    socket.on('message', (data) => this.#receive(data));
    socket.on('close', () => this.#ended());
    socket.on('error', (cause) => this.destroy(new SeineError('UNAVAILABLE', `the exec has failed: ${cause.message}`, { cause })));
  }

  /** Does nothing: Node's HTTP client calls it on a connection that it uses again. */
  ref(): this {
    return this;
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, written: (error?: Error | null) => void): void {
    // A program that has ended reads nothing: the end of the connection, which follows, has the reason.
    this.#socket.send(Buffer.concat([Buffer.of(execChannels.stdin), chunk]), (error) => {
      if (!error) written();
    });
  }

  override _destroy(error: Error | null, destroyed: (error?: Error | null) => void): void {
    this.#socket.terminate();
    destroyed(error);
  }

  #receive(data: RawData): void {
    const message = Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Uint8Array);
    const [channel] = message;
    if (channel === execChannels.stdout) {
      // An empty message opens the channel.
      if (message.length > 1 && !this.push(message.subarray(1))) this.#socket.pause();
    } else if (channel === execChannels.stderr) this.#keep('stderr', message);
    else if (channel === execChannels.status) this.#keep('status', message);
  }

  #keep(name: 'stderr' | 'status', message: Uint8Array): void {
    const text = Buffer.from(message.subarray(1)).toString('utf8');
    this.#remarks[name] = (this.#remarks[name] + text).slice(0, REMARK_BYTES_MAX);
  }

  #ended(): void {
    if (this.destroyed) return;
    try {
      const exitCode = exitCodeIn(this.#remarks.status);
      if (exitCode !== 0) {
        const message = firstLine(this.#remarks.stderr) || `the program ended with ${exitCode}`;
        throw new SeineError('UNAVAILABLE', message, { context: { exitCode } });
      }
      this.push(null);
    } catch (thrown) {
      this.destroy(SeineError.from(thrown, 'exec'));
    }
  }
}

function firstLine(text: string): string {
  return (text.trim().split('\n')[0] ?? '').slice(0, REMARK_CHARACTERS_MAX);
}
