import { readdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';

/** The control socket of `ovs-vswitchd`, as ovs-appctl(8) uses it: JSON-RPC, one answer a request, in order. */
export class Unixctl {
  readonly #socket: Socket;
  readonly #waiting: ((answer: { result: unknown; error: unknown }) => void)[] = [];
  #text = '';

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding('utf8');
    socket.on('data', (chunk: string) => this.#take(chunk));
    socket.on('error', (error) => this.#fail(error));
    socket.on('close', () => this.#fail(new Error('ovs-vswitchd closed the control socket')));
  }

  static async open(runDir: string): Promise<Unixctl> {
    const name = readdirSync(runDir).find((file) => /^ovs-vswitchd\.\d+\.ctl$/.test(file));
    if (name === undefined) throw new Error(`no ovs-vswitchd runs in ${runDir}`);
    const socket = connect(join(runDir, name));
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
    });
    return new Unixctl(socket);
  }

  /** @throws Error with the daemon's message */
  async run(method: string, ...params: readonly string[]): Promise<string> {
    const answered = new Promise<{ result: unknown; error: unknown }>((resolve) => this.#waiting.push(resolve));
    this.#socket.write(JSON.stringify({ method, params, id: 0 }));
    const { result, error } = await answered;
    if (error !== null) throw new Error(`${method} ${params.join(' ')}: ${String(error)}`);
    return String(result);
  }

  close(): void {
    this.#socket.destroy();
  }

  /** Answers follow each other without a separator. A brace in a string is ignored. */
  #take(chunk: string): void {
    this.#text += chunk;
    for (let end = endOfObject(this.#text); end > 0; end = endOfObject(this.#text)) {
      const answer = JSON.parse(this.#text.slice(0, end));
      this.#text = this.#text.slice(end);
      this.#waiting.shift()?.(answer);
    }
  }

  #fail(error: Error): void {
    for (const waiting of this.#waiting.splice(0)) waiting({ result: null, error: error.message });
  }
}

/** Length of the first object; 0 if it is incomplete. */
function endOfObject(text: string): number {
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (quoted && char === '\\') at++;
    else if (char === '"') quoted = !quoted;
    else if (!quoted && char === '{') depth++;
    else if (!quoted && char === '}' && --depth === 0) return at + 1;
  }
  return 0;
}
