import { Buffer } from 'node:buffer';
import {
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { connect, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { isatty } from 'node:tty';
import type { AgentCallOutcome, Host } from './host.ts';

/** Host functions on Node: for nodes without a C compiler, and for tests. */
export function createNodeHost(env: Readonly<Record<string, string | undefined>>): Host {
  return {
    getenv: (name) => env[name],
    readStdin,
    writeStdout: (text) => writeFully(1, text),
    writeStderr: (text) => writeFully(2, text),
    call,
    monotonicMs: () => performance.now(),
    sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    readHead,
    pinNamespace: () => 'only the compiled plugin can mount a namespace',
    saveFile: (folder, name, text, filesMax) => {
      try {
        return saveFile(folder, name, text, filesMax);
      } catch (thrown) {
        return messageOf(thrown);
      }
    },
  };
}

function readStdin(bytesMax: number): { text: string } | { failed: string } {
  if (isatty(0)) return { text: '' };
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for (;;) {
      const chunk = Buffer.alloc(65_536);
      const got = readRetrying(chunk);
      if (got === 0) return { text: Buffer.concat(chunks).toString('utf8') };
      length += got;
      if (length > bytesMax) return { failed: 'File too large' };
      chunks.push(chunk.subarray(0, got));
    }
  } catch (thrown) {
    return { failed: messageOf(thrown) };
  }
}

function readHead(path: string, bytesMax: number): string | undefined {
  try {
    const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const bytes = Buffer.alloc(bytesMax);
      return bytes.subarray(0, readSync(fd, bytes)).toString('utf8');
    } finally {
      closeSync(fd);
    }
  } catch {
    return undefined;
  }
}

/** A pipe that its writer made nonblocking returns EAGAIN; Node has no blocking read for that. */
function readRetrying(chunk: Buffer): number {
  for (;;) {
    try {
      return readSync(0, chunk);
    } catch (thrown) {
      if (codeOf(thrown) !== 'EAGAIN') throw thrown;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}

function writeFully(fd: number, text: string): void {
  const bytes = Buffer.from(text);
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
  } catch (thrown) {
    if (codeOf(thrown) !== 'EPIPE') throw thrown; // the reader has closed its end
  }
}

/** Sends one frame and waits for one; see wire.ts for its layout. */
function call(path: string, request: string, timeoutMs: number, replyBytesMax: number): Promise<AgentCallOutcome> {
  return new Promise((resolve) => {
    let connected = false;
    const socket: Socket = connect(path);
    const timer = setTimeout(() => settle({ kind: 'late', reason: 'Connection timed out', retry: false }), timeoutMs);
    const settle = (outcome: AgentCallOutcome) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(outcome);
    };
    const frames = replyReader(replyBytesMax, settle);
    socket.on('connect', () => {
      connected = true;
      const body = Buffer.from(request);
      const header = Buffer.alloc(4);
      header.writeUInt32BE(body.length);
      socket.write(Buffer.concat([header, body]));
    });
    socket.on('data', frames);
    socket.on('end', () => settle({ kind: 'lost', reason: 'Connection reset by peer', retry: true }));
    socket.on('error', (error) => settle(failureOf(error, connected)));
  });
}

function replyReader(replyBytesMax: number, settle: (outcome: AgentCallOutcome) => void): (chunk: Buffer) => void {
  const chunks: Buffer[] = [];
  let length = 0;
  return (chunk) => {
    chunks.push(chunk);
    length += chunk.length;
    if (length < 4) return;
    const [first = chunk] = chunks;
    const head = first.length >= 4 ? first : Buffer.concat(chunks);
    const wanted = head.readUInt32BE(0);
    if (wanted > replyBytesMax) settle({ kind: 'lost', reason: 'Message too long', retry: false });
    else if (length >= 4 + wanted) settle({ kind: 'answered', reply: Buffer.concat(chunks).toString('utf8', 4, 4 + wanted) });
  };
}

function failureOf(error: Error, connected: boolean): AgentCallOutcome {
  const code = codeOf(error);
  if (!connected)
    return { kind: 'unreachable', reason: error.message, retry: code === 'ENOENT' || code === 'ECONNREFUSED' || code === 'EAGAIN' };
  return { kind: 'lost', reason: error.message, retry: code === 'ECONNRESET' || code === 'EPIPE' };
}

function saveFile(folder: string, name: string, text: string, filesMax: number): string | undefined {
  for (const path of [dirname(folder), folder]) if (!existsSync(path)) mkdirSync(path, { mode: 0o700 });
  const path = join(folder, name);
  if (!existsSync(path) && readdirSync(folder).length >= filesMax) return 'No space left on device';
  const temporary = join(folder, `.new-${process.pid}-${Date.now()}`);
  try {
    const fd = openSync(temporary, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600);
    try {
      writeFileSync(fd, text);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(temporary, path);
  } catch (thrown) {
    rmSync(temporary, { force: true });
    throw thrown;
  }
  const folderFd = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fsyncSync(folderFd);
  } finally {
    closeSync(folderFd);
  }
  return undefined;
}

function codeOf(thrown: unknown): string {
  return thrown instanceof Error && 'code' in thrown ? String(thrown.code) : '';
}

function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
