#!/usr/bin/env node
/**
 * Runs inside a pod: sends along streams (the argument, JSON of `StreamPlan`) and answers each line of stdin, a `StreamQuery`, with a line, a
 * `StreamReport`. It is a separate process, so that computation in the driver delays no packet.
 */
import { createSocket } from 'node:dgram';
import { connect, isIPv6, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { StreamPlan, StreamQuery, StreamReport, StreamTarget } from './streams.ts';

/** Timeout of a connection. */
const connectWithinMs = 5_000;
/** Time after which an unanswered packet is lost. */
const lostAfterMs = { udp: 1_500, connect: connectWithinMs, talk: Infinity } as const;
const pollMs = 10;

interface Sent {
  readonly atMs: number;
  answered: boolean;
}

class TrafficStream {
  readonly name: string;
  readonly #lostAfterMs: number;
  /** Packets that may still be answered. */
  #open: Sent[] = [];
  #answeredOfMs = 0;
  broken = 0;

  constructor(kind: keyof typeof lostAfterMs, way: StreamTarget) {
    this.name = `${kind} ${way.name}`;
    this.#lostAfterMs = lostAfterMs[kind];
  }

  /** @returns function to call when the answer has come */
  send(): () => void {
    const sent = { atMs: now(), answered: false };
    this.#open.push(sent);
    return () => {
      sent.answered = true;
      this.#answeredOfMs = Math.max(this.#answeredOfMs, sent.atMs);
    };
  }

  /** Reports whether anything was answered that was sent at this moment or later. */
  answeredSince(momentMs: number): boolean {
    return this.#answeredOfMs >= momentMs;
  }

  /** Times of sending of packets that are lost by now; each is returned once. */
  takeLost(): number[] {
    const byMs = now() - this.#lostAfterMs;
    const lost = this.#open.filter(({ answered, atMs }) => !answered && atMs <= byMs);
    this.#open = this.#open.filter(({ answered, atMs }) => !answered && atMs > byMs);
    return lost.map(({ atMs }) => atMs);
  }
}

const now = (): number => Number(process.hrtime.bigint() / 1_000_000n);
const { hertz, ways } = JSON.parse(process.argv[2] ?? '') as StreamPlan;
const streams: TrafficStream[] = [];

function every(stream: TrafficStream, work: () => void): void {
  streams.push(stream);
  setInterval(work, 1_000 / hertz);
}

function datagrams(way: StreamTarget): void {
  const stream = new TrafficStream('udp', way);
  const socket = createSocket(isIPv6(way.address) ? 'udp6' : 'udp4');
  const waiting = new Map<number, () => void>();
  socket.on('message', (message) => {
    const number = message.readUInt32BE(0);
    waiting.get(number)?.();
    waiting.delete(number);
  });
  socket.on('error', () => {}); // a rejection counts as a loss
  let number = 0;
  every(stream, () => {
    const message = Buffer.alloc(32);
    message.writeUInt32BE(++number);
    waiting.set(number, stream.send());
    waiting.delete(number - 100 * hertz);
    socket.send(message, way.port, way.address, () => {});
  });
}

function connections(way: StreamTarget): void {
  const stream = new TrafficStream('connect', way);
  every(stream, () => {
    const answered = stream.send();
    const socket = connect(way.port, way.address, () => {
      answered();
      socket.resetAndDestroy(); // leaves no connection in TIME_WAIT
    });
    socket.setTimeout(connectWithinMs, () => socket.destroy());
    socket.on('error', () => {}); // a loss
  });
}

/** Messages on one connection, which TCP retransmits. One that ends is broken, and recreated. */
function talk(way: StreamTarget): void {
  const stream = new TrafficStream('talk', way);
  let socket: Socket | undefined;
  let waiting: (() => void)[] = [];
  const begin = (): void => {
    const made = connect(way.port, way.address, () => {
      socket = made.setNoDelay();
    });
    let bytes = 0;
    made.on('data', (chunk: Buffer) => {
      for (bytes += chunk.length; bytes >= 8; bytes -= 8) waiting.shift()?.();
    });
    made.on('error', () => {});
    made.once('close', () => {
      if (socket === made) stream.broken++;
      socket = undefined;
      waiting = [];
      setTimeout(begin, 100);
    });
  };
  begin();
  every(stream, () => {
    if (socket === undefined) return;
    const answered = stream.send();
    waiting.push(answered);
    socket.write(Buffer.alloc(8));
  });
}

async function answer({ sinceMs, withinMs }: StreamQuery): Promise<StreamReport> {
  const startedMs = now();
  const silent = (): TrafficStream[] => streams.filter((stream) => !stream.answeredSince(sinceMs));
  while (silent().length > 0 && now() - startedMs < withinMs) await sleep(pollMs);
  const broken = streams.filter((stream) => stream.broken > 0).map(({ name }) => name);
  for (const stream of streams) stream.broken = 0;
  const lost = streams.flatMap((stream) => stream.takeLost().map((atMs) => ({ stream: stream.name, atMs })));
  return { silent: silent().map(({ name }) => name), broken, lost };
}

for (const way of ways) {
  datagrams(way);
  connections(way);
  talk(way);
}
for await (const line of createInterface({ input: process.stdin }))
  process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line) as StreamQuery))}\n`);
process.exit(); // the peer has closed
