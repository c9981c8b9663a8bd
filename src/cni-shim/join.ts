import { createConnection } from 'node:net';
import type { Readable, Writable } from 'node:stream';

/** Same as in join.c (ms). */
const idleMs = 5 * 60_000;
const restMs = 5_000;
const restIdleMs = 1_000;
/** Same as in join.c. */
const greeting = 'HTTP/1.1 102 Processing\r\n\r\n';

interface JoinStreams {
  readonly stdin: Readable;
  readonly stdout: Writable;
}

/** `join.c` for Node: `SOCKET`. Never rejects. @returns the exit code, and the text for stderr */
export function joinAgent(
  words: readonly string[],
  { stdin, stdout }: JoinStreams,
): Promise<{ readonly exit: number; readonly stderr: string }> {
  const [path, ...more] = words;
  if (path === undefined || more.length > 0) return Promise.resolve({ exit: 2, stderr: 'seine: --join SOCKET\n' });
  return new Promise((resolve) => {
    const agent = createConnection(path);
    const end = (): void => void agent.destroy();
    stdin.once('end', () => {
      agent.setTimeout(restIdleMs);
      setTimeout(end, restMs).unref();
    });
    agent.once('connect', () => stdout.write(greeting));
    stdin.pipe(agent, { end: false });
    agent.pipe(stdout, { end: false });
    stdout.once('error', end); // the client has gone
    agent.setTimeout(idleMs, end);
    agent.once('error', (error) => resolve({ exit: 1, stderr: `seine: the agent at ${path}: ${error.message}\n` }));
    agent.once('close', () => {
      stdin.destroy();
      resolve({ exit: 0, stderr: '' });
    });
  });
}
