import type { AgentCallOutcome, Host } from './host.ts';
import { runPlugin } from './plugin.ts';

/** Functions that host.c defines. Errors are errno numbers. */
declare const native: {
  getenv(name: string): string | undefined;
  /** Text, or an errno. */
  readStdin(bytesMax: number): string | number;
  write(fd: number, text: string): void;
  /** Text; a positive errno after connecting, a negative one if connecting failed. */
  call(path: string, request: string, timeoutMs: number, replyBytesMax: number): string | number;
  monotonicMs(): number;
  sleep(ms: number): void;
  /** 0 or an errno. */
  saveFile(folder: string, name: string, text: string, filesMax: number): number;
  readHead(path: string, bytesMax: number): string | undefined;
  /** 0 or an errno. */
  pinNamespace(folder: string, name: string): number;
  /** strerror(3) */
  describe(errno: number): string;
  exit(code: number): void;
};

/** errno(3) on Linux. The first three mean that no process listens now, the others that the agent closed the connection. */
const ENOENT = 2;
const EAGAIN = 11;
const ECONNREFUSED = 111;
const EPIPE = 32;
const ECONNRESET = 104;
const ETIMEDOUT = 110;

const host: Host = {
  getenv: (name) => native.getenv(name),
  readStdin: (bytesMax) => {
    const input = native.readStdin(bytesMax);
    return typeof input === 'string' ? { text: input } : { failed: native.describe(input) };
  },
  writeStdout: (text) => native.write(1, text),
  writeStderr: (text) => native.write(2, text),
  call: (path, request, timeoutMs, replyBytesMax) => outcomeOf(native.call(path, request, Math.ceil(timeoutMs), replyBytesMax)),
  monotonicMs: () => native.monotonicMs(),
  sleep: (ms) => native.sleep(ms),
  saveFile: (folder, name, text, filesMax) => {
    const errno = native.saveFile(folder, name, text, filesMax);
    return errno === 0 ? undefined : native.describe(errno);
  },
  readHead: (path, bytesMax) => native.readHead(path, bytesMax),
  pinNamespace: (folder, name) => {
    const errno = native.pinNamespace(folder, name);
    return errno === 0 ? undefined : native.describe(errno);
  },
};

function outcomeOf(answer: string | number): AgentCallOutcome {
  if (typeof answer === 'string') return { kind: 'answered', reply: answer };
  const errno = Math.abs(answer);
  const reason = native.describe(errno);
  if (answer < 0) return { kind: 'unreachable', reason, retry: errno === ENOENT || errno === ECONNREFUSED || errno === EAGAIN };
  if (errno === ETIMEDOUT) return { kind: 'late', reason, retry: false };
  return { kind: 'lost', reason, retry: errno === ECONNRESET || errno === EPIPE };
}

void runPlugin(host).then((code) => native.exit(code));
