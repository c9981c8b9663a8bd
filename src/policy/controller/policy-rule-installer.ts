import type { LoopTurns } from '../../base/async/loop-turns.ts';
import type { Steps } from '../../base/async/steps.ts';
import { nothing } from '../../dataplane/desired/host-entries.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { Flow } from '../../dataplane/pipeline/flow.ts';
import type { NumberedRow } from '../../dataplane/pipeline/flow-pattern.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { PolicyFlows } from '../flows/policy-flows.ts';
import { classNames, type SubjectStanding } from './pod-policy-state.ts';

export interface PolicyRuleInstallerOptions {
  readonly flows: Pick<PolicyFlows, 'classesOf' | 'written'>;
  readonly nodeState: Pick<NodeState, 'want' | 'wantRow' | 'forget' | 'together'> & {
    readonly bridge: Pick<NodeState['bridge'], 'revision'>;
    readonly reconcilers: { readonly bridge: Pick<NodeState['reconcilers']['bridge'], 'held' | 'isHeld' | 'realizedRevision'> };
  };
  /** Pods of this node, `namespace/name`. */
  readonly pods: () => Iterable<string>;
  readonly turns: LoopTurns;
}

/**
 * Rules of policies on the bridge: the rows that entry flows resubmit packets to, by owner. Rows are installed before any entry flow uses
 * them, and removed after the last one has stopped.
 */
export class PolicyRuleInstaller {
  readonly #options: PolicyRuleInstallerOptions;
  /** Owners of rows to be removed, by their part of the round. Parts that resubmit to other parts are removed first. */
  #obsolete = new Map<Owner, number>();
  /** Obsolete owners of the removal that is running. */
  #removing = new Set<Owner>();
  /** Owners of rows that the bridge may not have acknowledged. */
  readonly #installing = new Set<Owner>();
  /**
   * Owners that were installing when a class was first used, by direction and number of the class: rows of the class, or rows that identify
   * its peers.
   */
  readonly #needs = new Map<string, ReadonlySet<Owner>>();
  /** True if rows were removed since the number pools were last given a revision. */
  #isUnwritten = false;

  constructor(options: PolicyRuleInstallerOptions) {
    this.#options = options;
  }

  /** Reports whether obsolete rows wait for their removal. */
  get hasObsolete(): boolean {
    return this.#obsolete.size > 0 || this.#isUnwritten;
  }

  /**
   * Installs the rows of a round, one owner per step.
   *
   * @param parts each resubmits to the parts before it; an owner without rows becomes obsolete
   */
  *install(parts: readonly ReadonlyMap<Owner, NumberedRow | readonly Flow[]>[]): Steps {
    for (const [at, part] of parts.entries())
      for (const [owner, rows] of part) {
        this.#install(owner, rows, at);
        yield;
      }
  }

  /** Changes rows in place, all at the same moment. */
  edit(edited: ReadonlyMap<Owner, readonly Flow[]>): void {
    const { nodeState } = this.#options;
    if (edited.size === 0) return;
    // A row may pass from one owner to another, and must stay installed all the time.
    nodeState.together(() => {
      for (const [owner, rows] of edited) if (rows.length > 0) this.#install(owner, rows);
      for (const [owner, rows] of edited) if (rows.length === 0) nodeState.forget(owner);
    });
  }

  #install(owner: Owner, rows: NumberedRow | readonly Flow[], part = 0): void {
    const { nodeState } = this.#options;
    if ('length' in rows && rows.length === 0) {
      this.#obsolete.set(owner, part);
      this.#installing.delete(owner);
      return;
    }
    this.#obsolete.delete(owner);
    this.#removing.delete(owner);
    this.#installing.add(owner);
    if ('number' in rows) nodeState.wantRow(owner, rows);
    else nodeState.want(owner, { ...nothing, flows: rows });
  }

  /** Reports whether the bridge has exactly the desired rows. */
  *isInstalled(): Steps<boolean> {
    const { bridge } = this.#options.nodeState.reconcilers;
    for (const owner of this.#installing) {
      if (bridge.isHeld(owner)) this.#installing.delete(owner);
      yield;
    }
    return this.#installing.size === 0 && this.#obsolete.size === 0 && this.#removing.size === 0;
  }

  /**
   * Records which rows new classes need: those installed or installing now. Classes that lost their last pod are forgotten, because their
   * rows may be removed and installed again.
   */
  noteClasses(): void {
    const { pods, flows } = this.#options;
    const used = new Set([...pods()].flatMap((key) => classNames(flows.classesOf(key))));
    for (const name of this.#needs.keys()) if (!used.has(name)) this.#needs.delete(name);
    const added = [...used].filter((name) => !this.#needs.has(name));
    if (added.length === 0) return;
    const installing = new Set(this.#installing);
    for (const name of added) this.#needs.set(name, installing);
  }

  /** Makes entry flows of these pods, and of later pods of their classes, wait for the rows that are installing now. */
  waitForInstalling(subjects: Iterable<string>): void {
    const installing = new Set(this.#installing);
    for (const key of subjects)
      for (const name of classNames(this.#options.flows.classesOf(key))) if (this.#needs.has(name)) this.#needs.set(name, installing);
  }

  /** Resolves once the bridge has the rows that entry flows of this standing resubmit to. @throws SeineError `CANCELLED` */
  async untilReady(standing: SubjectStanding, signal: AbortSignal): Promise<void> {
    if (standing.is !== 'policed') return;
    const { bridge } = this.#options.nodeState.reconcilers;
    for (const name of classNames(standing.classes)) {
      const needs = this.#needs.get(name) ?? noOwners;
      if (needs.size === 0) continue;
      await bridge.held(needs, signal);
      if (this.#needs.get(name) === needs) this.#needs.set(name, noOwners);
    }
  }

  /**
   * Removes obsolete rows in turns. No entry flow uses them any more.
   *
   * @param isRoundOpen reports whether a round has begun meanwhile, or has further ends: its rows may become obsolete next
   */
  async removeObsolete(isRoundOpen: () => boolean): Promise<void> {
    const { flows, nodeState, turns } = this.#options;
    if (!this.hasObsolete) return;
    this.#removing = new Set(
      [...this.#obsolete]
        .reverse()
        .sort(([, a], [, b]) => b - a)
        .map(([owner]) => owner),
    );
    this.#obsolete = new Map();
    for (const owner of this.#removing) {
      nodeState.forget(owner);
      this.#removing.delete(owner);
      if (turns.due) await turns.next();
    }
    this.#isUnwritten = isRoundOpen() || this.#obsolete.size > 0;
    if (!this.#isUnwritten) flows.written(nodeState.bridge.revision);
  }

  /** Drops the names of acknowledged rows once the bridge has all desired state: there may be a hundred thousand. */
  forgetInstalled(): void {
    const { bridge, reconcilers } = this.#options.nodeState;
    if (this.#installing.size === 0 || reconcilers.bridge.realizedRevision < bridge.revision) return;
    this.#installing.clear();
    for (const name of this.#needs.keys()) this.#needs.set(name, noOwners);
  }
}

const noOwners: ReadonlySet<Owner> = new Set();
