import type { LoopTurns } from '../../base/async/loop-turns.ts';
import type { Steps } from '../../base/async/steps.ts';
import { within } from '../../base/async/time-limit.ts';
import { Waiters } from '../../base/async/waiters.ts';
import { nothing } from '../../dataplane/desired/host-entries.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { Flow } from '../../dataplane/pipeline/flow.ts';
import type { NumberedRow } from '../../dataplane/pipeline/flow-pattern.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import type { PolicyEngine } from '../engine/policy-engine.ts';
import type { PolicyFlows, PolicyTransition, TransitionEnd } from '../flows/policy-flows.ts';
import type { Surroundings } from '../flows/previous-agent-state.ts';
import { classNames, type SubjectStanding } from './pod-policy-state.ts';

export interface ClassRowsOptions {
  readonly engine: Pick<PolicyEngine, 'matrix' | 'coming' | 'round' | 'publish' | 'admit' | 'isBehind'>;
  readonly flows: Pick<PolicyFlows, 'movedPods' | 'transition' | 'round' | 'publish' | 'admit' | 'classesOf' | 'written' | 'isEditing'>;
  readonly nodeState: Pick<NodeState, 'want' | 'wantRow' | 'forget' | 'together' | 'bridge'> & {
    readonly reconcilers: { readonly bridge: Pick<NodeState['reconcilers']['bridge'], 'held' | 'isHeld' | 'realizedRevision'> };
  };
  /** Of this node, `namespace/name`. */
  readonly pods: () => Iterable<string>;
  /** Whether every pod is led to what holds for it, and the bridge knows it. */
  readonly areLed: () => boolean;
  readonly surroundings: Surroundings;
  /** Owners of flows that lead pods to rows. */
  readonly entries: () => Iterable<Owner>;
  /** A round has come to its end. @param pods whose classes may be others */
  readonly published: (pods: Iterable<string>) => void;
  readonly turns: LoopTurns;
}

/** What a pod that starts may need is this much at most, if nothing else has to be done: it is done at once. */
const quickSteps = 500;
/** The clock is read once for so many. */
const stepsOfLook = 16;

/** So long is waited for the bridge to have where pods are led; then it goes on as if it had. */
const arrivalMostMs = 5_000;

/** So many flows are edited in place at most: no more than the bridge takes at once. */
const editedMost = 500;

