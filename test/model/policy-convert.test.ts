import fc from 'fast-check';
import { expect, it } from 'vitest';
import { clusterNetworkPoliciesOf } from '../../src/kubernetes/resources/cluster-network-policy.ts';
import { convertPolicies } from '../../src/policy/convert/convert.ts';
import type { ConversionLoss } from '../../src/policy/convert/losses.ts';
import type { NetworkPolicyObject, PolicyObjects } from '../../src/policy/verify/reference/objects.ts';
import type { JudgedConnection } from '../../src/policy/verify/reference/parties.ts';
import { judge } from '../../src/policy/verify/reference/reference-verdict.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { crdFaults } from '../support/cluster-policy-limits.ts';
import { exampleAddresses, exampleCluster, podObject } from '../support/policy-cluster.ts';
import type { FormerPolicies } from './former-policies.ts';
import { evaluateFormer } from './former-verdict.ts';
import { formerAdmin, formerAntrea, formerOfAllKinds } from './random-former-policies.ts';
import { policiesWith } from './random-policies.ts';

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const runs = Number(process.env['SEINE_TEST_POLICY_SETS'] ?? 40);
const PACKETS = Number(process.env['SEINE_TEST_PACKETS'] ?? 250);

/** The example, with a port name of UDP that no other pod has with TCP. */
const cluster: PolicyObjects = {
  ...exampleCluster,
  networkPolicies: [],
  pods: [
    ...exampleCluster.pods.filter(({ metadata }) => metadata.name !== 'toy'),
    podObject('play/toy', ['10.10.4.10', 'fd00:10:0:1::a'], {
      node: 'n2',
      labels: { app: 'api' },
      containers: [{ ports: [{ name: 'lookup', containerPort: 53, protocol: 'UDP' }] }],
    }),
  ],
};

const ends = ['db', 'api', 'web', 'agent', 'scraper', 'toy', 'n1', 'n2', 'external'] as const;
const protocols = ['TCP', 'UDP', 'SCTP', 'ICMP'] as const;
const ports = [1, 53, 80, 81, 443, 5432, 8080, 8081, 9100, 65_535] as const;
const places = [ends, ends, [0, 1] as const, protocols, ports] as const;
const connections = places.reduce((product, { length }) => product * length, 1);
/** Has no divisor in common with the number of connections: successive places differ in everything. */
const STRIDE = 2_477;

/** Returns one of all connections between the ends. */
function connectionAt(place: number): JudgedConnection {
  let rest = place % connections;
  const [from, to, family, protocol, port] = places.map((values) => {
    const at = rest % values.length;
    rest = Math.floor(rest / values.length);
    return values[at];
  }) as [(typeof ends)[number], (typeof ends)[number], 0 | 1, (typeof protocols)[number], number];
  const [source = '', destination = ''] = [from, to].map((name) => exampleAddresses[name]?.[family]);
  return { from: source, to: destination, protocol, ...(protocol === 'ICMP' ? {} : { port }) };
}

const networkPolicies: fc.Arbitrary<readonly NetworkPolicyObject[]> = fc
  .array(policiesWith([['10.10.0.0/16', '203.0.113.0/24'], ['fd00:10::/32']]), { maxLength: 2 })
  .map((all) => all.map((policy, at) => ({ ...policy, metadata: { namespace: at === 0 ? 'shop' : 'ops', name: `np${at}` } })));

/** Returns the former policies without the parts that the conversion left out. What had entries and has none left matches nothing. */
function withoutLosses(former: FormerPolicies, losses: readonly ConversionLoss[]): FormerPolicies {
  const copy = structuredClone(former);
  for (const policy of [...copy.admin, ...copy.antrea]) {
    const { kind, metadata } = policy;
    const name = metadata.namespace === undefined ? metadata.name : `${metadata.namespace}/${metadata.name}`;
    const own = losses.filter(({ object }) => object.endsWith(` ${kind} ${name}`));
    for (const { leftOut } of own.filter((each) => each.field.at(-1) !== 'protocol')) leave(policy, leftOut);
    for (const direction of ['ingress', 'egress'] as const) {
      const left = listIn(policy.spec, direction).filter(
        (rule) => rule !== null && isLeft(rule, ['from', 'to', 'appliedTo'], ['ports', 'protocols']),
      );
      Reflect.set(policy.spec, direction, isLeft(policy.spec, ['appliedTo'], []) ? left : []);
    }
  }
  return copy;
}

