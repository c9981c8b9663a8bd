import { expect, it, vi } from 'vitest';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { silentLog } from '../../../base/log/log.ts';
import { parseIp } from '../../../base/net/ip.ts';
import type { FlowRecord } from '../records/flow-record.ts';
import type { ExportedItem, FlowReceiver } from './exported-item.ts';
import { FlowExport } from './flow-export.ts';

const flow = (number: number): ExportedItem => ({
  kind: 'flow',
  flow: {
    ...{ timeMs: number, event: 'opened', verdict: 'allowed', reporter: 'source', protocol: 6 },
    source: { ip: parseIp('10.0.0.5'), port: 40_000, kind: 'pod', name: 'shop/web-1' },
    destination: { ip: parseIp('10.0.1.9'), port: 80, kind: 'unknown' },
  } satisfies FlowRecord,
});

/** Receiver whose answers the test chooses; it keeps what it took. */
class ChosenReceiver implements FlowReceiver {
  answer: () => Promise<{ readonly refused: number }> = () => Promise.resolve({ refused: 0 });
  readonly attempts: number[] = [];
  readonly taken: number[] = [];
  isClosed = false;

  async send(items: readonly ExportedItem[]): Promise<{ readonly refused: number }> {
    this.attempts.push(items.length);
    const answer = await this.answer();
    this.taken.push(...items.map((item) => (item.kind === 'flow' ? item.flow.timeMs : -1)));
    return answer;
  }

  close(): void {
    this.isClosed = true;
  }
}

function opened() {
  const receiver = new ChosenReceiver();
  const waits: number[] = [];
  const gate = { next: Promise.withResolvers<void>() };
  const wait = async (ms: number, signal: AbortSignal): Promise<void> => {
    waits.push(ms);
    signal.addEventListener('abort', () => gate.next.resolve());
    if (waits.length >= 9) await gate.next.promise;
  };
  return { receiver, waits, gate, target: new FlowExport({ name: 'otlp', receiver, log: silentLog, now: () => 0, wait }) };
}

const numbers = (count: number, first = 0): number[] => Array.from({ length: count }, (_, index) => first + index);
const unavailable = () => Promise.reject(new SeineError('UNAVAILABLE', 'no connection'));

it('sends a full batch at once, a smaller one after a second, all in order', async () => {
  const { receiver, target } = opened();
  for (const number of numbers(257)) target.add(flow(number));
  await vi.waitFor(() => expect(receiver.attempts).toEqual([256]));
  await vi.waitFor(() => expect(receiver.taken).toEqual(numbers(257)), { timeout: 10_000 });
  expect(target.counts).toEqual({ sent: 257, full: 0, refused: 0, unsent: 0 });
  await target.close();
  expect(receiver.isClosed).toBe(true);
});

it('keeps a batch for a receiver that is down, counts what finds no room, and sends the rest when it is up', async () => {
  const { receiver, waits, gate, target } = opened();
  receiver.answer = unavailable;
  for (const number of numbers(5_000)) target.add(flow(number));
  await vi.waitFor(() => expect(waits).toHaveLength(9));
  expect(target.counts).toEqual({ sent: 0, full: 904, refused: 0, unsent: 0 });
  // Each wait is shortened by at most a half.
  for (const [index, most] of [1, 2, 4, 8, 16, 30, 30, 30, 30].entries()) {
    expect(waits[index]).toBeLessThanOrEqual(most * 1_000);
    expect(waits[index]).toBeGreaterThanOrEqual(most * 500);
  }
  receiver.answer = () => Promise.resolve({ refused: 0 });
  gate.next.resolve();
  await vi.waitFor(() => expect(receiver.taken).toEqual(numbers(4_096)));
  expect(target.counts.sent).toBe(4_096);
});

it('counts what the receiver rejects, and continues with the next batch', async () => {
  const { receiver, target } = opened();
  receiver.answer = () => Promise.reject(new SeineError('REFUSED', 'HTTP status 400'));
  for (const number of numbers(256)) target.add(flow(number));
  await vi.waitFor(() => expect(target.counts.refused).toBe(256));
  receiver.answer = () => Promise.resolve({ refused: 6 });
  for (const number of numbers(256, 256)) target.add(flow(number));
  await vi.waitFor(() => expect(target.counts).toEqual({ sent: 250, full: 0, refused: 262, unsent: 0 }));
});

it('never waits in add, whatever the receiver does, and sends what waits when it ends', async () => {
  const { receiver, target } = opened();
  const hanging = Promise.withResolvers<{ readonly refused: number }>();
  receiver.answer = () => hanging.promise;
  for (const number of numbers(600)) target.add(flow(number));
  await vi.waitFor(() => expect(receiver.attempts).toEqual([256]));
  hanging.resolve({ refused: 0 });
  receiver.answer = () => Promise.resolve({ refused: 0 });
  await target.close();
  expect(receiver.taken).toEqual(numbers(600));
  target.add(flow(9));
  expect(target.counts).toEqual({ sent: 600, full: 0, refused: 0, unsent: 1 });
});

it('gives up what a receiver that is down does not take at the end', async () => {
  const { receiver, target } = opened();
  receiver.answer = unavailable;
  for (const number of numbers(300)) target.add(flow(number));
  await vi.waitFor(() => expect(receiver.attempts).toHaveLength(9));
  await target.close();
  expect(target.counts).toEqual({ sent: 0, full: 0, refused: 0, unsent: 300 });
});
