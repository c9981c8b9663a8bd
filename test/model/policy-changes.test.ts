import fc from 'fast-check';
import { expect, it } from 'vitest';
import { PolicyEngine } from '../../src/policy/policy-engine.ts';
import type { PolicyMatrix } from '../../src/policy-matrix/matrix.ts';
import { timeoutOf } from '../support/batches.ts';
import { EditedNode, ToldBridge } from './edited-node.ts';
import { type ExchangedPairs, exchangedLabels, exchangeHistories } from './exchanged-labels.ts';
import { nameOf, type PolicyObject, provenNode, put, remove } from './policy-proof.ts';
import { mixtures, saidBy, type Verdicts, verdictsOf } from './probed-ends.ts';
import { type PolicyHistory, policyHistories, probedAddresses } from './random-policies.ts';

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
const runs = Math.ceil(Number(process.env['SEINE_TEST_POLICY_SETS'] ?? 100) / 4);
const withinMs = 60_000;

/** Pods', and some at which nothing is. */
const addresses = probedAddresses.filter((_, at) => at % 4 === 0 || (at % 2 === 1 && at < 30));

type Objects = Map<string, PolicyObject>;
type Fault = 'loseAnswer' | 'loseRequest' | undefined;

function matrixOf(set: Objects): PolicyMatrix {
  const engine = new PolicyEngine(provenNode);
  for (const each of set.values()) put(engine, each);
  engine.update();
  return engine.matrix;
}

interface MetState {
  readonly verdicts: Verdicts;
  readonly matrices: readonly PolicyMatrix[];
}

let [bundles, between] = [0, 0];

/** A node that lives a history: all of a change at once, whatever is in it. */
class ChangingNode {
  readonly #bridge = new ToldBridge();
  readonly #node: EditedNode;
  readonly #set: Objects = new Map();
  #states: readonly PolicyMatrix[] = [];
  #met: MetState[] = [];

  constructor(batchSize: number) {
    this.#node = new EditedNode({ bridge: this.#bridge, batchSize });
  }

  async begin(objects: readonly PolicyObject[], signal: AbortSignal): Promise<void> {
    for (const each of objects) this.#put(each);
    await this.#work(signal);
    this.#states = [matrixOf(this.#set)];
    this.#bridge.onBundle = () => {
      bundles++;
      this.#look();
    };
  }

  /** @returns pairs of a pod and an address that met what holds neither before nor after it */
  async change(steps: PolicyHistory['changes'][number], fault: Fault, signal: AbortSignal): Promise<readonly string[]> {
    for (const step of steps) {
      if ('put' in step) this.#put(step.put);
      else this.#remove(step.remove);
    }
    return await this.#judge(fault, signal);
  }

  /** As `change`: pods exchange their labels. */
  async exchange(pairs: ExchangedPairs, fault: Fault, signal: AbortSignal): Promise<readonly string[]> {
    for (const each of exchangedLabels(this.#set.values(), provenNode, pairs)) this.#put(each);
    return await this.#judge(fault, signal);
  }

  async end(): Promise<void> {
    this.#bridge.onBundle = () => undefined;
    await this.#node.end();
  }

  async #judge(fault: Fault, signal: AbortSignal): Promise<readonly string[]> {
    this.#states = [...this.#states, matrixOf(this.#set)];
    if (fault) this.#bridge.failNext(fault);
    await this.#work(signal);
    const wrong = this.#judged();
    this.#states = this.#states.slice(-1);
    this.#look();
    return [...wrong, ...this.#judged()];
  }

  async #work(signal: AbortSignal): Promise<void> {
    await this.#node.work(signal);
    await this.#node.settled(signal);
  }

  #look(): void {
    const [matrix] = this.#states;
    if (!matrix) return;
    const verdicts = verdictsOf(this.#bridge.bytes(), this.#node, matrix, { matrices: this.#states, addresses });
    this.#met.push({ verdicts, matrices: this.#states });
  }

  #judged(): readonly string[] {
    const said = this.#states.map((matrix) => saidBy(matrix, this.#states, addresses));
    const wrong = this.#met.flatMap(({ verdicts }) => mixtures(verdicts, said, 3));
    between += this.#met.length;
    this.#met = [];
    return wrong;
  }

  #put(each: PolicyObject): void {
    this.#set.set(nameOf(each), each);
    put(this.#node.engine, each);
  }

  #remove(at: number): void {
    const name = [...this.#set.keys()][at % Math.max(1, this.#set.size)];
    const each = name === undefined ? undefined : this.#set.get(name);
    if (name === undefined || !each) return;
    this.#set.delete(name);
    remove(this.#node.engine, each);
  }
}

const faults = fc.array(fc.constantFrom<Fault[]>(undefined, undefined, undefined, 'loseAnswer', 'loseRequest'), { maxLength: 6 });
const batchSize = fc.constantFrom(5, 10, 40, 500);

async function withNode(
  batchSize: number,
  objects: readonly PolicyObject[],
  live: (node: ChangingNode, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const signal = AbortSignal.timeout(withinMs);
  const node = new ChangingNode(batchSize);
  try {
    await node.begin(objects, signal);
    await live(node, signal);
  } finally {
    await node.end();
  }
}

it(`each packet meets what held before a change or what holds after it, whatever changes together (SEINE_TEST_SEED=${seed})`, {
  timeout: timeoutOf(runs),
}, async () => {
  [bundles, between] = [0, 0];
  const histories = fc.record({ history: policyHistories, faults, batchSize });
  await fc.assert(
    fc.asyncProperty(histories, async ({ history: { objects, changes }, faults: all, batchSize: size }) => {
      await withNode(size, objects, async (node, signal) => {
        for (const [at, steps] of changes.entries())
          expect((await node.change(steps, all[at], signal)).slice(0, 3), `change ${at}`).toEqual([]);
      });
    }),
    { seed, numRuns: runs, endOnFailure: true },
  );
  process.stdout.write(`${bundles} bundles, ${between} states\n`);
});

it(`so does it where pods exchange their labels, and leave classes that others come to (SEINE_TEST_SEED=${seed})`, {
  timeout: timeoutOf(runs),
}, async () => {
  [bundles, between] = [0, 0];
  const histories = fc.record({ history: exchangeHistories, faults, batchSize });
  await fc.assert(
    fc.asyncProperty(histories, async ({ history: { objects, exchanges }, faults: all, batchSize: size }) => {
      await withNode(size, objects, async (node, signal) => {
        for (const [at, pairs] of exchanges.entries())
          expect((await node.exchange(pairs, all[at], signal)).slice(0, 3), `exchange ${at}`).toEqual([]);
      });
    }),
    { seed, numRuns: runs, endOnFailure: true },
  );
  process.stdout.write(`${bundles} bundles, ${between} states\n`);
});
