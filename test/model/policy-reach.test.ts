import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Confirmation } from '../../src/policy/reach/confirm.ts';
import { isPoliced, type ReachObjects } from '../../src/policy/reach/objects.ts';
import { addressesOf, type Party, partyName } from '../../src/policy/reach/party.ts';
import { Reach } from '../../src/policy/reach/reach.ts';
import { judge } from '../../src/policy/verify/reference/reference-verdict.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { policyCases } from '../support/policy-cases.ts';
import { exampleCluster } from '../support/policy-cluster.ts';
import { nameOf, objectsOf } from './policy-proof.ts';
import { policyHistories } from './random-policies.ts';

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const runs = Number(process.env['SEINE_TEST_POLICY_SETS'] ?? 12);
const outside = ['198.51.100.7', '10.99.1.1', '2001:db8::9', 'fd00:99::1'];

function partiesOf(objects: ReachObjects): readonly Party[] {
  const pods = objects.pods.filter(isPoliced).map((pod): Party => ({ is: 'pod', pod }));
  const nodes = objects.nodes.map((node): Party => ({ is: 'node', node }));
  return [...pods, ...nodes, ...outside.map((address): Party => ({ is: 'outside', address }))];
}

/** Compares each pair with the reference: by the parties for each range, and by the addresses for one port. @returns compared verdicts */
function compareAll(objects: ReachObjects): number {
  const reach = new Reach(objects);
  const confirmation = new Confirmation(objects);
  const parties = partiesOf(reach.objects);
  for (const from of parties)
    for (const to of parties) {
      const result = reach.between(from, to);
      expect(
        confirmation.differences(from, to, result).map((each) => [partyName(from), partyName(to), each.family, each.reference, each.rules]),
      ).toEqual([]);
      for (const [family, ranges] of result.families) {
        const [source = '', destination = ''] = [from, to].map((party) => addressesOf(party).get(family));
        const found = ranges.find(({ protocol, first, last }) => protocol === 'TCP' && first <= 80 && last >= 80);
        const judged = judge(objects, { from: source, to: destination, protocol: 'TCP', port: 80 });
        expect([found?.verdict, source, destination]).toEqual([judged.verdict, source, destination]);
      }
    }
  return confirmation.compared;
}

it.each(policyCases)('reachability equals the reference: $name', ({ policies }) => {
  expect(compareAll({ ...exampleCluster, networkPolicies: policies, services: [] })).toBeGreaterThan(100);
});

it(`reachability equals the reference, for random clusters (SEINE_TEST_SEED=${seed})`, { timeout: timeoutOf(runs) }, async () => {
  let compared = 0;
  for await (const batch of batches('reachability and reference', { seed, runs }))
    fc.assert(
      fc.property(policyHistories, ({ objects }) => {
        const set = new Map(objects.map((each) => [nameOf(each), each]));
        compared += compareAll({ ...objectsOf(set), services: [] });
      }),
      { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
    );
  process.stdout.write(`${compared} verdicts compared\n`);
});
