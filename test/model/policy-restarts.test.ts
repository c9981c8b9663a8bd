import fc from 'fast-check';
import { expect, it } from 'vitest';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import type { PolicyMatrix } from '../../src/policy/matrix/matrix.ts';
import { timeoutOf } from '../support/batches.ts';
import { EditedNode, RecordedBridge } from './edited-node.ts';
import { type ExchangedPairs, exchangedLabels, exchangeHistories } from './exchanged-labels.ts';
import { nameOf, type PolicyObject, provenNode, put, remove } from './policy-proof.ts';
import { mixtures, saidBy, verdictsOf } from './probed-ends.ts';
import { type PolicyHistory, policyHistories, probedAddresses } from './random-policies.ts';

const seed = Number(process.env['SEINE_TEST_SEED'] ?? Date.now() % 1_000_000);
/** `npm run test:random` has more of them, `npm run test:policy` thousands. */
const runs = Math.ceil(Number(process.env['SEINE_TEST_POLICY_SETS'] ?? 20) / 4);
/** Fewer may by chance lack the tested case. */
const isTelling = runs >= 25;
const withinMs = 60_000;
const addresses = probedAddresses.filter((_, at) => at % 4 === 0 || (at % 2 === 1 && at < 30));

/** Changes at one moment. */
type Change = PolicyHistory['changes'][number] | readonly { readonly pairs: ExchangedPairs }[];

/** One agent after another on one bridge. */
interface AgentRun {
  /** Changes while no agent runs, before this one starts. */
  readonly away?: Change | undefined;
  /** Changes once it has the state, before it may remove entries of the previous one. */
  readonly later?: Change | undefined;
  /** Number of the bundle at which it ends; if it has nothing to do before, it lives until all is done. */
  readonly endsWith: number;
}

interface Ended {
  /** Agents that ended in the middle of their work. */
  agents: number;
  bundles: number;
}

/** A bridge that outlives its agents, and the policies that a packet may still match. */
class OutlivedBridge {
  readonly #bridge = new RecordedBridge();
  readonly #set = new Map<string, PolicyObject>();
  readonly #batchSize: number;
  readonly #ended: Ended;
  readonly #wrong: string[] = [];
  #states: readonly PolicyMatrix[] = [];
  #last: EditedNode | undefined;

  constructor(batchSize: number, ended: Ended) {
    this.#batchSize = batchSize;
    this.#ended = ended;
  }

  async begin(objects: readonly PolicyObject[], signal: AbortSignal): Promise<void> {
    for (const each of objects) this.#set.set(nameOf(each), each);
    const node = this.#start();
    await node.work(signal);
    await node.settled(signal);
    await node.end();
    this.#states = [this.#matrix()];
  }

