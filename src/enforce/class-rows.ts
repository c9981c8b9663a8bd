import type { LoopTurns } from '../async/loop-turns.ts';
import type { Steps } from '../async/steps.ts';
import type { PolicyPod } from '../kube/policy-pod.ts';
import type { Owner } from '../pipeline/cookie.ts';
import type { Flow } from '../pipeline/flow.ts';
import type { NumberedRow } from '../pipeline/flow-pattern.ts';
import type { PolicyEngine } from '../policy/policy-engine.ts';
import type { PolicyFlows } from '../policy-flows/policy-flows.ts';
import type { NodeState } from '../reconcile/node-state.ts';
import { nothing } from '../wanted/wanted.ts';
import { classNames, type SubjectStanding } from './standings.ts';

interface ClassRowsOptions {
  readonly engine: Pick<PolicyEngine, 'matrix' | 'coming' | 'round' | 'publish' | 'admit' | 'isBehind'>;
  readonly flows: Pick<PolicyFlows, 'round' | 'publish' | 'admit' | 'classesOf' | 'written' | 'isEditing'>;
  readonly nodeState: Pick<NodeState, 'want' | 'wantRow' | 'forget' | 'together' | 'bridge'> & {
    readonly reconcilers: { readonly bridge: Pick<NodeState['reconcilers']['bridge'], 'held' | 'isHeld'> };
  };
  /** Of this node, `namespace/name`. */
  readonly pods: () => Iterable<string>;
  /** Whether every pod is led to what holds for it, and the bridge knows it. */
  readonly areLed: () => boolean;
  /** A round has come to its end. @param pods whose classes may be others */
  readonly published: (pods: Iterable<string>) => void;
  readonly turns: LoopTurns;
}

/** What a pod that starts may need is this much at most, if nothing else has to be done: it is done at once. */
const quickSteps = 500;
/** The clock is read once for so many. */
const stepsOfLook = 16;

/** So many flows are edited in place at most: no more than the bridge takes at once. */
const editedMost = 500;

/** The rows that pods are led to: wanted before any pod is, and as long as one may be. */
export class ClassRows {
  readonly #options: ClassRowsOptions;
  /** Owners of rows to be forgotten once nothing leads to them. */
  #leaving = new Set<Owner>();
  /** Those of them that are just forgotten. */
  #going = new Set<Owner>();
  /** Rows that the switch may not have yet. */
  readonly #coming = new Set<Owner>();
  /** Rows that were coming when a class came, by its direction and number: they may be its own, or what its peers are known by. */
  readonly #needs = new Map<string, ReadonlySet<Owner>>();
  /** Whether rows were forgotten since flows were last told which revision is without them. */
  #isUnwritten = false;
  #round: Steps | undefined;
  #begun = 0;

  constructor(options: ClassRowsOptions) {
    this.#options = options;
  }

  /** Whether something was put into the engine whose rows are not wanted yet. */
  get isBehind(): boolean {
    return this.#round !== undefined || this.#options.engine.isBehind;
  }

  /**
   * Has all rows wanted that follow from what was put into the engine, in turns: of what is new first those that others lead to. What is not needed any more
   * stays. Readers of engine and flows have the whole of a round, or nothing of it.
   */
  async update(): Promise<void> {
    const last = this.#begun + 1;
    while (this.#begun < last || this.#round) {
      this.#advance();
      if (this.#round) await this.#options.turns.next();
      else if (this.#begun >= last) return;
    }
  }

  /** As `update`, at once, if it is little. @returns whether it was */
  updateQuickly(): boolean {
    for (let steps = 0; steps < quickSteps && this.isBehind; steps++) this.#step();
    return !this.isBehind;
  }

  /** Makes a pod that starts one of its classes, if others of the node are: without waiting for what else is to be done. */
  admit(pod: PolicyPod): boolean {
    const { engine, flows } = this.#options;
    if (flows.isEditing) return false;
    const subject = engine.admit(pod);
    if (subject) flows.admit(`${pod.namespace}/${pod.name}`, subject);
    return subject !== undefined;
  }

  /** Works for the rest of a turn, and no longer than to the end of a round. */
  #advance(): void {
    const { turns } = this.#options;
    do for (let steps = 0; steps < stepsOfLook; steps++) if (this.#step()) return;
    while (!turns.due);
  }

  /** @returns whether the round is at its end */
  #step(): boolean {
    if (!this.#round) {
      this.#begun++;
      this.#round = this.#steps();
    }
    if (!this.#round.next().done) return false;
    this.#round = undefined;
    return true;
  }

  *#steps(): Steps {
    const { engine, flows, published } = this.#options;
    const change = yield* engine.round();
    const isAtRest = yield* this.#isAtRest();
    const { wanted, edited, subjects } = yield* flows.round(engine.coming, change, isAtRest ? editedMost : 0);
    for (const part of wanted)
      for (const [owner, rows] of part) {
        this.#want(owner, rows);
        yield;
      }
    this.#edit(edited);
    engine.publish();
    flows.publish(engine.matrix, subjects);
    if (subjects.size > 0) this.#noteClasses();
    if (edited.size > 0) this.#noteEdited(subjects);
    published(subjects);
  }

  /**
   * Whether the bridge has what is wanted of rows and nothing else, and each pod is led by what it has. Then rows may be edited in place: whoever is led to them sees
   * them as they were, or as they are wanted, and nothing else leads there.
   */
  *#isAtRest(): Steps<boolean> {
    const { areLed, nodeState } = this.#options;
    for (const owner of this.#coming) {
      if (nodeState.reconcilers.bridge.isHeld(owner)) this.#coming.delete(owner);
      yield;
    }
    return this.#coming.size === 0 && this.#leaving.size === 0 && this.#going.size === 0 && areLed();
  }