/** Replaces an entry of a list by a hole, so that the places of the others stay. */
function leave(policy: object, path: ConversionLoss['leftOut']): void {
  const last = path.at(-1);
  const parent: unknown = path
    .slice(0, -1)
    .reduce<unknown>((value, part) => (value ? Reflect.get(value as object, part) : undefined), policy);
  if (typeof parent !== 'object' || parent === null || last === undefined) return;
  if (last === 'from') Reflect.set(parent, 'from', [{ namespaceSelector: {} }]);
  else if (last === 'spec') Reflect.set(parent, 'spec', { priority: 0, subject: {} });
  else if (typeof last === 'number') Reflect.set(parent, last, null);
  else Reflect.deleteProperty(parent, last);
}

function listIn(value: object, field: string): readonly unknown[] {
  const list: unknown = Reflect.get(value, field);
  return Array.isArray(list) ? list : [];
}

/**
 * Closes the holes of lists. @returns false if one of them lost all its entries, or those that together limit the ports did
 *
 * @param single lists of which each matches everything if it is empty
 * @param together lists that match everything if all are empty
 */
function isLeft(value: unknown, single: readonly string[], together: readonly string[]): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const closed = (field: string): 'absent' | 'entries' | 'none' => {
    const list = listIn(value, field);
    if (list.length === 0) return 'absent';
    const left = list.filter((entry) => entry !== null);
    Reflect.set(value, field, left);
    return left.length > 0 ? 'entries' : 'none';
  };
  const states = together.map(closed);
  return single.map(closed).every((state) => state !== 'none') && (states.includes('entries') || !states.includes('none'));
}

const kinds = [
  ['AdminNetworkPolicies', formerAdmin],
  ['policies of Antrea', formerAntrea],
  ['policies of all kinds', formerOfAllKinds],
] as const;

it.each(kinds)(`%s mean the same after their conversion (SEINE_TEST_SEED=${seed})`, { timeout: timeoutOf(runs) }, async (kind, random) => {
  const found = { sets: 0, complete: 0, policies: 0, denied: 0, packets: 0 };
  for await (const batch of batches(`conversion of ${kind}`, { seed, runs }))
    fc.assert(
      fc.property(random, networkPolicies, fc.nat(connections), (former, standard, first: number) => {
        const documents = [...former.groups, ...former.tiers, ...former.antrea, ...former.admin];
        const { policies, losses } = convertPolicies(documents.map((object) => ({ place: 'test', object })));
        const reader = clusterNetworkPoliciesOf('v1beta1');
        const faults = policies.flatMap(
          (policy) => reader.project({ ...policy, metadata: { uid: '1', ...policy.metadata } })?.faults ?? [],
        );
        // This version does not read names: such a rule accepts nothing, and the evaluator of Antrea's policies has no names either.
        expect([...faults.filter((fault) => !fault.includes('domainNames')), ...policies.flatMap(crdFaults)]).toEqual([]);
        const before: PolicyObjects = { ...cluster, networkPolicies: standard };
        const after: PolicyObjects = { ...before, clusterNetworkPolicies: policies };
        const expected = withoutLosses(former, losses);
        for (let at = 0; at < PACKETS; at++) {
          const packet = connectionAt(first + at * STRIDE);
          const verdict = evaluateFormer(before, expected, packet);
          expect([packet, judge(after, packet).verdict]).toEqual([packet, verdict]);
          if (verdict === 'deny') found.denied++;
        }
        found.sets++;
        found.packets += PACKETS;
        found.policies += policies.length;
        if (losses.length === 0) found.complete++;
      }),
      { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
    );
  process.stdout.write(`${kind}: ${JSON.stringify(found)}\n`);
  expect(found.denied).toBeGreaterThan(found.sets);
  expect(found.policies).toBeGreaterThan(found.sets / 2);
});
