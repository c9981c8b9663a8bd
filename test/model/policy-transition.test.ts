import fc from 'fast-check';
import { expect, it } from 'vitest';
import { finish } from '../../src/base/async/steps.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { PolicyFlows } from '../../src/policy/flows/policy-flows.ts';
import type { PolicyTransition, TransitionBounds } from '../../src/policy/flows/transition.ts';
import { answerOf, lookUp } from '../../src/policy/matrix/interpret.ts';
import {
  type DirectionMatrix,
  haveSameClasses,
  type PolicyDirection,
  type PolicyMatrix,
  policyDirections,
} from '../../src/policy/matrix/matrix.ts';
import { timeoutOf } from '../support/batches.ts';
import { type ExchangedPairs, exchangedLabels, exchangeHistories } from './exchanged-labels.ts';
import { families } from './policy-flow-run.ts';
import { nameOf, type PolicyObject, provenNode, put, remove } from './policy-proof.ts';
import { type PolicyHistory, policyHistories, probedAddresses, tieredHistories } from './random-policies.ts';

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const runs = Number(process.env['SEINE_TEST_POLICY_SETS'] ?? 100);

const addresses = probedAddresses.filter((_, at) => at % 2 === 0);
const probedPorts = [0, 1, 53, 80, 81, 443, 8080, 65_535];

type Found = ReturnType<typeof lookUp>;
const known = new WeakMap<object, string>();

/** Ports of protocols, as text. */
function verdicts(found: Found): string {
  if ('verdict' in found) return found.verdict;
  const all = (['TCP', 'UDP', 'SCTP'] as const).flatMap((protocol) =>
    probedPorts.map((port) => answerOf(found, { protocol, port }).verdict),
  );
  const text = known.get(found) ?? [...all, answerOf(found, { protocol: 'ICMP' }).verdict].join();
  known.set(found, text);
  return text.includes('allow') ? (text.includes('deny') ? text : 'allow') : 'deny';
}

function copyOf({ subjects, ownNode, ingress, egress }: PolicyMatrix): PolicyMatrix {
  const rows = ({ identities, relations }: DirectionMatrix) => ({ identities: new Map(identities), relations: new Map(relations) });
  return { subjects: new Map(subjects), ownNode, ingress: rows(ingress), egress: rows(egress) };
}

/** State of the bridge in a direction after the first part of a transition is installed. */
function between(before: DirectionMatrix, { matrix, begin }: PolicyTransition, direction: PolicyDirection): DirectionMatrix {
  const [identities, relations] = [new Map(before.identities), new Map(before.relations)];
  for (const cidr of begin[direction].identities) {
    const identity = matrix[direction].identities.get(cidr);
    if (identity) identities.set(cidr, identity);
    else identities.delete(cidr);
  }
  for (const key of begin[direction].relations) {
    const decision = matrix[direction].relations.get(key);
    if (decision) relations.set(key, decision);
  }
  return { identities, relations };
}

interface Round {
  readonly before: PolicyMatrix;
  readonly after: PolicyMatrix;
  readonly transition: PolicyTransition | undefined;
}

/** @param exchanges pods that exchange their labels, in rounds after the history's */
function* roundsOf(
  { objects, changes }: PolicyHistory,
  exchanges: readonly ExchangedPairs[] = [],
  transitionMost?: TransitionBounds,
): Generator<Round> {
  const engine = new PolicyEngine(provenNode);
  const flows = new PolicyFlows({ families, ...(transitionMost && { transitionMost }) });
  const set = new Map<string, PolicyObject>();
  for (const round of [objects.map((each) => ({ put: each })), ...changes, ...exchanges.map((pairs) => ({ pairs }))]) {
    const steps = 'pairs' in round ? exchangedLabels(set.values(), provenNode, round.pairs).map((each) => ({ put: each })) : round;
    for (const step of steps) {
      if ('put' in step) {
        set.set(nameOf(step.put), step.put);
        put(engine, step.put);
        continue;
      }
      const [name, each] = [...set][step.remove % Math.max(1, set.size)] ?? [];
      if (name === undefined || !each) continue;
      set.delete(name);
      remove(engine, each);
    }
    const before = copyOf(engine.matrix);
    const change = finish(engine.round());
    const [after, transition] = [copyOf(engine.coming), finish(flows.transition(engine.matrix, engine.coming, change))];
    engine.publish();
    const run = (...round: Parameters<PolicyFlows['round']>): void => flows.publish(engine.matrix, finish(flows.round(...round)).subjects);
    if (transition) run(transition.matrix, transition.begin, transition);
    for (const end of transition?.ends ?? [{ matrix: after, change }]) run(end.matrix, end.change);
    yield { before, after, transition };
  }
}

function entryOf<V>(key: string, value: V | undefined): [string, V][] {
  return value === undefined ? [] : [[key, value]];
}

/** Addresses have their final identity, and no row has been removed yet. */
function ended(after: PolicyMatrix, rows: Readonly<Record<PolicyDirection, DirectionMatrix>>): typeof rows {
  const of = (direction: PolicyDirection) => ({ ...rows[direction], identities: after[direction].identities });
  return { ingress: of('ingress'), egress: of('egress') };
}

