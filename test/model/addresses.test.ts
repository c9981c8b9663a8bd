import { expect, it } from 'vitest';
import { explore } from './address-explorer.ts';
import type { Bug } from './address-faults.ts';

/*
 * ADD, DEL, GC, crash, restart, reboot, full disk and a slow API server in every order, as far as there is time: no two pods share an
 * address, no live address is released, every leak is reclaimed. SEINE_EXPLORE_STATES extends it.
 */

const statesMax = Number(process.env['SEINE_EXPLORE_STATES'] ?? 80);

it.each([
  ['two containers for one address', ['10.1.0.0/30'], ['a', 'b']],
  ['one container and two addresses', ['fd00::/126'], ['a']],
] as const)('is correct for %s, in every state', { timeout: 3_600_000 }, async (name, pools, containers) => {
  const explored = await explore({ pools, containers, statesMax: 10_000 });
  console.log(`${name}: ${explored.states} states, ${explored.transitions} transitions, ${explored.depth} steps deep`);
  expect(explored.fault).toBeUndefined();
  expect(explored).toMatchObject({ complete: true });
});

it.each([
  ['three containers for two addresses', ['fd00::/126'], ['a', 'b', 'c']],
  ['two containers in two families', ['10.1.0.0/30', 'fd00::/126'], ['a', 'b']],
] as const)('is correct for %s', { timeout: 3_600_000 }, async (name, pools, containers) => {
  const explored = await explore({ pools, containers, statesMax });
  console.log(
    `${name}: ${explored.states} states, ${explored.transitions} transitions, ${explored.depth} steps deep, complete: ${explored.complete}`,
  );
  expect(explored.fault).toBeUndefined();
});

it.each<[Bug, RegExp]>([
  ['blindToLinks', /is on the interface of a/],
  ['forgetfulDisk', /is on the interface of a, and free/],
  ['handsOverLate', /is on the interface of a, and free/],
  ['releasesAll', /has lost its interface|is in quarantine/],
  ['deafGc', /has leaked/],
  ['losesDeletions', /has leaked/],
  ['keepsLeases', /has leaked/],
])('finds a planted bug: %s', async (bug, what) => {
  const { fault } = await explore({ pools: ['10.1.0.0/30'], containers: ['a', 'b'], bug, statesMax: 500 });
  expect(fault?.what.join('\n')).toMatch(what);
});