  /** @returns pairs of a pod and an address with a verdict of none of the policies since the last agent finished */
  async run({ away = [], later = [], endsWith }: AgentRun, signal: AbortSignal): Promise<readonly string[]> {
    this.#change(away);
    const node = this.#start();
    const stop = new AbortController();
    const until = AbortSignal.any([signal, stop.signal]);
    let bundles = 0;
    this.#bridge.onBundle = () => {
      this.#look(node);
      if (++bundles !== endsWith) return;
      this.#bridge.die();
      stop.abort();
    };
    try {
      await node.work(until);
      this.#change(later, node);
      await node.work(until);
      await node.settled(until);
      node.allowRemovals();
      await node.swept(until);
      node.obsoleteRemoved();
      await node.work(until);
      await node.settled(until);
      this.#states = this.#states.slice(-1);
      this.#look(node);
    } catch (thrown) {
      if (!stop.signal.aborted) throw thrown;
      this.#ended.agents++;
    } finally {
      await node.end();
      this.#ended.bundles += bundles;
    }
    this.#bridge.revive();
    return this.#wrong.splice(0).slice(0, 3);
  }

  get flows(): number {
    return this.#bridge.held.size;
  }

  /** Number of flows of an agent with its own bridge. */
  async flowsOfOne(signal: AbortSignal): Promise<number> {
    const bridge = new RecordedBridge();
    const node = new EditedNode({ bridge, batchSize: this.#batchSize });
    for (const each of this.#set.values()) put(node.engine, each);
    await node.work(signal);
    await node.settled(signal);
    await node.end();
    return bridge.held.size;
  }

  #start(): EditedNode {
    const node = new EditedNode({ bridge: this.#bridge, batchSize: this.#batchSize, ...(this.#last && { predecessor: this.#last }) });
    this.#last = node;
    for (const each of this.#set.values()) put(node.engine, each);
    return node;
  }

  /** @param node the running agent, if there is one */
  #change(steps: Change, node?: EditedNode): void {
    for (const step of steps) {
      if ('put' in step) this.#put(step.put, node);
      else if ('remove' in step) this.#remove(step.remove, node);
      else for (const each of exchangedLabels(this.#set.values(), provenNode, step.pairs)) this.#put(each, node);
    }
    if (steps.length > 0 && this.#states.length > 0) this.#states = [...this.#states, this.#matrix()];
  }

  #put(each: PolicyObject, node?: EditedNode): void {
    this.#set.set(nameOf(each), each);
    if (node) put(node.engine, each);
  }

  #remove(at: number, node?: EditedNode): void {
    const [name, each] = [...this.#set][at % Math.max(1, this.#set.size)] ?? [];
    if (name === undefined || !each) return;
    this.#set.delete(name);
    if (node) remove(node.engine, each);
  }

  #matrix(): PolicyMatrix {
    const engine = new PolicyEngine(provenNode);
    for (const each of this.#set.values()) put(engine, each);
    engine.update();
    return engine.matrix;
  }

  #look(node: EditedNode): void {
    const states = this.#states;
    const [first] = states;
    if (!first) return;
    const verdicts = verdictsOf(this.#bridge.bytes(), node, first, { matrices: states, addresses });
    const verdictsByState = states.map((matrix) => saidBy(matrix, states, addresses));
    this.#wrong.push(...mixtures(verdicts, verdictsByState, 3));
  }
}

async function prove(
  histories: fc.Arbitrary<{ readonly objects: readonly PolicyObject[]; readonly agents: readonly AgentRun[] }>,
): Promise<void> {
  const ended: Ended = { agents: 0, bundles: 0 };
  const property = fc.asyncProperty(histories, fc.constantFrom(5, 10, 40), async ({ objects, agents }, batchSize) => {
    const bridge = new OutlivedBridge(batchSize, ended);
    const signal = AbortSignal.timeout(withinMs);
    await bridge.begin(objects, signal);
    for (const [at, agent] of agents.entries()) expect(await bridge.run(agent, signal), `agent ${at}`).toEqual([]);
    expect(await bridge.run({ endsWith: Number.POSITIVE_INFINITY }, signal), 'the last agent').toEqual([]);
    expect(bridge.flows, 'flows').toBe(await bridge.flowsOfOne(signal));
  });
  await fc.assert(property, { seed, numRuns: runs, endOnFailure: true });
  process.stdout.write(`${ended.agents} agents ended in the middle, ${ended.bundles} bundles\n`);
  if (isTelling) expect(ended.agents).toBeGreaterThan(0);
}

const endsWith = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 10 }) },
  { weight: 1, arbitrary: fc.constant(Number.POSITIVE_INFINITY) },
);

/** @param changes of a history, each of which happens without an agent, or while one runs */
function agentsOf(
  changes: readonly Change[],
  ends: readonly { readonly endsWith: number; readonly isAway: boolean; readonly isBoth: boolean }[],
): readonly AgentRun[] {
  const left = [...changes];
  return ends.map(({ endsWith: bundle, isAway, isBoth }) => ({
    endsWith: bundle,
    ...(isAway || isBoth ? { away: left.shift() } : {}),
    ...(!isAway || isBoth ? { later: left.shift() } : {}),
  }));
}

const ends = fc.array(fc.record({ endsWith, isAway: fc.boolean(), isBoth: fc.boolean() }), { minLength: 1, maxLength: 3 });

it(`a change while no agent runs, or during which one ends, is like any other (SEINE_TEST_SEED=${seed})`, {
  timeout: timeoutOf(runs),
}, async () => {
  await prove(
    fc
      .record({ history: policyHistories, ends })
      .map(({ history, ends: all }) => ({ objects: history.objects, agents: agentsOf(history.changes, all) })),
  );
});

it(`also if pods exchange their labels (SEINE_TEST_SEED=${seed})`, { timeout: timeoutOf(runs) }, async () => {
  await prove(
    fc
      .record({ history: exchangeHistories, ends, isUndone: fc.boolean() })
      .map(({ history: { objects, exchanges }, ends: all, isUndone }) => {
        const [first = []] = exchanges;
        // Pods that exchange their labels twice have their old ones: a later agent has to do what an earlier one was doing.
        const pairs = isUndone ? [first, first, first, ...exchanges.slice(1)] : exchanges;
        const changes = pairs.map((each) => [{ pairs: each }]);
        return { objects, agents: agentsOf(changes, all) };
      }),
  );
});