/** Differences for a pod and an address, with the pod's previous and next class during the transition. */
function differences({ before, after }: Round, transition: PolicyTransition): readonly string[] {
  const rows = { ingress: between(before.ingress, transition, 'ingress'), egress: between(before.egress, transition, 'egress') };
  const led = new Map([...after.subjects.keys()].flatMap((pod) => entryOf(pod, transition.matrix.subjects.get(pod))));
  const wrong: string[] = [];
  for (const [pod, was] of before.subjects) {
    const will = after.subjects.get(pod);
    if (will?.addresses.join() !== was.addresses.join()) continue;
    for (const direction of policyDirections)
      for (const address of addresses.filter((each) => !before.ownNode.has(each) && !after.ownNode.has(each))) {
        const of = (matrix: PolicyMatrix): string => verdicts(lookUp(matrix, { pod, direction, address }));
        const [former, next] = [of({ ...before, ...rows }), of({ ...after, ...rows, subjects: led })];
        const isRight = haveSameClasses(was, will, direction)
          ? [of(before), of(after)].includes(former)
          : former === of(before) && next === of(after);
        const last = of({ ...after, ...ended(after, rows), subjects: led });
        if (!isRight || last !== of(after))
          wrong.push(`${direction} of ${pod} with ${address}: ${of(before)}; ${former}; ${next}; ${last}; ${of(after)}`);
      }
  }
  return wrong;
}

/** Addresses of pods that exchange their labels. */
const exchangedAddresses = [5, 6, 7, 8, 9, 10, 11].map((host) => `10.1.0.${host}`);

/** Probes that the transition allows though they are denied before and after. @returns also the number of denials that both allow */
function opened({ before, after }: Round, transition: PolicyTransition): { readonly wrong: readonly string[]; readonly lost: number } {
  const rows = { ingress: between(before.ingress, transition, 'ingress'), egress: between(before.egress, transition, 'egress') };
  const led = new Map([...after.subjects.keys()].flatMap((pod) => entryOf(pod, transition.matrix.subjects.get(pod))));
  const wrong: string[] = [];
  let lost = 0;
  for (const [pod, was] of before.subjects) {
    if (after.subjects.get(pod)?.addresses.join() !== was.addresses.join()) continue;
    for (const direction of policyDirections)
      for (const address of exchangedAddresses)
        for (const port of [53, 80, 8080]) {
          const allows = (matrix: PolicyMatrix): boolean =>
            answerOf(lookUp(matrix, { pod, direction, address }), { protocol: 'TCP', port }).verdict === 'allow';
          const said = [allows(before), allows(after)];
          const meets = [allows({ ...before, ...rows }), allows({ ...after, ...rows, subjects: led })];
          if (meets.some(Boolean) && !said.some(Boolean)) wrong.push(`${direction} of ${pod} with ${address} port ${port}`);
          if (!meets.every(Boolean) && said.every(Boolean)) lost++;
        }
  }
  return { wrong, lost };
}

const boundedRuns = Math.ceil(runs / 4);

it(`beyond its limits a transition denies, and admits nothing (SEINE_TEST_SEED=${seed})`, { timeout: timeoutOf(runs) }, () => {
  let lost = 0;
  const bounds = fc.record({ identities: fc.constantFrom(0, 1, 2), rows: fc.constantFrom(0, 2, 10, 50_000) });
  const property = fc.property(exchangeHistories, bounds, ({ objects, exchanges }, most) => {
    for (const round of roundsOf({ objects, changes: [] }, exchanges, most)) {
      if (!round.transition) continue;
      const met = opened(round, round.transition);
      expect(met.wrong.slice(0, 3)).toEqual([]);
      lost += met.lost;
    }
  });
  fc.assert(property, { seed, numRuns: boundedRuns, endOnFailure: true });
  process.stdout.write(`${lost} probes denied that both allow\n`);
  expect(lost).toBeGreaterThan(0);
});

it.each([
  ['NetworkPolicies', policyHistories],
  ['policies of all tiers', tieredHistories],
] as const)(
  `a transition has the old verdicts under previous classes, and the new ones under the next, with %s (SEINE_TEST_SEED=${seed})`,
  {
    timeout: timeoutOf(runs),
  },
  (_, histories) => {
    let transitions = 0;
    const property = fc.property(histories, (history) => {
      for (const round of roundsOf(history)) {
        if (!round.transition) continue;
        transitions++;
        expect(differences(round, round.transition).slice(0, 3)).toEqual([]);
      }
    });
    fc.assert(property, { seed, numRuns: runs, endOnFailure: true });
    process.stdout.write(`${transitions} transitions\n`);
    expect(transitions).toBeGreaterThan(runs / 10);
  },
);

it(`also if pods leave a class that others join (SEINE_TEST_SEED=${seed})`, { timeout: timeoutOf(runs) }, () => {
  let copies = 0;
  const property = fc.property(exchangeHistories, ({ objects, exchanges }) => {
    for (const round of roundsOf({ objects, changes: [] }, exchanges)) {
      if (!round.transition) continue;
      if (round.transition.ends.length > 1) copies++;
      expect(differences(round, round.transition).slice(0, 3)).toEqual([]);
    }
  });
  fc.assert(property, { seed, numRuns: runs, endOnFailure: true });
  process.stdout.write(`${copies} transitions with copies of classes\n`);
  expect(copies).toBeGreaterThan(runs / 10);
});
