import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { podOfPorts } from '../../dataplane/pipeline/well-known.ts';
import { OfPortPool } from './of-port-pool.ts';

/** Allocates for one pod after another, each gone before the next one starts. */
async function lendInTurn(pool: OfPortPool, pods: number): Promise<readonly number[]> {
  const numbers: number[] = [];
  for (let pod = 0; pod < pods; pod++) {
    const number = pool.allocate(`pod ${pod}`);
    numbers.push(number);
    pool.releaseAfter(number, []);
    await turn();
  }
  return numbers;
}

describe('OfPortPool', () => {
  it('quarantines a released number while a thousand others are allocated', async () => {
    const pool = new OfPortPool();
    const numbers = await lendInTurn(pool, 1_025);
    expect(new Set(numbers).size).toBe(1_024);
    expect(numbers.at(-1)).toBe(numbers[0]);
  });
  it('has a bounded number in use, however many pods are created and deleted', async () => {
    const pool = new OfPortPool();
    pool.allocate('stays');
    expect(new Set(await lendInTurn(pool, 10_000)).size).toBe(1_024);
  });
  it('does not allocate a quarantined number to another, once its pod has it again', async () => {
    const pool = new OfPortPool();
    const first = pool.allocate('a');
    pool.releaseAfter(first, []);
    await turn();
    expect(pool.allocateAgain('a', first)).toBe(first);
    expect(await lendInTurn(pool, 3_000)).not.toContain(first);
  });
  it('allocates a number again only when the removal of port and flows of its last pod is acknowledged', async () => {
    const pool = new OfPortPool();
    for (let port = podOfPorts.first; port <= podOfPorts.last; port++) pool.allocate('x');
    const [port, flows, never] = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    pool.releaseAfter(podOfPorts.first + 7, [port.promise, flows.promise]);
    pool.releaseAfter(podOfPorts.first + 8, [port.promise, never.promise]);
    port.resolve();
    never.reject(new Error('the agent stops'));
    await turn();
    expect(() => pool.allocate('y')).toThrow(/in use/);
    flows.resolve();
    await turn();
    expect(pool.allocate('y')).toBe(podOfPorts.first + 7);
    expect(() => pool.allocate('z')).toThrow(/in use/);
  });
  it('gives a pod its number again after a restart, and no other pod', () => {
    const pool = new OfPortPool();
    expect(pool.allocateAgain('a', podOfPorts.first + 5)).toBe(podOfPorts.first + 5);
    expect(pool.allocateAgain('b', podOfPorts.first + 5)).not.toBe(podOfPorts.first + 5);
    expect(pool.allocateAgain('c', 1)).toBeGreaterThanOrEqual(podOfPorts.first);
  });
  it('reports exhaustion', () => {
    const pool = new OfPortPool();
    for (let port = podOfPorts.first; port <= podOfPorts.last; port++) pool.allocate('x');
    expect(() => pool.allocate('y')).toThrow(/all 32496 OpenFlow ports for pods are in use/);
  });
});
