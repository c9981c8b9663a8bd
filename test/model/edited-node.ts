import { LoopTurns } from '../../src/base/async/loop-turns.ts';
import { parseIp } from '../../src/base/net/ip.ts';
import { compileSubject, entriesOfOthers } from '../../src/dataplane/compile/compile-entry.ts';
import { compileVerdicts } from '../../src/dataplane/compile/compile-verdict.ts';
import { nothing, type Wanted } from '../../src/dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import type { NumberedRow } from '../../src/dataplane/pipeline/flow-pattern.ts';
import { DesiredState } from '../../src/dataplane/reconcile/desired-state.ts';
import { PackedMap } from '../../src/dataplane/reconcile/packed-entries.ts';
import { Reconciler } from '../../src/dataplane/reconcile/reconciler.ts';
import type { Plan } from '../../src/dataplane/reconcile/target.ts';
import { FakeTarget } from '../../src/dataplane/reconcile/testing/fake-target.ts';
import {
  type BridgeKey,
  type BridgeValue,
  decodeFlowEntry,
  depthOfKey,
  encodeBridgeEntries,
} from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { recoveredFlows } from '../../src/dataplane/targets/bridge/recovered-flows.ts';
import { RowPacking } from '../../src/dataplane/targets/bridge/row-packing.ts';
import { classNames } from '../../src/policy/controller/pod-policy-state.ts';
import { PolicyRounds } from '../../src/policy/controller/policy-rounds.ts';
import { PolicyRuleInstaller } from '../../src/policy/controller/policy-rule-installer.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { addressRows } from '../../src/policy/flows/address-rows.ts';
import type { NumberRanges } from '../../src/policy/flows/number-ranges.ts';
import { PolicyFlows } from '../../src/policy/flows/policy-flows.ts';
import { policyTables } from '../../src/policy/flows/rows.ts';
import { PolicyBytes } from '../../src/policy/verify/flow-reader/flow-reader.ts';
import { exampleNode } from '../support/example-node.ts';
import { families } from './policy-flow-run.ts';
import { provenNode } from './policy-proof.ts';

const nodeFlows = [...entriesOfOthers(exampleNode), ...compileVerdicts(exampleNode)];
const nodeRows = [...encodeBridgeEntries(ownerOf('node'), { ...nothing, flows: nodeFlows })].map(([key, value]) =>
  decodeFlowEntry(key, value),
);
const equal = (a: BridgeValue, b: BridgeValue): boolean => a === b;

const packings = Object.values(addressRows).map((rows) => new RowPacking(rows));

/** A bridge that reports its content after each bundle. */
export class RecordedBridge extends FakeTarget<BridgeKey, BridgeValue> {
  onBundle: (plan: Plan<BridgeKey, BridgeValue>) => void = () => undefined;

  override async observe(): Promise<Map<BridgeKey, BridgeValue>> {
    const shown = new PackedMap<BridgeKey, BridgeValue>(packings);
    for (const [key, value] of await super.observe()) shown.set(key, value);
    return shown;
  }

  override async apply(plan: Plan<BridgeKey, BridgeValue>): Promise<void> {
    const before = this.held;
    try {
      await super.apply(plan);
    } finally {
      if (this.held !== before) this.onBundle(plan);
    }
  }

  bytes(): PolicyBytes {
    return new PolicyBytes([...nodeRows, ...[...this.held].map(([key, value]) => decodeFlowEntry(key, value))]);
  }
}

interface EditedNodeOptions {
  readonly bridge: RecordedBridge;
  /** Entries of a bundle: few, so that simultaneous changes would be separated. */
  readonly batchSize: number;
  /** The previous agent, which has ended: pods keep their ports, and its entries are not removed before `allowRemovals`. */
  readonly predecessor?: EditedNode;
  /** Ranges of numbers; unlimited if absent. */
  readonly rangeOf?: NumberRanges;
}

/**
 * The part of an agent that enforces policy on a bridge: the engine, its rows, the reconciler, and the pods' own flows, which are installed
 * last.
 */
export class EditedNode {
  readonly engine = new PolicyEngine(provenNode);
  readonly flows: PolicyFlows;
  readonly #desired = new DesiredState<BridgeKey, BridgeValue>({ equal, isUrgent: (owner) => owner.startsWith('subject/'), packings });
  readonly #reconciler: Reconciler<BridgeKey, BridgeValue>;
  readonly #rules: PolicyRuleInstaller;
  readonly #rounds: PolicyRounds;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;
  readonly #bridge: RecordedBridge;
  readonly #ports: Map<string, number>;
  #led = new Set<Owner>();

