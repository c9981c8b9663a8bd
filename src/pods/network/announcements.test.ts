import { expect, it, vi } from 'vitest';
import { parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import { Announcements } from './announcements.ts';

function scene() {
  const ports: number[] = [];
  let calm = (): void => {};
  const attaching = { isCrowded: false, quiet: () => new Promise<void>((resolve) => (calm = resolve)) };
  const shutdown = new AbortController().signal;
  const announcements = new Announcements({ shutdown, attaching, frames: { inject: (port) => void ports.push(port) } });
  const announce = (ofPort: number, isCurrent = () => true): void =>
    announcements.announce({ ofPort, mac: parseMac('02:00:00:00:00:01'), addresses: [parseIp('10.1.0.2')], isCurrent });
  return { ports, attaching, announce, quiet: () => calm() };
}

it('announces a single pod immediately', () => {
  const { ports, announce } = scene();
  announce(1);
  announce(2);
  expect(ports).toEqual([1, 2]);
});

it('announces a group of pods after the last one, each of them once', async () => {
  const { ports, attaching, announce, quiet } = scene();
  attaching.isCrowded = true;
  announce(1);
  announce(2);
  attaching.isCrowded = false;
  announce(3);
  expect(ports).toEqual([]);
  quiet();
  await vi.waitFor(() => expect(ports).toEqual([1, 2, 3]));
  announce(4);
  await vi.waitFor(() => expect(ports).toEqual([1, 2, 3, 4]));
});

it('does not announce a pod that was deleted meanwhile: its port may be another’s', async () => {
  const { ports, attaching, announce, quiet } = scene();
  attaching.isCrowded = true;
  let isThere = true;
  announce(1, () => isThere);
  announce(2);
  isThere = false;
  quiet();
  await vi.waitFor(() => expect(ports).toEqual([2]));
});

it('does not send so many at once that a new pod waits for them', async () => {
  const { ports, attaching, announce, quiet } = scene();
  attaching.isCrowded = true;
  const all = Array.from({ length: 20 }, (_, index) => index);
  for (const ofPort of all) announce(ofPort);
  quiet();
  await vi.waitFor(() => expect(ports.length).toBeGreaterThan(0), { interval: 1 });
  expect(ports.length).toBeLessThan(all.length);
  await vi.waitFor(() => expect(ports).toEqual(all));
});
