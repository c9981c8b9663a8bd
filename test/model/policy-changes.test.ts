import fc from 'fast-check';
import { expect, it } from 'vitest';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { type NumberRanges, numberRange } from '../../src/policy/flows/number-ranges.ts';
import type { PolicyMatrix } from '../../src/policy/matrix/matrix.ts';
import { timeoutOf } from '../support/batches.ts';
import { EditedNode, RecordedBridge } from './edited-node.ts';
import { type ExchangedPairs, exchangedLabels, exchangeHistories } from './exchanged-labels.ts';
import { nameOf, type PolicyObject, provenNode, put, remove } from './policy-proof.ts';
import { mixtures, saidBy, type Verdicts, verdictsOf } from './probed-ends.ts';
import { type PolicyHistory, policyHistories, probedAddresses } from './random-policies.ts';

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
/** `npm run test:random` has more of them, `npm run test:policy` thousands. */
const runs = Math.ceil(Number(process.env['SEINE_TEST_POLICY_SETS'] ?? 20) / 4);
/** Fewer may by chance lack the tested case. */
const isTelling = runs >= 25;
const withinMs = 60_000;

/** Addresses of pods, and some unused ones. */
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

/** Pairs whose verdicts match neither of the policies as a whole. */
function pairsOfNeither(verdicts: Verdicts, verdictsByState: readonly Verdicts[]): readonly string[] {
  return mixtures(verdicts, verdictsByState, 3);
}

/** Probes that passed though they are denied before and after. */
function openings(verdicts: Verdicts, verdictsByState: readonly Verdicts[]): readonly string[] {
  const isOpen = (probe: string, verdict: string): boolean =>
    verdict === 'allow' && verdictsByState.every((each) => each.get(probe) === 'deny');
  return [...verdicts].flatMap(([probe, verdict]) => (isOpen(probe, verdict) ? probe : []));
}

let [bundles, between] = [0, 0];

/** A node that executes a history: all parts of a change at once. If numbers may run out, more may be denied than policies deny. */
class ChangingNode {
  readonly #bridge = new RecordedBridge();
  readonly #node: EditedNode;
  readonly #set: Objects = new Map();
  readonly #oracle: typeof openings;
  #states: readonly PolicyMatrix[] = [];
  #met: MetState[] = [];

