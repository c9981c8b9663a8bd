import { expect, it } from 'vitest';
import { confirmed } from './confirmed.ts';
import type { Blocked } from './foreign-firewall.ts';

const forward: Blocked = { family: 'ipv4', hook: 'forward' };
const input: Blocked = { family: 'ipv6', hook: 'input' };
const signal = new AbortController().signal;

/** Returns these findings one after another. */
function finding(...all: readonly (readonly Blocked[])[]): {
  readonly find: () => Promise<readonly Blocked[]>;
  readonly left: () => number;
} {
  const rest = [...all];
  return { find: async () => rest.shift() ?? [], left: () => rest.length };
}

it('accepts immediately that nothing is dropped', async () => {
  const { find, left } = finding([], [forward]);
  expect(await confirmed(find, 1, signal)).toEqual([]);
  expect(left()).toBe(1);
});

it('reports a drop only if it persists a moment later: an OVS that paused loses packets as well', async () => {
  expect(await confirmed(finding([forward, input], []).find, 1, signal)).toEqual([]);
  expect(await confirmed(finding([forward, input], [{ ...input }]).find, 1, signal)).toEqual([input]);
  expect(await confirmed(finding([forward], [forward, input]).find, 1, signal)).toEqual([forward]);
});

it('ends with the agent while it waits', async () => {
  await expect(confirmed(finding([forward]).find, 60_000, AbortSignal.abort())).rejects.toThrow();
});
