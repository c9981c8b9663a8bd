import fc from 'fast-check';
import { expect, it } from 'vitest';
import { PolicyEngine } from '../../src/policy/policy-engine.ts';
import type { PolicyMatrix } from '../../src/policy-matrix/matrix.ts';
import { timeoutOf } from '../support/batches.ts';
import { EditedNode, ToldBridge } from './edited-node.ts';
import { exchangedLabels, exchangeHistories } from './exchanged-labels.ts';
import { nameOf, type PolicyObject, provenNode, put } from './policy-proof.ts';
import { saidBy, verdictsOf } from './probed-ends.ts';

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const runs = Math.ceil(Number(process.env['SEINE_TEST_POLICY_SETS'] ?? 100) / 4);
const withinMs = 60_000;
const addresses = [5, 6, 7, 8, 9, 10, 11].map((host) => `10.1.0.${host}`);

function matrixOf(set: Iterable<PolicyObject>): PolicyMatrix {
  const engine = new PolicyEngine(provenNode);
  for (const each of set) put(engine, each);
  engine.update();
  return engine.matrix;
}

/** What packets meet that neither of both policies says, in words; and how many are denied that both allow. */
interface Met {
  readonly opened: string[];
  denied: number;
}

function look(bridge: ToldBridge, node: EditedNode, states: readonly PolicyMatrix[], met: Met): void {
  const [before] = states;
  if (!before) return;
  const said = states.map((matrix) => saidBy(matrix, states, addresses));
  for (const [probe, verdict] of verdictsOf(bridge.bytes(), node, before, { matrices: states, addresses })) {
    const answers = said.flatMap((each) => each.get(probe) ?? []);
    if (answers.length < said.length) continue;
    if (verdict === 'allow' && !answers.includes('allow')) met.opened.push(probe);
    if (verdict === 'deny' && !answers.includes('deny')) met.denied++;
  }
}

/** Changes all of it at once, and ends with this bundle, or when it is done. @returns whether it ended in the middle */
async function diesIn(node: EditedNode, bridge: ToldBridge, bundle: number, looks: () => void): Promise<boolean> {
  const stop = new AbortController();
  let bundles = 0;
  bridge.onBundle = () => {
    looks();
    if (++bundles !== bundle) return;
    bridge.die();
    stop.abort();
  };
  const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(withinMs)]);
  try {
    await node.work(signal);
    await node.settled(signal);
  } catch (thrown) {
    if (!stop.signal.aborted) throw thrown;
  } finally {
    await node.end();
  }
  bridge.revive();
  return stop.signal.aborted;
}

it(`an agent that ends in the middle of a change leaves nothing open, and its successor completes it (SEINE_TEST_SEED=${seed})`, {
  timeout: timeoutOf(runs),
}, async () => {
  let [ended, opened, denied] = [0, 0, 0];
  const histories = fc.record({ history: exchangeHistories, bundle: fc.integer({ min: 1, max: 16 }), batchSize: fc.constantFrom(5, 10) });
  const property = fc.asyncProperty(histories, async ({ history: { objects, exchanges }, bundle, batchSize }) => {
    const bridge = new ToldBridge();
    const set = new Map(objects.map((each) => [nameOf(each), each]));
    const signal = AbortSignal.timeout(withinMs);
    const node = new EditedNode({ bridge, batchSize });
    for (const each of set.values()) put(node.engine, each);
    await node.work(signal);
    await node.settled(signal);
    const before = matrixOf(set.values());
    for (const each of exchangedLabels(set.values(), provenNode, exchanges.flat())) {
      set.set(nameOf(each), each);
      put(node.engine, each);
    }
    const after = matrixOf(set.values());
    const met: Met = { opened: [], denied: 0 };
    if (await diesIn(node, bridge, bundle, () => look(bridge, node, [before, after], met))) ended++;
    expect(met.opened.slice(0, 3)).toEqual([]);
    const next = new EditedNode({ bridge, batchSize, predecessor: node });
    bridge.onBundle = () => look(bridge, next, [before, after], met);
    try {
      for (const each of set.values()) put(next.engine, each);
      await next.work(signal);
      next.allowRemovals();
      await next.settled(signal);
      await next.swept(signal);
      const last: Met = { opened: [], denied: 0 };
      look(bridge, next, [after], last);
      expect(last).toEqual({ opened: [], denied: 0 });
    } finally {
      await next.end();
    }
    opened += met.opened.length;
    denied += met.denied;
  });
  await fc.assert(property, { seed, numRuns: runs, endOnFailure: true });
  // What it does on its way is what docs/limits.md says of it.
  process.stdout.write(
    `${ended} ended in the middle; on the successors' way ${opened} probes passed that both deny, and ${denied} not that both allow\n`,
  );
  expect(ended).toBeGreaterThan(0);
});
