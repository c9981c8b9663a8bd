import { expect, it } from 'vitest';
import { type Chunk, count, readChunks, sum } from './tally.ts';

const ground = { ovs: '3.1.0', dataPath: 'netdev', api: 'lab', podInterface: 'veth', kernel: '6.1.0' };

function chunk(seed: number, from: number, to: number, more: Partial<Chunk> = {}): Chunk {
  const rest = { hertz: 100, patience: 1, commit: 'abc1234', began: '2026-11-25T00:00:00Z', load: 3, ground, pairs: 1 };
  return { seed, from, to, ended: 'held', kinds: { 'flow.deleted': 12, 'route.foreign': 3 }, agent: { alive: 9 }, ...rest, ...more };
}

const kinds = ['flow.deleted', 'route.foreign', 'never'];

it('counts steps that changed something, and not the initial check', () => {
  const step = (number: number, agent: string, ...changed: readonly string[]) => ({
    number,
    agent,
    changed,
    deeds: changed,
    alerts: ['A'],
  });
  expect(count([step(-1, 'alive')])).toBeUndefined();
  expect(count([step(-1, 'alive'), step(7, 'dead', 'a'), { ...step(8, 'alive', 'a'), deeds: ['a', 'b'] }])).toEqual({
    from: 7,
    to: 8,
    kinds: { a: 2 },
    agent: { alive: 1, dead: 1 },
    pairs: 1,
    alerts: { A: 2 },
  });
});

it('adds pieces, and names kinds that were executed too rarely, or never', () => {
  expect(
    sum([chunk(1, 50, 99), chunk(1, 0, 49, { alerts: { A: 2 } }), chunk(1, 200, 210, { ended: 'difference', commit: 'def' })], kinds),
  ).toEqual([
    'seed 1, Open vSwitch 3.1.0 netdev, API of lab, pods veth, kernel 6.1.0: 111 steps, 0 to 99, 200 to 210; commits abc1234, def; difference at 210',
    'agent alive 27; pairs 3',
    'alerts A 2',
    'kinds flow.deleted 36, never 0, route.foreign 9',
    'fewer than 20 times: never 0, route.foreign 9',
  ]);
});

it('reports that each kind was executed often enough', () => {
  expect(sum([chunk(1, 0, 49, { kinds: { a: 20 } })], ['a']).at(-1)).toBe('each kind 20 times or more');
});

it('rejects the same steps twice, and names both', () => {
  expect(() => sum([chunk(1, 0, 49), chunk(2, 0, 49), chunk(1, 49, 98)], kinds)).toThrow(/seed 1 0 to 49 .*and seed 1 49 to 98 /);
});

it('treats the same numbers of another seed, on another platform, and of a single kind as other steps', () => {
  const others = [chunk(2, 0, 49), chunk(1, 0, 49, { ground: { ...ground, ovs: '3.5.0' } }), chunk(1, 0, 49, { only: 'never' })];
  expect(sum([chunk(1, 0, 49), ...others, chunk(1, 0, 49, { changesMost: 4 })], kinds)[0]).toContain('50 steps, 0 to 49');
});

it('reads its own output, a line each, and names a malformed line', () => {
  const text = `${JSON.stringify(chunk(1, 0, 49))}\n\n${JSON.stringify(chunk(1, 50, 99))}\n`;
  expect(readChunks('f', text)).toEqual([chunk(1, 0, 49), chunk(1, 50, 99)]);
  expect(() => readChunks('f', `${text}{}\n`)).toThrow('f, line 4');
});
