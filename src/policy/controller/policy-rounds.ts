import type { LoopTurns } from '../../base/async/loop-turns.ts';
import type { Steps } from '../../base/async/steps.ts';
import { within } from '../../base/async/time-limit.ts';
import { Waiters } from '../../base/async/waiters.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import type { PolicyEngine } from '../engine/policy-engine.ts';
import type { PolicyFlows } from '../flows/policy-flows.ts';
import type { Surroundings } from '../flows/previous-agent-state.ts';
import type { PolicyTransition, TransitionEnd } from '../flows/transition.ts';
import type { EntryFlows } from './entry-flows.ts';
import type { PolicyRuleInstaller } from './policy-rule-installer.ts';

interface PolicyRoundsOptions {
  readonly engine: Pick<PolicyEngine, 'matrix' | 'coming' | 'round' | 'publish' | 'admit' | 'isBehind'>;
  readonly flows: Pick<PolicyFlows, 'plan' | 'round' | 'publish' | 'admit' | 'isEditing'>;
  readonly rules: Pick<
    PolicyRuleInstaller,
    'install' | 'edit' | 'isInstalled' | 'noteClasses' | 'waitForInstalling' | 'removeObsolete' | 'hasObsolete' | 'forgetInstalled'
  >;
  readonly entryFlows: Pick<EntryFlows, 'owners' | 'areInstalled' | 'markDue'>;
  readonly nodeState: { readonly reconcilers: { readonly bridge: Pick<NodeState['reconcilers']['bridge'], 'held' | 'isHeld'> } };
  readonly surroundings: Surroundings;
  /** Reports whether the bridge has no unneeded rows of a previous agent. */
  readonly isBridgeClean: () => boolean;
  readonly turns: LoopTurns;
}

/** Maximum number of steps that a starting pod takes at once; further steps are left to the turns of the event loop. */
const quickSteps = 500;
/** Number of steps between two readings of the clock. */
const stepsPerClockReading = 16;

/** Maximum wait for the bridge to acknowledge entry flows of a round (ms). After that the next round begins anyway. */
const arrivalMostMs = 5_000;

/** Maximum number of flows of one edit in place: one bundle. */
const editedMost = 500;

/**
 * Runs the rounds of policy in turns of the event loop: input of the engine becomes a matrix, the matrix becomes rows, rows are installed,
 * and pods whose classes changed are due for new entry flows. A round that moves pods ends when the bridge has their entry flows. No other
 * round begins before.
 */
export class PolicyRounds {
  readonly #options: PolicyRoundsOptions;
  #round: Steps | undefined;
  #begun = 0;
  #revision = 0;
  /** Set while entry flows change from the classes of the last round; has its remaining ends. */
  #move: { readonly ends: PolicyTransition['ends']; readonly isSettled: boolean } | undefined;
  readonly #moves = new Waiters('entry flows of pods whose policies changed');

  constructor(options: PolicyRoundsOptions) {
    this.#options = options;
  }

  /** Reports whether the engine has input whose rows are not desired state yet. */
  get isBehind(): boolean {
    return this.#round !== undefined || this.#options.engine.isBehind;
  }

  /** Number that grows whenever readers get another matrix. */
  get revision(): number {
    return this.#revision;
  }

  /** Reports whether `settle` has something to do. */
  get isUnsettled(): boolean {
    return this.#move?.isSettled === false || this.#options.rules.hasObsolete;
  }

  /**
   * Runs rounds until the engine has no input left. Readers of engine and flows see a whole round or nothing of it.
   *
   * @returns false if entry flows of the last round are due: `settle` comes first
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

  /** Like `update`, but waits for `settle` if that comes first. @throws SeineError `CANCELLED` */
  async updateAfterMoves(signal: AbortSignal): Promise<void> {
    while (!(await this.update(signal))) await this.#moves.wait(() => (this.#move?.isSettled === false ? undefined : true), signal);
  }

