import type { Log } from '../../base/log/log.ts';
import { type SubjectIntent, SubjectPatterns } from '../../dataplane/compile/compile-entry.ts';
import { openingsOwner } from '../../dataplane/compile/compile-openings.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { NodeState, Revisions } from '../../dataplane/targets/node-state.ts';
import { type LocalSubject, type LocalSubjects, podKeyOf } from './local-subjects.ts';
import { intentOf, isSameStanding, type Standings, type SubjectStanding } from './pod-policy-state.ts';
import type { PolicyRuleInstaller } from './policy-rule-installer.ts';
import type { ServiceOpenings } from './service-openings.ts';

interface EntryFlowsOptions {
  readonly subjects: LocalSubjects;
  readonly standings: Pick<Standings, 'of' | 'lackOf'>;
  readonly rules: Pick<PolicyRuleInstaller, 'untilReady'>;
  readonly openings: Pick<ServiceOpenings, 'limit' | 'unlimit' | 'most'>;
  readonly nodeState: Pick<NodeState, 'wantPod' | 'forget'> & {
    readonly reconcilers: { readonly bridge: Pick<NodeState['reconcilers']['bridge'], 'isHeld' | 'failures'> };
  };
  readonly log: Log;
}

/**
 * Flows in the entry tables of this node's pods: each attachment's packets go free, are blocked, or are resubmitted to the rows of its
 * classes. They are applied last, after the bridge has acknowledged the rows that they resubmit to.
 */
export class EntryFlows {
  readonly #options: EntryFlowsOptions;
  readonly #patterns = new SubjectPatterns();
  readonly #applied = new Map<Owner, SubjectStanding>();
  /** Adopted attachments of which not enough is known since: they keep the flows of the previous agent. */
  readonly #undecided = new Set<Owner>();
  /** Attachments that begin: `begin` applies their flows. */
  readonly #starting = new Set<Owner>();
  /** Pods whose entry flows may have to change, `namespace/name`. */
  readonly #due = new Set<string>();

  constructor(options: EntryFlowsOptions) {
    this.#options = options;
  }

  get isDue(): boolean {
    return this.#due.size > 0;
  }

  owners(): Iterable<Owner> {
    return this.#applied.keys();
  }

  /** Standings by owner of the attachment's flows. */
  standings(): ReadonlyMap<Owner, SubjectStanding> {
    return this.#applied;
  }

  /** Intents that entry flows are compiled from. */
  *inputs(): Generator<{ readonly owner: Owner; readonly intent: SubjectIntent }> {
    const { subjects, openings } = this.#options;
    for (const subject of subjects.all()) {
      const standing = this.#applied.get(subject.owner);
      if (standing) yield { owner: subject.owner, intent: intentOf(subject, standing, openings.most) };
    }
  }

  /** OpenFlow port of a pod that still has the flows of the previous agent. @param pod `namespace/name` */
  adoptedAt(pod: string): number | undefined {
    return this.#options.subjects.currentOf(pod).find(({ owner }) => this.#undecided.has(owner))?.ofPort;
  }

  markDue(pods: Iterable<string>): void {
    for (const key of pods) this.#due.add(key);
  }

  /** Reports whether every attachment has the entry flows of its standing, and the bridge has acknowledged them. */
  areInstalled(): boolean {
    const { bridge } = this.#options.nodeState.reconcilers;
    if (this.#due.size > 0 || this.#undecided.size > 0 || bridge.failures().length > 0) return false;
    return [...this.#applied.keys()].every((owner) => bridge.isHeld(owner));
  }

  /** Makes `applyDue` skip the attachment until `started`. */
  starting(owner: Owner): void {
    this.#starting.add(owner);
  }

  started(owner: Owner): void {
    this.#starting.delete(owner);
  }

  /** Applies the flows of an attachment that begins. @returns the revisions to wait for */
  begin(subject: LocalSubject): Revisions {
    this.#undecided.delete(subject.owner);
    return this.#apply(subject, this.#options.standings.of(subject));
  }

  /** Limits openings of an attachment that has begun, unless it ended meanwhile. */
  limitOpenings(subject: LocalSubject): void {
    const standing = this.#applied.get(subject.owner);
    if (standing) this.#options.openings.limit(subject, standing);
  }

  /** Adopts an attachment of a previous agent. @param standing applied at once; undefined to keep its flows until more is known */
  adopt(subject: LocalSubject, standing: SubjectStanding | undefined, isDecided: boolean): void {
    if (!isDecided) this.#undecided.add(subject.owner);
    if (standing) this.#apply(subject, standing);
  }

  /** Removes the flows of an attachment. @returns the revisions without its flows */
  remove(owner: Owner): Revisions {
    this.#applied.delete(owner);
    this.#undecided.delete(owner);
    this.#options.openings.unlimit(owner);
    return this.#options.nodeState.forget(owner);
  }

  /** Applies the flows of all pods that are due, each as soon as its rows are installed. @throws SeineError `CANCELLED` */
  async applyDue(signal: AbortSignal): Promise<void> {
    for (const key of [...this.#due]) await this.#applyTo(key, signal);
  }

  async #applyTo(key: string, signal: AbortSignal): Promise<void> {
    const { rules, standings, subjects } = this.#options;
    this.#due.delete(key);
    for (const subject of [...subjects.ofPod(key)]) {
      if (this.#starting.has(subject.owner)) continue;
      const standing = standings.of(subject);
      const isAdopted = this.#undecided.has(subject.owner) && standing.is !== 'suspended';
      if (isAdopted && (standing.is === 'closed' || standings.lackOf(subject) !== undefined)) continue; // keep those of the previous agent
      await rules.untilReady(standing, signal);
      if (isSameStanding(standing, standings.of(subject))) this.update(subject);
      else this.#due.add(key); // it changed meanwhile, and its rows may not be installed
    }
  }

  /** Applies the flows of the current standing. Unchanged ones are not compiled again: each starting pod may make all others due. */
  update(subject: LocalSubject): void {
    this.#undecided.delete(subject.owner);
    const standing = this.#options.standings.of(subject);
    const applied = this.#applied.get(subject.owner);
    if (applied !== undefined && isSameStanding(applied, standing)) this.#applied.set(subject.owner, standing);
    else this.#apply(subject, standing);
    this.#options.openings.limit(subject, standing);
  }

  #apply(subject: LocalSubject, standing: SubjectStanding): Revisions {
    const { nodeState, log } = this.#options;
    const before = this.#applied.get(subject.owner);
    this.#applied.set(subject.owner, standing);
    if (standing.is === 'closed' && before?.is !== 'closed')
      log.warn('pod is blocked until its policies are known', { pod: podKeyOf(subject), why: standing.why });
    return nodeState.wantPod(subject.owner, this.#patterns.of(intentOf(subject, standing)));
  }
}

/** Owners of everything that these attachments have on the bridge. */
export function ownersOf(subjects: Iterable<LocalSubject>): Iterable<Owner> {
  return [...subjects].flatMap(({ owner }) => [owner, openingsOwner(owner)]);
}
