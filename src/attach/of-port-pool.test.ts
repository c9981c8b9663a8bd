import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { podOfPorts } from '../pipeline/well-known.ts';
import { OfPortPool } from './of-port-pool.ts';

describe('OfPortPool', () => {
  it('lends a number that was given back last of all', async () => {
    const pool = new OfPortPool();
    const first = pool.lend('a');
    pool.giveBackAfter(first, []);
    await turn();
    expect([pool.lentCount, pool.lend('b') === first]).toEqual([0, false]);
  });
  it('lends a number again only when port and flows of its last pod are acknowledged gone', async () => {
    const pool = new OfPortPool();
    for (let port = podOfPorts.first; port <= podOfPorts.last; port++) pool.lend('x');
    const [port, flows, never] = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    pool.giveBackAfter(podOfPorts.first + 7, [port.promise, flows.promise]);
    pool.giveBackAfter(podOfPorts.first + 8, [port.promise, never.promise]);
    port.resolve();
    never.reject(new Error('the agent stops'));
    await turn();
    expect(() => pool.lend('y')).toThrow(/in use/);
    flows.resolve();
    await turn();
    expect(pool.lend('y')).toBe(podOfPorts.first + 7);
    expect(() => pool.lend('z')).toThrow(/in use/);
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