  #edit(edited: ReadonlyMap<Owner, readonly Flow[]>): void {
    const { nodeState } = this.#options;
    if (edited.size === 0) return;
    // A row goes from one owner to another: it is wanted all the time.
    nodeState.together(() => {
      for (const [owner, rows] of edited) if (rows.length > 0) this.#want(owner, rows);
      for (const [owner, rows] of edited) if (rows.length === 0) nodeState.forget(owner);
    });
  }

  #want(owner: Owner, rows: NumberedRow | readonly Flow[]): void {
    const { nodeState } = this.#options;
    if ('length' in rows && rows.length === 0) {
      this.#leaving.add(owner);
      this.#coming.delete(owner);
      return;
    }
    this.#leaving.delete(owner);
    this.#going.delete(owner);
    this.#coming.add(owner);
    if ('number' in rows) nodeState.wantRow(owner, rows);
    else nodeState.want(owner, { ...nothing, flows: rows });
  }

  /** Whether there are rows that nobody needs any more. */
  get areLeaving(): boolean {
    return this.#leaving.size > 0 || this.#isUnwritten;
  }

  /** No pod is led to what is not needed any more: it goes, in turns. */
  async forgetLeft(): Promise<void> {
    const { flows, nodeState, turns } = this.#options;
    if (!this.areLeaving) return;
    [this.#going, this.#leaving] = [this.#leaving, new Set()];
    for (const owner of this.#going) {
      nodeState.forget(owner);
      this.#going.delete(owner);
      if (turns.due) await turns.next();
    }
    this.#isUnwritten = this.#round !== undefined || this.#leaving.size > 0; // a round that came meanwhile may have rows that go next
    if (!this.#isUnwritten) flows.written(nodeState.bridge.revision);
  }

  /** Resolves once the rows are on the switch that this standing leads to. @throws SeineError `CANCELLED` */
  async untilReady(standing: SubjectStanding, signal: AbortSignal): Promise<void> {
    if (standing.is !== 'policed') return;
    const { bridge } = this.#options.nodeState.reconcilers;
    for (const name of classNames(standing.classes)) {
      const needs = this.#needs.get(name) ?? nobody;
      if (needs.size === 0) continue;
      await bridge.held(needs, signal);
      if (this.#needs.get(name) === needs) this.#needs.set(name, nobody);
    }
  }

  /** Rows of a class that nobody was in are wanted as of now; those of a class that nobody is in may go, and come again. */
  #noteClasses(): void {
    const { pods, flows } = this.#options;
    const used = new Set([...pods()].flatMap((key) => classNames(flows.classesOf(key))));
    for (const name of this.#needs.keys()) if (!used.has(name)) this.#needs.delete(name);
    const added = [...used].filter((name) => !this.#needs.has(name));
    if (added.length === 0) return;
    const coming = new Set(this.#coming);
    for (const name of added) this.#needs.set(name, coming);
  }

  /** Pods of these are led to rows that say something else now: whoever is led there from now on waits for it. */
  #noteEdited(subjects: Iterable<string>): void {
    const coming = new Set(this.#coming);
    for (const key of subjects)
      for (const name of classNames(this.#options.flows.classesOf(key))) if (this.#needs.has(name)) this.#needs.set(name, coming);
  }
}

const nobody: ReadonlySet<Owner> = new Set();
