import { expect, it } from 'vitest';
import { exampleCluster, podObject, policyObject } from '../../../test/support/policy-cluster.ts';
import type { ReachObjects } from './objects.ts';
import { Reach } from './reach.ts';
import { reachTable } from './table.ts';

const everything = { from: () => true, to: () => true, range: () => true };

/** A namespace of many workloads, each with a label of its own; one policy for the first of them. */
const large = (workloads: number): ReachObjects => ({
  ...exampleCluster,
  pods: [
    ...exampleCluster.pods,
    ...Array.from({ length: workloads }, (_, at) =>
      podObject(`play/w${at}`, [`10.10.${5 + (at >> 8)}.${at & 255}`], { node: 'n2', labels: { app: `w${at}` } }),
    ),
  ],
  networkPolicies: [
    policyObject('play/first', {
      podSelector: { matchLabels: { app: 'w0' } },
      ingress: [{ from: [{ podSelector: { matchLabels: { app: 'w1' } } }] }],
    }),
  ],
  services: [],
});

it('lists workloads one by one in a small cluster', () => {
  const { rows } = reachTable(new Reach(large(20)), everything);
  expect(rows.filter(({ from, to }) => from.startsWith('play/w') && to.startsWith('play/w'))).toHaveLength(20 * 19);
});

it('joins workloads that policies do not distinguish in a large one, and confirms each row', () => {
  const { rows, units, disagreements } = reachTable(new Reach(large(400)), everything);
  expect(disagreements).toEqual([]);
  expect(rows.length).toBeLessThan(1_000);
  expect(units.filter(({ name }) => name.startsWith('play/')).map(({ name, parties }) => [name, parties.length])).toEqual([
    ['play/toy', 1],
    ['play/w0', 1],
    ['play/w1', 1],
    ['play/w10 and 397 more', 398],
  ]);
  expect(rows.filter(({ to, verdict }) => to === 'play/w0' && verdict === 'allow').map(({ from }) => from)).toEqual(['play/w1']);
});

it('joins only the side that is not selected', () => {
  const reach = new Reach(large(400));
  const { rows } = reachTable(reach, { ...everything, to: ({ name }) => name === 'play/w7' });
  expect(rows.map(({ to }) => to).filter((to) => to !== 'play/w7')).toEqual([]);
  expect(rows.find(({ from }) => from.endsWith(' more'))).toMatchObject({ to: 'play/w7', ports: 'all', verdict: 'allow' });
});
