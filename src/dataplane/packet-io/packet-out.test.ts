import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, expect, it, vi } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { FrameInjector } from './packet-out.ts';

/** Number of messages in each write. */
let written: number[];
let isUp: boolean;
let stop: AbortController;
let injector: FrameInjector;

beforeEach(() => {
  written = [];
  isUp = true;
  stop = new AbortController();
  const send = async (messages: readonly Uint8Array[]): Promise<void> => {
    if (!isUp) throw new SeineError('UNAVAILABLE', 'not connected');
    written.push(messages.length);
  };
  injector = new FrameInjector({ openflow: { send } }, stop.signal);
});

const inject = (...ports: readonly number[]): void => {
  for (const port of ports) injector.inject(port, [new Uint8Array(60), new Uint8Array(60)]);
};
const sum = (): number => written.reduce((all, each) => all + each, 0);

it('writes frames of one pod to OVS immediately, and batches those of several that follow closely', async () => {
  inject(1);
  for (let turn = 0; turn < 2; turn++) await nextTurn();
  expect(written).toEqual([2]);
  inject(2, 3, 4);
  await vi.waitUntil(() => sum() === 8);
  expect(written).toEqual([2, 6]);
});

it('batches frames that come turn by turn, and loses none', async () => {
  for (let port = 1; port <= 100; port++) {
    inject(port);
    await nextTurn();
  }
  await vi.waitUntil(() => sum() === 200);
  expect(written.length).toBeLessThan(50);
});

it('loses frames sent while OVS was away, and none of the later ones', async () => {
  isUp = false;
  inject(1);
  for (let turn = 0; turn < 2; turn++) await nextTurn();
  isUp = true;
  inject(2);
  await vi.waitUntil(() => sum() > 0);
  inject(3);
  await vi.waitUntil(() => sum() === 4);
});

it('writes waiting frames when the agent stops', async () => {
  inject(1);
  for (let turn = 0; turn < 2; turn++) await nextTurn();
  inject(2);
  stop.abort();
  inject(3);
  await vi.waitUntil(() => sum() === 6);
});