/** The rows that pods are led to: wanted before any pod is, and as long as one may be. */
export class ClassRows {
  readonly #options: ClassRowsOptions;
  /** Owners of rows to be forgotten once no pod is led to them, by the part of their round: what leads to others is forgotten first. */
  #leaving = new Map<Owner, number>();
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
  /** Pods are on their way from the classes of the last round, and this is still to be done when they have come. */
  #move: { readonly ends: PolicyTransition['ends']; readonly isSettled: boolean } | undefined;
  readonly #moves = new Waiters('pods that are led to other rows');

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
   *
   * @returns false if pods are on their way to what the last round has made of them: then `settle` comes first
   * @throws SeineError `CANCELLED`
   */
  async update(signal: AbortSignal): Promise<boolean> {
    const last = this.#begun + 1;
    while (this.#begun < last || this.#round) {
      if (!this.#round && this.#move?.isSettled === false) return false;
      if (!this.#round) await this.#arrived(signal);
      this.#advance();
      if (this.#round) await this.#options.turns.next();
      else if (this.#begun >= last) return true;
    }
    return true;
  }

  /** As `update`, whatever is under way. @throws SeineError `CANCELLED` */
  async updateAfterMoves(signal: AbortSignal): Promise<void> {
    while (!(await this.update(signal))) await this.#moves.wait(() => (this.#move?.isSettled === false ? undefined : true), signal);
  }

  /** As `update`, at once, if it is little. @returns whether it was */
  updateQuickly(): boolean {
    for (let steps = 0; steps < quickSteps && this.isBehind; steps++) if (this.#step() && !this.#haveArrived) break;
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

  /** @returns whether the round is at its end, or may not begin yet */
  #step(): boolean {
    if (!this.#round) {
      if (!this.#haveArrived) return true;
      this.#move = undefined;
      this.#begun++;
      this.#round = this.#steps();
    }
    if (!this.#round.next().done) return false;
    this.#round = undefined;
    return true;
  }

  /** Whether every pod is led by what the last round has made of it, and the bridge knows it. Only then another round says what leads elsewhere. */
  get #haveArrived(): boolean {
    if (!this.#move) return true;
    const { bridge } = this.#options.nodeState.reconcilers;
    return this.#move.isSettled && [...this.#options.entries()].every((owner) => bridge.isHeld(owner));
  }

  /** Resolves once the bridge has where pods are led as of now, or does not take it for long. @throws SeineError `CANCELLED` */
  async #arrived(signal: AbortSignal): Promise<void> {
    const move = this.#move;
    if (!move || this.#haveArrived) return;
    const { bridge } = this.#options.nodeState.reconcilers;
    try {
      await bridge.held(this.#options.entries(), within(signal, arrivalMostMs));
    } catch (thrown) {
      if (signal.aborted) throw thrown;
    }
    if (this.#move === move && move.isSettled) this.#move = undefined;
  }

  *#steps(): Steps {
    const { engine, flows, published, surroundings } = this.#options;
    const change = yield* engine.round();
    const moved = flows.movedPods(engine.matrix, engine.coming, change.subjects, surroundings.adoptedAt);
    const transition = moved.size > 0 ? yield* flows.transition(engine.matrix, engine.coming, change, surroundings) : undefined;
    const { wanted, edited, subjects } = transition
      ? yield* flows.round(transition.matrix, transition.begin, transition)
      : yield* flows.round(engine.coming, change, { editedMost: (yield* this.#isAtRest()) ? editedMost : 0 });
    yield* this.#wantAll(wanted);
    this.#edit(edited);
    engine.publish();
    flows.publish(engine.matrix, subjects);
    if (subjects.size > 0) this.#noteClasses();
    if (edited.size > 0) this.#waitForComing(subjects);
    else if (moved.size > 0 && change.ingress.identities.size + change.egress.identities.size > 0) this.#waitForComing(moved);
    if (moved.size > 0) this.#move = { ends: transition?.ends ?? [], isSettled: false };
    published(subjects);
  }

  /** No pod is led to a former class any more: addresses come to be what they are from now on, and pods go from copies of their classes to these. */
  *#endOf({ matrix, change }: TransitionEnd, ends: PolicyTransition['ends']): Steps {
    const { engine, flows, published } = this.#options;
    const { wanted, subjects } = yield* flows.round(matrix, change);
    yield* this.#wantAll(wanted);
    this.#move = { ends, isSettled: false };
    flows.publish(engine.matrix, subjects);
    if (change.subjects.size > 0) {
      this.#noteClasses();
      this.#waitForComing(change.subjects);
    }
    published(subjects);
  }

  *#wantAll(parts: readonly ReadonlyMap<Owner, NumberedRow | readonly Flow[]>[]): Steps {
    for (const [at, part] of parts.entries())
      for (const [owner, rows] of part) {
        this.#want(owner, rows, at);
        yield;
      }
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

  #want(owner: Owner, rows: NumberedRow | readonly Flow[], part = 0): void {
    const { nodeState } = this.#options;
    if ('length' in rows && rows.length === 0) {
      this.#leaving.set(owner, part);
      this.#coming.delete(owner);
      return;
    }
    this.#leaving.delete(owner);
    this.#going.delete(owner);
    this.#coming.add(owner);
    if ('number' in rows) nodeState.wantRow(owner, rows);
    else nodeState.want(owner, { ...nothing, flows: rows });
  }

  /** Whether there are pods on their way, or rows that nobody needs any more. */
  get isUnsettled(): boolean {
    return this.#move?.isSettled === false || this.#leaving.size > 0 || this.#isUnwritten;
  }

  /** What is wanted of all pods is what holds for them: what is left to do of the last round, in turns. */
  async settle(signal: AbortSignal): Promise<void> {
    const { turns } = this.#options;
    const [end, ...ends] = this.#move?.ends ?? [];
    if (end) {
      await this.#arrived(signal);
      this.#round = this.#endOf(end, ends);
      for (this.#advance(); this.#round; this.#advance()) await turns.next();
      if (ends.length > 0) return; // first pods are to be led once more
    }
    const move = this.#move;
    await this.#forgetLeft();
    if (move && this.#move === move) {
      this.#move = { ends: [], isSettled: true };
      if (this.#haveArrived) this.#move = undefined;
    }
    this.#moves.poke();
  }

  /** No pod is led to what is not needed any more: it goes, in turns. */
  async #forgetLeft(): Promise<void> {
    const { flows, nodeState, turns } = this.#options;
    if (this.#leaving.size === 0 && !this.#isUnwritten) return;
    this.#going = new Set(
      [...this.#leaving]
        .reverse()
        .sort(([, a], [, b]) => b - a)
        .map(([owner]) => owner),
    );
    this.#leaving = new Map();
    for (const owner of this.#going) {
      nodeState.forget(owner);
      this.#going.delete(owner);
      if (turns.due) await turns.next();
    }
    this.#isUnwritten = this.#round !== undefined || (this.#move?.ends.length ?? 0) > 0 || this.#leaving.size > 0; // a round that came meanwhile may have rows that go next
    if (!this.#isUnwritten) flows.written(nodeState.bridge.revision);
  }

  /** If the bridge has all that is wanted, names of rows that were coming are not kept for those who might wait for them: there may be a hundred thousand. */
  forgetHeld(): void {
    const { bridge, reconcilers } = this.#options.nodeState;
    if (this.#round || this.#coming.size === 0 || reconcilers.bridge.realizedRevision < bridge.revision) return;
    this.#coming.clear();
    for (const name of this.#needs.keys()) this.#needs.set(name, nobody);
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

  /** Pods of these are led to rows of which some may be coming: whoever is led there from now on waits for it. */
  #waitForComing(subjects: Iterable<string>): void {
    const coming = new Set(this.#coming);
    for (const key of subjects)
      for (const name of classNames(this.#options.flows.classesOf(key))) if (this.#needs.has(name)) this.#needs.set(name, coming);
  }
}

const nobody: ReadonlySet<Owner> = new Set();