  /** Like `update`, but at once, if few steps suffice. @returns whether they did */
  updateQuickly(): boolean {
    for (let steps = 0; steps < quickSteps && this.isBehind; steps++) if (this.#step() && !this.#haveArrived) break;
    return !this.isBehind;
  }

  /**
   * Puts a starting pod into classes that other pods of the node have, without waiting for a round.
   *
   * @returns false if it needs another class
   */
  admit(pod: PolicyPod): boolean {
    const { engine, flows } = this.#options;
    if (flows.isEditing) return false;
    const subject = engine.admit(pod);
    if (!subject) return false;
    this.#revision++;
    flows.admit(`${pod.namespace}/${pod.name}`, subject);
    return true;
  }

  /** Does what remains of a round after every pod has its entry flows, in turns. */
  async settle(signal: AbortSignal): Promise<void> {
    const { rules, turns } = this.#options;
    const [end, ...ends] = this.#move?.ends ?? [];
    if (end) {
      await this.#arrived(signal);
      this.#round = this.#endOf(end, ends);
      for (this.#advance(); this.#round; this.#advance()) await turns.next();
      if (ends.length > 0) return; // entry flows change again before the last end
    }
    const move = this.#move;
    await rules.removeObsolete(() => this.#round !== undefined || (this.#move?.ends.length ?? 0) > 0);
    if (move && this.#move === move) {
      this.#move = { ends: [], isSettled: true };
      if (this.#haveArrived) this.#move = undefined;
    }
    this.#moves.poke();
  }

  /** Drops the record of what the bridge has acknowledged, to bound its memory. */
  forgetInstalled(): void {
    if (!this.#round) this.#options.rules.forgetInstalled();
  }

  /** Works for the rest of a turn, and at most to the end of a round. */
  #advance(): void {
    const { turns } = this.#options;
    do for (let steps = 0; steps < stepsPerClockReading; steps++) if (this.#step()) return;
    while (!turns.due);
  }

  /** Takes one step. @returns true if the round has ended, or may not begin yet */
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

  /** Reports whether the bridge has the entry flows of the last round. Only then may another round change what they resubmit to. */
  get #haveArrived(): boolean {
    if (!this.#move) return true;
    const { bridge } = this.#options.nodeState.reconcilers;
    return this.#move.isSettled && [...this.#options.entryFlows.owners()].every((owner) => bridge.isHeld(owner));
  }

  /** Resolves once the bridge has the current entry flows, or after `arrivalMostMs`. @throws SeineError `CANCELLED` */
  async #arrived(signal: AbortSignal): Promise<void> {
    const move = this.#move;
    if (!move || this.#haveArrived) return;
    const { bridge } = this.#options.nodeState.reconcilers;
    try {
      await bridge.held(this.#options.entryFlows.owners(), within(signal, arrivalMostMs));
    } catch (thrown) {
      if (signal.aborted) throw thrown;
    }
    if (this.#move === move && move.isSettled) this.#move = undefined;
  }

  *#steps(): Steps {
    const { engine, flows, rules, surroundings } = this.#options;
    const change = yield* engine.round();
    const { wanted, edited, subjects, moved, ends } = yield* flows.plan(engine, change, surroundings, () => this.#editedMost());
    yield* rules.install(wanted);
    rules.edit(edited);
    this.#publish(subjects);
    if (subjects.size > 0) rules.noteClasses();
    if (edited.size > 0) rules.waitForInstalling(subjects);
    else if (moved.size > 0 && change.ingress.identities.size + change.egress.identities.size > 0) rules.waitForInstalling(moved);
    if (moved.size > 0) this.#move = { ends, isSettled: false };
    this.#options.entryFlows.markDue(subjects);
  }

  /**
   * Ends a round. No entry flow uses a class of the round before any more: peers get the identities of this round, and pods change from
   * copies of their classes to the classes.
   */
  *#endOf({ matrix, change }: TransitionEnd, ends: PolicyTransition['ends']): Steps {
    const { engine, flows, rules, entryFlows } = this.#options;
    const { wanted, subjects } = yield* flows.round(matrix, change);
    yield* rules.install(wanted);
    this.#move = { ends, isSettled: false };
    flows.publish(engine.matrix, subjects);
    if (change.subjects.size > 0) {
      rules.noteClasses();
      rules.waitForInstalling(change.subjects);
    }
    entryFlows.markDue(subjects);
  }

  /** Makes the round visible to readers. */
  #publish(subjects: ReadonlySet<string>): void {
    const { engine, flows } = this.#options;
    engine.publish();
    this.#revision++;
    flows.publish(engine.matrix, subjects);
  }

  /**
   * Returns the number of flows that may be edited in place: 0 unless the bridge has exactly the desired rows and entry flows. Then a
   * packet meets the rows either as they were or as they are desired, and nothing else resubmits to them.
   */
  *#editedMost(): Steps<number> {
    const { rules, entryFlows, isBridgeClean } = this.#options;
    return (yield* rules.isInstalled()) && isBridgeClean() && entryFlows.areInstalled() ? editedMost : 0;
  }
}
