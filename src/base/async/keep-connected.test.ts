import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { SeineError } from '../errors/seine-error.ts';
import { dialEndpoint, noReadAhead, parseEndpoint } from './endpoint.ts';
import { type KeepConnectedOptions, keepConnected } from './keep-connected.ts';
import { localPolicy } from './reconnect.ts';

let dir: string;
let server: Server;
let accepted: Socket[];
let stop: AbortController;
let log: string[];

beforeEach(() => {
  dir = mkdtempSync('/tmp/seine-kc-');
  accepted = [];
  log = [];
  stop = new AbortController();
});

afterEach(() => {
  stop.abort();
  for (const socket of accepted) socket.destroy();
  server?.close();
  rmSync(dir, { recursive: true });
});

async function listen(): Promise<void> {
  server = createServer((socket) => accepted.push(socket.on('error', () => {})));
  server.listen(`${dir}/s`);
  await once(server, 'listening');
}

function note(line: string): void {
  log.push(line);
}

async function seen(line: string): Promise<void> {
  while (!log.includes(line)) await new Promise((resolve) => setTimeout(resolve, 2));
}

function options(changes: Partial<KeepConnectedOptions> = {}): KeepConnectedOptions {
  return {
    peer: 'test server',
    dial: () => dialEndpoint(parseEndpoint(`unix:${dir}/s`)),
    policy: { ...localPolicy, minBackoffMs: 5 },
    open: () => {
      note('open');
      return {
        received: (chunk) => note(`received ${Buffer.from(chunk).toString()}`),
        probe: () => note('probe'),
        closed: (cause) => note(`closed ${cause.code}`),
      };
    },
    failed: (cause) => note(`failed ${cause.code}`),
    ...changes,
  };
}

it('waits for a server that is not there yet, and closes on the signal', async () => {
  const done = keepConnected(options(), stop.signal);
  await seen('failed UNAVAILABLE');
  await listen();
  await seen('open');
  stop.abort();
  await done;
  expect(log.at(-1)).toBe('closed CANCELLED');
});

it('reconnects after the server cut the stream', async () => {
  await listen();
  void keepConnected(options(), stop.signal);
  await seen('open');
  while (accepted.length < 1) await new Promise(setImmediate);
  accepted[0]?.write('hello');
  await seen('received hello');
  accepted[0]?.destroy();
  while (log.filter((line) => line === 'open').length < 2) await new Promise(setImmediate);
  expect(log).toEqual(['open', 'received hello', 'closed UNAVAILABLE', 'failed UNAVAILABLE', 'open']);
});

it('probes a silent peer, then drops it', async () => {
  await listen();
  void keepConnected(options({ policy: { ...localPolicy, probeIntervalMs: 20, probeTimeoutMs: 20 } }), stop.signal);
  await seen('failed UNAVAILABLE');
  expect(log).toEqual(['open', 'probe', 'closed UNAVAILABLE', 'failed UNAVAILABLE']);
});

it('drops a stream whose conversation reports a protocol error', async () => {
  await listen();
  const received = () => {
    throw new SeineError('PROTOCOL', 'nonsense');
  };
  const open = () => ({ received, probe: () => {}, closed: (cause: SeineError) => note(`closed ${cause.code}`) });
  void keepConnected(options({ open }), stop.signal);
  while (accepted.length < 1) await new Promise(setImmediate);
  accepted[0]?.write('x');
  await seen('failed PROTOCOL');
  expect(log).toEqual(['closed PROTOCOL', 'failed PROTOCOL']);
});

it('retries when dialling itself throws', async () => {
  let dials = 0;
  const dial = () => {
    dials += 1;
    if (dials === 1) throw new SeineError('UNAVAILABLE', 'no route');
    return dialEndpoint(parseEndpoint(`unix:${dir}/s`));
  };
  await listen();
  void keepConnected(options({ dial }), stop.signal);
  await seen('open');
  expect(log).toEqual(['failed UNAVAILABLE', 'open']);
});

it('reads small messages together if it may wait, and a stream that is busy without a pause', async () => {
  await listen();
  const chunks: number[] = [];
  const open = () => ({ received: (chunk: Uint8Array) => void chunks.push(chunk.length), probe: () => {}, closed: () => {} });
  void keepConnected(
    options({ open, readEveryMs: 100, dial: () => dialEndpoint(parseEndpoint(`unix:${dir}/s`), undefined, noReadAhead) }),
    stop.signal,
  );
  while (accepted.length === 0) await new Promise((resolve) => setTimeout(resolve, 2));
  const [socket] = accepted;
  const total = (): number => chunks.reduce((sum, length) => sum + length, 0);
  for (let sent = 0; sent < 40; sent++) {
    socket?.write('x');
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  while (total() < 40) await new Promise((resolve) => setTimeout(resolve, 2));
  expect(chunks.length).toBeLessThanOrEqual(10);
  const before = performance.now();
  socket?.write(Buffer.alloc(2 ** 23));
  while (total() < 40 + 2 ** 23) await new Promise((resolve) => setTimeout(resolve, 2));
  expect(performance.now() - before).toBeLessThan(10_000); // 128 reads of 64 KB with pauses would take longer
});
