import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from './random.ts';

/** Maximum delay of an event (ms). */
export const lateMostMs = 1_000;
const lateOf = 0.3;
const twiceOf = 0.2;
const objectEvent = /^\{"type":"(?:ADDED|MODIFIED|DELETED)"/;

interface Held {
  readonly text: string;
  readonly at: number;
}

/**
 * Forwards a watch, some events delayed, with all that follow them, and some duplicated. Within one watch their order stays, as the API
 * guarantees; other kinds have separate watches, which overtake it.
 */
export async function passLate(from: Readable, to: Writable, random: Random): Promise<void> {
  const held: Held[] = [];
  let passing = Promise.resolve();
  for await (const line of linesOf(from)) {
    const delayMs = random.chance(lateOf) ? random.below(lateMostMs) : 0;
    const at = Math.max(performance.now() + delayMs, held.at(-1)?.at ?? 0);
    held.push({ text: objectEvent.test(line) && random.chance(twiceOf) ? `${line}\n${line}\n` : `${line}\n`, at });
    passing = passing.then(() => passOne(held, to));
  }
  await passing;
  to.end();
}

async function passOne(held: Held[], to: Writable): Promise<void> {
  const [next] = held;
  if (next === undefined) return;
  await sleep(Math.max(0, next.at - performance.now()));
  held.shift();
  if (!to.destroyed) to.write(next.text);
}

/** Lines of a body. */
export async function* linesOf(from: Readable): AsyncGenerator<string> {
  let rest = '';
  from.setEncoding('utf8');
  for await (const text of from) {
    const lines = (rest + String(text)).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}