  constructor({ bridge, batchSize, predecessor, rangeOf }: EditedNodeOptions) {
    this.#bridge = bridge;
    this.#ports = new Map(predecessor ? predecessor.#ports : []);
    this.flows = new PolicyFlows({ families, recovered: recoveredFlows(bridge.held, policyTables), ...(rangeOf && { rangeOf }) });
    this.#reconciler = new Reconciler({
      name: 'bridge',
      desired: this.#desired,
      target: bridge,
      equal,
      backoffMs: () => 0,
      batchSize,
      depthOf: depthOfKey,
      // As the agent does every second, and whenever it may make a difference.
      events: { round: () => this.#rounds.forgetInstalled(), failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} },
      now: () => performance.now(),
    });
    if (!predecessor) this.allowRemovals();
    this.#running = this.#reconciler.run(this.#stop.signal);
    const nodeState = {
      want: (owner: Owner, wanted: Wanted) => this.#want(owner, encodeBridgeEntries(owner, wanted)),
      wantRow: (owner: Owner, { rows, ip, number }: NumberedRow) => {
        const packing = packings.find((each) => each.rows === rows);
        if (!packing) throw new Error(`${owner} is of no rows that are packed`);
        const bridge = this.#desired.setPacked(owner, packing, packing.placeOf(ip), number | 0);
        this.#reconciler.poke();
        return { owner, bridge, host: -1 };
      },
      forget: (owner: Owner) => this.#want(owner, new Map()),
      together: (work: () => void) => this.#desired.together(work),
      bridge: this.#desired,
      reconcilers: { bridge: this.#reconciler },
    };
    const turns = new LoopTurns(1);
    this.#rules = new PolicyRuleInstaller({ flows: this.flows, nodeState, pods: () => this.engine.matrix.subjects.keys(), turns });
    this.#rounds = new PolicyRounds({
      engine: this.engine,
      flows: this.flows,
      rules: this.#rules,
      entryFlows: {
        owners: () => this.#led.values(),
        areInstalled: () => [...this.#led].every((owner) => this.#reconciler.isHeld(owner)),
        markDue: () => undefined,
      },
      nodeState,
      surroundings: {
        adoptedAt: (pod) => (predecessor && !this.#led.has(ownerOf('subject', pod)) ? predecessor.#ports.get(pod) : undefined),
        areAddressesKnown: () => true,
      },
      isBridgeClean: () => true,
      turns,
    });
  }

  /** Processes changes like `PolicyController`: rows, then pods, then unused rows. The bridge may lag. */
  async work(signal: AbortSignal): Promise<void> {
    do {
      await this.#rounds.update(signal);
      await this.#leadAll(signal);
      await this.#rounds.settle(signal);
    } while (this.#rounds.isUnsettled);
  }

  async #leadAll(signal: AbortSignal): Promise<void> {
    const led = new Set<Owner>();
    for (const [pod, { addresses }] of this.engine.matrix.subjects) {
      const [classes, owner] = [this.flows.classesOf(pod), ownerOf('subject', pod)];
      if (typeof classes !== 'string') await this.#rules.untilReady({ is: 'policed', classes }, signal);
      const ends = classes === 'free' ? {} : classes === 'closed' ? ({ ingress: 'closed', egress: 'closed' } as const) : classes;
      const flows = compileSubject({ ofPort: this.portOf(pod), addresses: addresses.map(parseIp), ...ends });
      this.#want(owner, encodeBridgeEntries(owner, { ...nothing, flows }));
      led.add(owner);
    }
    for (const owner of this.#led) if (!led.has(owner)) this.#want(owner, new Map());
    this.#led = led;
  }

  /** Resolves once the bridge has the whole desired state. */
  async settled(signal: AbortSignal): Promise<void> {
    await this.#reconciler.realized(this.#desired.revision, signal);
  }

  /** The desired state is complete: other entries of the bridge may be removed. */
  allowRemovals(): void {
    this.#reconciler.allowRemovals();
  }

  /** The bridge was observed without unexpected entries: there may be further work. */
  obsoleteRemoved(): void {
    this.flows.obsoleteRemoved();
  }

  /** Resolves once the bridge has no unexpected entries. */
  async swept(signal: AbortSignal): Promise<void> {
    while ([...this.#bridge.held.keys()].some((key) => this.#desired.wanted(key) === undefined)) {
      signal.throwIfAborted();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  portOf(pod: string): number {
    const known = this.#ports.get(pod) ?? 32_784 + this.#ports.size;
    this.#ports.set(pod, known);
    return known;
  }

  /** Classes of a pod, by direction: they name its rows. */
  classesOf(pod: string): readonly string[] {
    return classNames(this.flows.classesOf(pod));
  }

  async end(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  #want(owner: Owner, entries: ReadonlyMap<BridgeKey, BridgeValue>) {
    const revision = this.#desired.set(owner, entries);
    this.#reconciler.poke();
    return { owner, bridge: revision, host: 0 };
  }
}
