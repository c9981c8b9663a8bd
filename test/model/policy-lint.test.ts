import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { LintFinding } from '../../src/policy/lint/findings.ts';
import { lint } from '../../src/policy/lint/lint.ts';
import { isPoliced, type ReachObjects } from '../../src/policy/reach/objects.ts';
import { verdictOfTier } from '../../src/policy/verify/reference/cluster-verdict.ts';
import type { ClusterNetworkPolicyObject } from '../../src/policy/verify/reference/objects.ts';
import { type End, whoHas } from '../../src/policy/verify/reference/parties.ts';
import { judge } from '../../src/policy/verify/reference/reference-verdict.ts';
import { batches, timeoutOf } from '../support/batches.ts';
import { nameOf, objectsOf } from './policy-proof.ts';
import { probedAddresses, probedPorts, tieredHistories } from './random-policies.ts';

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const runs = Number(process.env['SEINE_TEST_POLICY_SETS'] ?? 6);

type TierVerdict = ReturnType<typeof verdictOfTier>;

/** Connection at one end. */
interface Sight {
  readonly end: End;
  readonly connection: { readonly from: string; readonly to: string; readonly protocol: string; readonly port?: number };
}

/** Returns every connection of every pod, at addresses and ports where anything can change. */
function* sightsOf(objects: ReachObjects): Generator<Sight> {
  const owned = objects.pods.filter(isPoliced).flatMap((pod) => (pod.status.podIPs ?? []).map(({ ip }) => ip));
  const ports = [
    { protocol: 'GRE' },
    // Each protocol at all ports: a rule may match at one of them only.
    ...['TCP', 'UDP', 'SCTP'].flatMap((protocol) => probedPorts.TCP.map((port) => ({ protocol, port }))),
  ];
  for (const own of owned) {
    const subject = whoHas(objects, own);
    if (subject.is !== 'pod') continue;
    for (const other of probedAddresses.filter((each) => each.includes(':') === own.includes(':'))) {
      const peer = whoHas(objects, other);
      if ((peer.is === 'pod' && peer.pod === subject.pod) || peer.is === 'address of no pod') continue;
      for (const direction of ['ingress', 'egress'] as const) {
        if (direction === 'ingress' && peer.is === 'node' && peer.node.metadata.name === subject.pod.spec.nodeName) continue;
        const destination = direction === 'ingress' ? subject : peer;
        const [from, to] = direction === 'ingress' ? [other, own] : [own, other];
        for (const port of ports)
          yield { end: { direction, subject: subject.pod, peer, address: other, destination }, connection: { from, to, ...port } };
      }
    }
  }
}

/** Result of an evaluation of every connection. */
interface BruteForce {
  /** Rules that match something, and those of them that decide about something. */
  readonly matching: ReadonlySet<string>;
  readonly deciding: ReadonlySet<string>;
  /** Pairs of names of equal priority that contradict each other where one of the two decides. */
  readonly conflicts: ReadonlySet<string>;
}

function bruteForce(objects: ReachObjects): BruteForce {
  const policies = objects.clusterNetworkPolicies ?? [];
  const [matching, deciding, conflicts] = [new Set<string>(), new Set<string>(), new Set<string>()];
  const alone = policies.flatMap((policy) => rulesAlone(policy));
  for (const { end, connection } of sightsOf(objects)) {
    const tiers = (['Admin', 'Baseline'] as const).map((tier) => [tier, verdictOfTier(objects, tier, connection, end)] as const);
    const first = new Map(tiers);
    for (const { name, direction, tier, policy } of alone)
      if (direction === end.direction && verdictOfTier({ ...objects, clusterNetworkPolicies: [policy] }, tier, connection, end))
        matching.add(name);
    const isAdminFinal = first.get('Admin') !== undefined && first.get('Admin')?.action !== 'Pass';
    const isIsolated = (judge(objects, connection)[end.direction]?.isolatedBy.length ?? 0) > 0;
    for (const [tier, judged] of tiers) if (judged && (tier === 'Admin' || !(isAdminFinal || isIsolated))) deciding.add(judged.rule);
    for (const [one, other] of equalPairs(policies)) {
      const [a, b] = [one, other].map(
        (policy): TierVerdict => verdictOfTier({ ...objects, clusterNetworkPolicies: [policy] }, one.spec.tier, connection, end),
      );
      const winner = first.get(one.spec.tier)?.rule;
      if (a && b && a.action !== b.action && (winner === a.rule || winner === b.rule)) conflicts.add(pairName(one, other));
    }
  }
  return { matching, deciding, conflicts };
}

function rulesAlone(policy: ClusterNetworkPolicyObject) {
  return (['ingress', 'egress'] as const).flatMap((direction) =>
    (policy.spec[direction] ?? []).map((rule, at) => {
      const { ingress: _, egress: __, ...spec } = policy.spec;
      const name = `${policy.metadata.name} spec.${direction}[${at}]`;
      return { name, direction, tier: spec.tier, policy: { ...policy, spec: { ...spec, [direction]: [rule] } } };
    }),
  );
}

function equalPairs(policies: readonly ClusterNetworkPolicyObject[]) {
  return policies.flatMap((one, at) =>
    policies
      .slice(at + 1)
      .flatMap((other) => (one.spec.tier === other.spec.tier && one.spec.priority === other.spec.priority ? [[one, other] as const] : [])),
  );
}

function pairName(...pair: readonly ClusterNetworkPolicyObject[]): string {
  return pair
    .map(({ metadata }) => metadata.name)
    .toSorted()
    .join(' ');
}

const namedIn = ({ message }: LintFinding): string =>
  [...message.matchAll(/(\S+) spec\.\w+\[\d+\] \(\w+\)/g)]
    .map(([, name = '']) => name)
    .toSorted()
    .join(' ');

it(`finds covered rules and contradictions as an evaluation of every connection does (SEINE_TEST_SEED=${seed})`, {
  timeout: timeoutOf(runs),
}, async () => {
  const found = { covered: 0, conflicts: 0, sets: 0 };
  for await (const batch of batches('lint and reference', { seed, runs }))
    fc.assert(
      fc.property(tieredHistories, ({ objects: drawn }) => {
        const all = objectsOf(new Map(drawn.map((each) => [nameOf(each), each])));
        // Few priorities: policies of equal priority meet often.
        const clusterNetworkPolicies = (all.clusterNetworkPolicies ?? []).map(({ metadata, spec }) => ({
          metadata,
          spec: { ...spec, priority: spec.priority % 2 },
        }));
        const objects: ReachObjects = { ...all, clusterNetworkPolicies, services: [] };
        const { matching, deciding, conflicts } = bruteForce(objects);
        const findings = lint(objects);
        const covered = findings.filter(({ code }) => code === 'P01' || code === 'P10').map(({ policy, field }) => `${policy} ${field}`);
        expect(new Set(covered)).toEqual(new Set([...matching].filter((rule) => !deciding.has(rule))));
        expect(new Set(findings.filter(({ code }) => code === 'P02').map(namedIn))).toEqual(conflicts);
        found.covered += covered.length;
        found.conflicts += conflicts.size;
        found.sets++;
      }),
      { seed: batch.seed, numRuns: batch.runs, endOnFailure: true },
    );
  process.stdout.write(`${JSON.stringify(found)}\n`);
  expect(found.covered).toBeGreaterThan(0);
});
