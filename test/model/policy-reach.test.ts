import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Confirmation } from '../../src/policy/reach/confirm.ts';
import { reachDifference } from '../../src/policy/reach/difference.ts';
import { isPoliced, type ReachObjects } from '../../src/policy/reach/objects.ts';
import { addressesOf, partyKey, partyName, type ReachParty } from '../../src/policy/reach/party.ts';
import { Reach } from '../../src/policy/reach/reach.ts';
import { judge } from '../../src/policy/verify/reference/reference-verdict.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { clusterPolicyCases } from '../support/cluster-policy-cases.ts';
import { policyCases } from '../support/policy-cases.ts';
import { exampleCluster } from '../support/policy-cluster.ts';
import { nameOf, objectsOf, type PolicyObject } from './policy-proof.ts';
import { policyHistories, tieredHistories } from './random-policies.ts';

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const runs = Number(process.env['SEINE_TEST_POLICY_SETS'] ?? 12);
const outside = ['198.51.100.7', '10.99.1.1', '2001:db8::9', 'fd00:99::1'];

function partiesOf(objects: ReachObjects): readonly ReachParty[] {
  const pods = objects.pods.filter(isPoliced).map((pod): ReachParty => ({ is: 'pod', pod }));
  const nodes = objects.nodes.map((node): ReachParty => ({ is: 'node', node }));
  return [...pods, ...nodes, ...outside.map((address): ReachParty => ({ is: 'outside', address }))];
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

it.each(clusterPolicyCases)('reachability equals the reference over tiers: $name', ({ policies, clusterPolicies }) => {
  const objects = { ...exampleCluster, networkPolicies: policies, clusterNetworkPolicies: clusterPolicies, services: [] };
  expect(compareAll(objects)).toBeGreaterThan(100);
});

it.each(policyCases)('reachability equals the reference: $name', ({ policies }) => {
  expect(compareAll({ ...exampleCluster, networkPolicies: policies, services: [] })).toBeGreaterThan(100);
});

const histories = [
  ['NetworkPolicies', policyHistories],
  ['policies of all tiers', tieredHistories],
] as const;

it.each(histories)(
  `reachability equals the reference, for random clusters with %s (SEINE_TEST_SEED=${seed})`,
  { timeout: timeoutOf(runs) },
  async (_, random) => {
    let compared = 0;
    for await (const batch of batches('reachability and reference', { seed, runs }))
      fc.assert(
        fc.property(random, ({ objects }) => {
          const set = new Map(objects.map((each) => [nameOf(each), each]));
          compared += compareAll({ ...objectsOf(set), services: [] });
        }),
        { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
      );
    process.stdout.write(`${compared} verdicts compared\n`);
  },
);

it.each(histories)(
  `a difference names what opens and closes, for random changes of %s (SEINE_TEST_SEED=${seed})`,
  { timeout: timeoutOf(runs) },
  async (_, random) => {
    let changed = 0;
    for await (const batch of batches('differences and reference', { seed, runs }))
      fc.assert(
        fc.property(random, ({ objects, changes }) => {
          const set = new Map(objects.map((each) => [nameOf(each), each]));
          const before: ReachObjects = { ...objectsOf(set), services: [] };
          for (const step of changes.flat())
            if ('put' in step && (step.put.kind === 'NetworkPolicy' || step.put.kind === 'ClusterNetworkPolicy'))
              set.set(nameOf(step.put), step.put);
            else if ('remove' in step) removePolicyAt(set, step.remove);
          changed += compareDifference(before, { ...objectsOf(set), services: [] });
        }),
        { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
      );
    process.stdout.write(`${changed} changed pairs\n`);
    // Few histories may change few pairs.
    expect(changed).toBeGreaterThan(runs >= 50 ? runs : 0);
  },
);

function removePolicyAt(set: Map<string, PolicyObject>, at: number): void {
  const policies = [...set].filter(([, { kind }]) => kind === 'NetworkPolicy' || kind === 'ClusterNetworkPolicy');
  const [name] = policies[at % Math.max(1, policies.length)] ?? [];
  if (name !== undefined) set.delete(name);
}

/** Compares the changes of TCP port 80 between pods, both families, with the reference on both sides. @returns the number of changed pairs */
function compareDifference(before: ReachObjects, after: ReachObjects): number {
  const { changes, units, disagreements } = reachDifference(before, after);
  expect(disagreements).toEqual([]);
  const unitOf = new Map(units.flatMap(({ name, parties }) => parties.map((party) => [partyKey(party), name] as const)));
  const byPair = Map.groupBy(changes, ({ from, to, family }) => `${from} ${to} ${family}`);
  const found = new Set(
    [...byPair.values()].flatMap((rows) => {
      const row = rows.find(({ ports }) => hasPort80(ports)) ?? rows.find(({ ports }) => ports === 'all others');
      if (!row) return [];
      return (row.family ? [row.family] : (['ipv4', 'ipv6'] as const)).map((each) => `${row.from} ${row.to} ${each} ${row.change}`);
    }),
  );
  const pods = new Reach(before).objects.pods.filter(isPoliced).map((pod): ReachParty => ({ is: 'pod', pod }));
  let changed = 0;
  for (const from of pods)
    for (const to of pods.filter((each) => each !== from))
      for (const [family, source] of addressesOf(from)) {
        const destination = addressesOf(to).get(family);
        if (destination === undefined) continue;
        const [then, now] = [before, after].map(
          (each) => judge(each, { from: source, to: destination, protocol: 'TCP', port: 80 }).verdict,
        );
        const names = `${unitOf.get(partyKey(from))} ${unitOf.get(partyKey(to))} ${family}`;
        const expected = then === now ? [] : [now === 'allow' ? 'opened' : 'closed'];
        expect([names, ...['opened', 'closed'].filter((change) => found.has(`${names} ${change}`))]).toEqual([names, ...expected]);
        changed += expected.length;
      }
  return changed;
}

function hasPort80(ports: string): boolean {
  if (ports === 'all' || ports === 'all ports') return true;
  const tcp = ports.split('; ').find((each) => each.startsWith('TCP '));
  if (tcp === undefined) return false;
  return tcp
    .slice(4)
    .split(', ')
    .some((span) => {
      const [first = 0, last = first] = span.split('-').map(Number);
      return span === 'all ports' || (first <= 80 && last >= 80);
    });
}
