import { expect, it } from 'vitest';
import { parseIp } from '../net/ip.ts';
import { parseMac } from '../net/mac.ts';
import { Announcements } from './announcements.ts';

function scene() {
  const ports: number[] = [];
  let calm = (): void => {};
  const attaching = { isCrowded: false, quiet: () => new Promise<void>((resolve) => (calm = resolve)) };
  const announcements = new Announcements({ attaching, frames: { inject: (port) => void ports.push(port) } });
  const announce = (ofPort: number, isCurrent = () => true): void =>
    announcements.announce({ ofPort, mac: parseMac('02:00:00:00:00:01'), addresses: [parseIp('10.1.0.2')], isCurrent });
  const quiet = async (): Promise<void> => {
    calm();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { ports, attaching, announce, quiet };
}

it('announces a pod that comes alone at once', () => {
  const { ports, announce } = scene();
  announce(1);
  announce(2);
  expect(ports).toEqual([1, 2]);
});

it('announces pods that come together once no more come, and each of them once', async () => {
  const { ports, attaching, announce, quiet } = scene();
  attaching.isCrowded = true;
  announce(1);
  announce(2);
  attaching.isCrowded = false;
  announce(3);
  expect(ports).toEqual([]);
  await quiet();
  expect(ports).toEqual([1, 2, 3]);
  announce(4);
  expect(ports).toEqual([1, 2, 3, 4]);
});

it('does not announce a pod that has gone meanwhile: its port may be another’s', async () => {
  const { ports, attaching, announce, quiet } = scene();
  attaching.isCrowded = true;
  let isThere = true;
  announce(1, () => isThere);
  announce(2);
  isThere = false;
  await quiet();
  expect(ports).toEqual([2]);
});