  constructor(batchSize: number, rangeOf?: NumberRanges) {
    this.#node = new EditedNode({ bridge: this.#bridge, batchSize, ...(rangeOf && { rangeOf }) });
    this.#oracle = rangeOf ? openings : pairsOfNeither;
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

  /** @returns pairs of a pod and an address with a verdict that is valid neither before nor after it */
  async change(steps: PolicyHistory['changes'][number], fault: Fault, signal: AbortSignal): Promise<readonly string[]> {
    for (const step of steps) {
      if ('put' in step) this.#put(step.put);
      else this.#remove(step.remove);
    }
    return await this.#verdicts(fault, signal);
  }

  /** Like `change`: pods exchange their labels. */
  async exchange(pairs: ExchangedPairs, fault: Fault, signal: AbortSignal): Promise<readonly string[]> {
    for (const each of exchangedLabels(this.#set.values(), provenNode, pairs)) this.#put(each);
    return await this.#verdicts(fault, signal);
  }

  /** Peers without a number, in words. */
  get problems(): readonly string[] {
    return this.#node.flows.problems;
  }

  async end(): Promise<void> {
    this.#bridge.onBundle = () => undefined;
    await this.#node.end();
  }

  async #verdicts(fault: Fault, signal: AbortSignal): Promise<readonly string[]> {
    this.#states = [...this.#states, matrixOf(this.#set)];
    if (fault) this.#bridge.failNext(fault);
    await this.#work(signal);
    const wrong = this.#wrong();
    this.#states = this.#states.slice(-1);
    this.#look();
    return [...wrong, ...this.#wrong()];
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

  #wrong(): readonly string[] {
    const verdictsByState = this.#states.map((matrix) => saidBy(matrix, this.#states, addresses));
    const wrong = this.#met.flatMap(({ verdicts }) => this.#oracle(verdicts, verdictsByState));
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
  rangeOf?: NumberRanges,
): Promise<void> {
  const signal = AbortSignal.timeout(withinMs);
  const node = new ChangingNode(batchSize, rangeOf);
  try {
    await node.begin(objects, signal);
    await live(node, signal);
  } finally {
    await node.end();
  }
}

it(`each packet gets the verdict before or after a change, whatever changes together (SEINE_TEST_SEED=${seed})`, {
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

it('applies the first policy of a pod while an address loses its own row, and denies nothing that is allowed before and after', async () => {
  const namespace = (name: string): PolicyObject => ({
    kind: 'Namespace',
    object: { metadata: { name, labels: { 'kubernetes.io/metadata.name': name } } },
  });
  const pod = (ns: string, name: string, nodeName: string, host: string): PolicyObject => ({
    kind: 'Pod',
    object: {
      metadata: { namespace: ns, name, labels: {}, creationTimestamp: '2026-01-01T00:00:00Z' },
      spec: { nodeName, containers: [] },
      status: { phase: 'Running', podIPs: [{ ip: `10.1.0.${host}` }, { ip: `fd00:1::${host}` }] },
    },
  });
  const policy = (ns: string, namespaceSelector: object): PolicyObject => ({
    kind: 'NetworkPolicy',
    object: {
      metadata: { namespace: ns, name: 'egress' },
      spec: { podSelector: {}, policyTypes: ['Egress'], egress: [{ to: [{ namespaceSelector }] }] },
    },
  });
  const node: PolicyObject = {
    kind: 'Node',
    object: {
      metadata: { name: provenNode },
      spec: { podCIDRs: ['10.1.0.0/24', 'fd00:1::/64'] },
      status: { addresses: [{ type: 'InternalIP', address: '192.168.0.1' }] },
    },
  };
  const objects = [
    node,
    namespace('red'),
    namespace('green'),
    pod('green', 'leaves', 'n2', '5'),
    pod('green', 'stays', provenNode, '8'),
    pod('red', 'free', provenNode, '10'),
    policy('green', { matchLabels: { 'kubernetes.io/metadata.name': 'green' } }),
  ];
  await withNode(5, objects, async (live, signal) => {
    expect(await live.change([{ remove: 3 }, { put: policy('red', {}) }], undefined, signal)).toEqual([]);
  });
});

it(`also if pods exchange their labels, and leave classes that others join (SEINE_TEST_SEED=${seed})`, {
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

const lasts = fc.record({
  class: fc.integer({ min: 2, max: 6 }),
  adminClass: fc.integer({ min: 2, max: 6 }),
  baselineClass: fc.integer({ min: 2, max: 6 }),
  coarse: fc.integer({ min: 1, max: 6 }),
  fine: fc.integer({ min: 1, max: 6 }),
  decision: fc.integer({ min: 1, max: 4 }),
});

it(`denies, and admits nothing, if numbers run out in the middle of a change (SEINE_TEST_SEED=${seed})`, {
  timeout: timeoutOf(runs),
}, async () => {
  let starved = 0;
  const histories = fc.record({ random: policyHistories, exchange: exchangeHistories, isRandom: fc.boolean(), faults, last: lasts });
  const property = fc.asyncProperty(histories, async ({ random, exchange, isRandom, faults: all, last }) => {
    const changes = isRandom ? random.changes : exchange.exchanges;
    const live = async (node: ChangingNode, signal: AbortSignal): Promise<void> => {
      for (const at of changes.keys()) {
        const [steps, pairs, fault] = [random.changes[at] ?? [], exchange.exchanges[at] ?? [], all[at]];
        const open = await (isRandom ? node.change(steps, fault, signal) : node.exchange(pairs, fault, signal));
        expect(open.slice(0, 3), `change ${at}`).toEqual([]);
        if (node.problems.length > 0) starved++;
      }
    };
    await withNode(10, (isRandom ? random : exchange).objects, live, (kind) => ({ ...numberRange(kind), last: last[kind] }));
  });
  await fc.assert(property, { seed, numRuns: runs, endOnFailure: true });
  process.stdout.write(`${starved} changes left something without a number\n`);
  if (isTelling) expect(starved).toBeGreaterThan(0);
});
