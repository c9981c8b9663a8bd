import { describe, expect, it } from 'vitest';
import { OfPortPool } from '../attach/of-port-pool.ts';
import { podOfPorts } from '../pipeline/well-known.ts';
import { GroupIdPool } from '../serve/group-id-pool.ts';

describe('OfPortPool', () => {
  it('lends a number that was given back last of all', () => {
    const pool = new OfPortPool();
    const first = pool.lend('a');
    pool.giveBack(first);
    expect(pool.lend('b')).not.toBe(first);
  });
  it('gives a pod its number again after a restart, and nobody else', () => {
    const pool = new OfPortPool();
    expect(pool.lendAgain('a', podOfPorts.first + 5)).toBe(podOfPorts.first + 5);
    expect(pool.lendAgain('b', podOfPorts.first + 5)).not.toBe(podOfPorts.first + 5);
    expect(pool.lendAgain('c', 1)).toBeGreaterThanOrEqual(podOfPorts.first);
  });
  it('says when there is none left', () => {
    const pool = new OfPortPool();
    for (let port = podOfPorts.first; port <= podOfPorts.last; port++) pool.lend('x');
    expect(() => pool.lend('y')).toThrow(/all 32496 OpenFlow ports for pods are in use/);
  });
});

describe('GroupIdPool', () => {
  it('lends the same number for the same name in another process', () => {
    const names = Array.from({ length: 20_000 }, (_, index) => `service/ns-${index % 100}/svc-${index}:http/ipv4`);
    const [a, b] = [new GroupIdPool(), new GroupIdPool()];
    const first = names.map((name) => a.lend(name));
    expect(new Set(first).size).toBe(names.length);
    const second = names
      .toReversed()
      .map((name) => b.lend(name))
      .toReversed();
    expect(first.filter((id, index) => id !== second[index]).length).toBeLessThan(10);
  });
});
