import fc from 'fast-check';
import { expect, it } from 'vitest';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import type { PolicyMatrix } from '../../src/policy/matrix/matrix.ts';
import type { PolicyPortObject } from '../../src/policy/verify/reference/objects.ts';
import { timeoutOf } from '../support/batches.ts';
import { EditedNode, RecordedBridge } from './edited-node.ts';
import { nameOf, type PolicyObject, provenNode, put } from './policy-proof.ts';
import { mixtures, saidBy, type Verdicts, verdictsOf } from './probed-ends.ts';
import { policyHistories, policyPort, probedAddresses } from './random-policies.ts';

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const runs = Math.ceil(Number(process.env['SEINE_TEST_POLICY_SETS'] ?? 100) / 10);
const withinMs = 60_000;

/** A rule of an existing policy gets other ports; or another event happens; or an answer of OVS is lost. */
type Step =
  | { readonly ports: readonly PolicyPortObject[]; readonly of: number; readonly rule: number }
  | { readonly fault: 'loseAnswer' | 'loseRequest' };

/** Names of ports select peers: their change changes identities of addresses. */
const isNumbered = ({ port }: PolicyPortObject): boolean => typeof port !== 'string';
const numbered = policyPort.filter(isNumbered);
const ports = fc.record({ ports: fc.array(numbered, { minLength: 1, maxLength: 4 }), of: fc.nat(), rule: fc.nat() });
const steps = fc.array(
  fc.oneof(
    { weight: 8, arbitrary: ports },
    { weight: 1, arbitrary: fc.constantFrom({ fault: 'loseAnswer' as const }, { fault: 'loseRequest' as const }) },
  ),
  { minLength: 2, maxLength: 6 },
);

type Objects = Map<string, PolicyObject>;

/** The set with these ports in one rule of one of its policies; undefined if there is none. */
function withPorts(set: Objects, { ports, of, rule }: Extract<Step, { readonly ports: unknown }>): PolicyObject | undefined {
  const policies = [...set.values()].flatMap((each) => (each.kind === 'NetworkPolicy' ? [each.object] : []));
  const policy = policies[of % Math.max(1, policies.length)];
  if (!policy) return undefined;
  const { spec } = policy;
  const all = [...(spec.ingress ?? []), ...(spec.egress ?? [])].filter((each) => (each.ports ?? []).every(isNumbered));
  const chosen = all[rule % Math.max(1, all.length)];
  const changed = (rules: typeof spec.ingress) => rules?.map((each) => (each === chosen ? { ...each, ports } : each)) ?? null;
  return {
    kind: 'NetworkPolicy',
    object: { ...policy, spec: { ...spec, ingress: changed(spec.ingress), egress: changed(spec.egress) } },
  };
}

function matrixOf(set: Objects): PolicyMatrix {
  const engine = new PolicyEngine(provenNode);
  for (const each of set.values()) put(engine, each);
  engine.update();
  return engine.matrix;
}

/** Every eighth address. */
const addresses = probedAddresses.filter((_, at) => at % 8 === 0);

let [bundles, whole] = [0, 0];

/** @returns packets of pods that matched neither the policies before a change nor those after it */
async function between(objects: readonly PolicyObject[], changes: readonly Step[], batchSize: number): Promise<readonly string[]> {
  const signal = AbortSignal.timeout(withinMs);
  const bridge = new RecordedBridge();
  const node = new EditedNode({ bridge, batchSize });
  const set: Objects = new Map();
  const take = (each: PolicyObject): void => {
    set.set(nameOf(each), each);
    put(node.engine, each);
  };
  for (const each of objects) take(each);
  await node.work(signal);
  await node.settled(signal);
  const wrong: string[] = [];
  let states = [matrixOf(set)];
  let met: { readonly verdicts: Verdicts; readonly matrices: readonly PolicyMatrix[] }[] = [];
  const look = (): void => {
    const matrix = states.at(-1) ?? matrixOf(set);
    met.push({ verdicts: verdictsOf(bridge.bytes(), node, matrix, { matrices: states, addresses }), matrices: states });
  };
  const judge = (): void => {
    for (const { verdicts, matrices } of met) {
      const verdictsByState = matrices.map((matrix) => saidBy(matrix, matrices, addresses));
      wrong.push(...mixtures(verdicts, verdictsByState, 2));
    }
    met = [];
  };
  bridge.onBundle = ({ isWhole }) => {
    bundles++;
    if (isWhole) whole++;
    look();
  };
  try {
    for (const change of changes) {
      if ('fault' in change) {
        bridge.failNext(change.fault);
        continue;
      }
      const next = withPorts(set, change);
      if (!next) continue;
      take(next);
      states = [...states, matrixOf(set)];
      await node.work(signal);
      await node.settled(signal);
      look();
      judge();
      states = states.slice(-1);
      look();
      judge();
    }
  } finally {
    bridge.onBundle = () => undefined;
    await node.end();
  }
  return wrong;
}

it(`a pod has the policies before a change of ports, or those after it (SEINE_TEST_SEED=${seed})`, {
  timeout: timeoutOf(runs),
}, async () => {
  [bundles, whole] = [0, 0];
  const histories = fc.record({ objects: policyHistories.map(({ objects }) => objects), steps, batchSize: fc.constantFrom(10, 500) });
  await fc.assert(
    fc.asyncProperty(histories, async ({ objects, steps: changes, batchSize }) => {
      expect((await between(objects, changes, batchSize)).slice(0, 3)).toEqual([]);
    }),
    { seed, numRuns: runs, endOnFailure: true },
  );
  process.stdout.write(`${bundles} bundles, ${whole} of them whole\n`);
  expect(whole).toBeGreaterThan(runs / 4);
});
