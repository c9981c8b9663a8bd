#!/usr/bin/env node
/**
 * Runs inside a pod: sends along lanes (the argument, JSON of `LaneWork`) and answers each line of stdin, a `LaneQuestion`, with a line, a
 * `LaneAnswer`. It is a separate process, so that computation in the driver delays no packet.
 */
import { createSocket } from 'node:dgram';
import { connect, isIPv6, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LaneAnswer, LaneQuestion, LaneWay, LaneWork } from './lanes.ts';

/** Timeout of a connection. */
const connectWithinMs = 5_000;
/** Time after which an unanswered packet is lost. */
const lostAfterMs = { udp: 1_500, connect: connectWithinMs, talk: Infinity } as const;
const pollMs = 10;

interface Sent {
  readonly atMs: number;
  answered: boolean;
}

class Lane {
  readonly name: string;
  readonly #lostAfterMs: number;
  /** Packets that may still be answered. */
  #open: Sent[] = [];
  #answeredOfMs = 0;
  broken = 0;

  constructor(kind: keyof typeof lostAfterMs, way: LaneWay) {
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
const { hertz, ways } = JSON.parse(process.argv[2] ?? '') as LaneWork;
const lanes: Lane[] = [];

function every(lane: Lane, work: () => void): void {
  lanes.push(lane);
  setInterval(work, 1_000 / hertz);
}

function datagrams(way: LaneWay): void {
  const lane = new Lane('udp', way);
  const socket = createSocket(isIPv6(way.address) ? 'udp6' : 'udp4');
  const waiting = new Map<number, () => void>();
  socket.on('message', (message) => {
    const number = message.readUInt32BE(0);
    waiting.get(number)?.();
    waiting.delete(number);
  });
  socket.on('error', () => {}); // a rejection counts as a loss
  let number = 0;
  every(lane, () => {
    const message = Buffer.alloc(32);
    message.writeUInt32BE(++number);
    waiting.set(number, lane.send());
    waiting.delete(number - 100 * hertz);
    socket.send(message, way.port, way.address, () => {});
  });
}

function connections(way: LaneWay): void {
  const lane = new Lane('connect', way);
  every(lane, () => {
    const answered = lane.send();
    const socket = connect(way.port, way.address, () => {
      answered();
      socket.resetAndDestroy(); // leaves no connection in TIME_WAIT
    });
    socket.setTimeout(connectWithinMs, () => socket.destroy());
    socket.on('error', () => {}); // a loss
  });
}

/** Messages on one connection, which TCP retransmits. One that ends is broken, and recreated. */
function talk(way: LaneWay): void {
  const lane = new Lane('talk', way);
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
      if (socket === made) lane.broken++;
      socket = undefined;
      waiting = [];
      setTimeout(begin, 100);
    });
  };
  begin();
  every(lane, () => {
    if (socket === undefined) return;
    const answered = lane.send();
    waiting.push(answered);
    socket.write(Buffer.alloc(8));
  });
}

async function answer({ sinceMs, withinMs }: LaneQuestion): Promise<LaneAnswer> {
  const startedMs = now();
  const silent = (): Lane[] => lanes.filter((lane) => !lane.answeredSince(sinceMs));
  while (silent().length > 0 && now() - startedMs < withinMs) await sleep(pollMs);
  const broken = lanes.filter((lane) => lane.broken > 0).map(({ name }) => name);
  for (const lane of lanes) lane.broken = 0;
  const lost = lanes.flatMap((lane) => lane.takeLost().map((atMs) => ({ lane: lane.name, atMs })));
  return { silent: silent().map(({ name }) => name), broken, lost };
}

for (const way of ways) {
  datagrams(way);
  connections(way);
  talk(way);
}
for await (const line of createInterface({ input: process.stdin }))
  process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line) as LaneQuestion))}\n`);
process.exit(); // the peer has closed
