import type { LoopTurns } from '../../base/async/loop-turns.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import { type SubjectIntent, SubjectPatterns } from '../../dataplane/compile/compile-entry.ts';
import { openingsOwner } from '../../dataplane/compile/compile-openings.ts';
import type { PolicyMode } from '../../dataplane/compile/environment.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { NodeState, Revisions } from '../../dataplane/targets/node-state.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import type { PodIdentity } from '../../pods/ipam/attachment.ts';
import { shortageText } from '../engine/identities/peer-shares.ts';
import { PolicyEngine } from '../engine/policy-engine.ts';
import type { PolicyFlows } from '../flows/policy-flows.ts';
import type { PolicyMatrix } from '../matrix/matrix.ts';
import { type LocalPodFacts, type LocalSubject, LocalSubjects, podKeyOf } from './local-subjects.ts';
import { NumberReturns } from './number-returns.ts';
import { type NodeNetworks, ObjectFeed, type PolicySources } from './object-feed.ts';
import { intentOf, isSameStanding, podStandings, Standings, type SubjectStanding, type WhenUnknown } from './pod-policy-state.ts';
import { SilentPods } from './pods-awaiting-api.ts';
import type { PolicyProgramming } from './policy-programming.ts';
import { ClassRows, type ClassRowsOptions } from './policy-rule-installer.ts';
import { ServiceOpenings } from './service-openings.ts';
import type { Suspensions } from './suspensions.ts';

/** How often is looked at what the bridge has come to have: numbers are free again then, and names need not be kept (ms). */
const RETURNS_EVERY_MS = 1_000;
/** What a pod that starts means for others comes behind its answer (ms). */
const BEHIND_START_MS = 5;

/** What the bridge held when the agent began: flows of an agent with policy, of one without it, or of none. */
export type BridgeBefore = 'with policy' | 'without policy' | 'empty';

interface EnforcementOptions {
  readonly nodeName: string;
  readonly sources: PolicySources;
  readonly nodeNetworks: NodeNetworks;
  /** Whether policies and namespaces are known: in step with the API server, or as an earlier agent has stored them. */
  readonly rulesKnown: () => boolean;
  /** Whether all pods and nodes of the cluster are known as of now. */
  readonly areAddressesKnown: () => boolean;
  /** What the API server says of a pod of this node; undefined if that is not known. */
  readonly factsOf: (pod: PodIdentity) => LocalPodFacts | undefined;
  readonly flows: PolicyFlows;
  readonly nodeState: ClassRowsOptions['nodeState'] &
    Pick<NodeState, 'wantPod' | 'realized' | 'hasPolicyLeftovers'> & {
      readonly reconcilers: { readonly bridge: Pick<NodeState['reconcilers']['bridge'], 'failures'> };
    };
  readonly suspensions: Pick<Suspensions, 'of' | 'endedAway'>;
  readonly whenUnknown: WhenUnknown;
  /** New connections a second that one pod whose egress is policed may open to Services. */
  readonly serviceOpenings: number;
  /** As of now. */
  readonly mode: () => PolicyMode;
  readonly bridgeBefore: BridgeBefore;
  /** For metrics. */
  readonly programming?: PolicyProgramming;
  readonly turns: LoopTurns;
  readonly log: Log;
  /** The agent's. */
  readonly signal: AbortSignal;
}

/**
 * Policy in force: from what the API server has to what the bridge is to hold.
 *
 * A pod's flows in the entry tables are wanted last: once the switch has acknowledged the rows of the classes that they lead to. What no
 * class needs any more is removed after that. So a packet meets what held before or what holds now, and nothing between.
 */
export class Enforcement {
  readonly #options: EnforcementOptions;
  readonly #engine: PolicyEngine;
  readonly #objects: ObjectFeed;
  readonly #returns: NumberReturns;
  readonly #rows: ClassRows;
  readonly #standings: Standings;
  readonly #openings: ServiceOpenings;
  readonly #subjects = new LocalSubjects();
  readonly #patterns = new SubjectPatterns();
  readonly #silent: SilentPods;
  readonly #standing = new Map<Owner, SubjectStanding>();
  /** Adopted, and not known well enough since. */
  readonly #undecided = new Set<Owner>();
  /** Of pods that start, and of which what is read may be that of their predecessors. */
  readonly #learning = new Set<Owner>();
  /** Pods whose flows may be others now. */
  readonly #due = new Set<string>();
  /** Whether everything that was known at the start has been looked at. */
  #isFed = false;
  #begins: NodeJS.Immediate | undefined;
  #work: Promise<void> | undefined;

  constructor(options: EnforcementOptions) {
    this.#options = options;
    const { nodeName, sources, nodeNetworks, turns } = options;
    this.#engine = new PolicyEngine(nodeName, undefined, options.flows.coarseRooms);
    const engine = this.#engine;
    this.#silent = new SilentPods(engine);
    const published = (pods: Iterable<string>): void => {
      for (const key of pods) this.#due.add(key);
    };
    const adoptedAt = (pod: string) => this.#subjects.currentOf(pod).find(({ owner }) => this.#undecided.has(owner))?.ofPort;
    this.#rows = new ClassRows({
      ...options,
      engine,
      pods: () => this.#subjects.pods(),
      areLed: () => this.#areLed(),
      surroundings: { adoptedAt, areAddressesKnown: options.areAddressesKnown },
      entries: () => this.#standing.keys(),
      published,
    });
    const rulesKnown = () => options.rulesKnown() && this.#isFed;
    this.#standings = new Standings({ ...options, engine, subjects: this.#subjects, rulesKnown });
    this.#openings = new ServiceOpenings(options);
    this.#returns = new NumberReturns({ ...options, now: () => performance.now() });
    this.#objects = new ObjectFeed({
      engine,
      sources,
      nodeNetworks,
      isLocal: (key, pod) => pod.nodeName === nodeName || this.#subjects.hasCurrent(key),
      turns,
      changed: () => {
        this.#options.programming?.noted();
        this.#schedule();
      },
    });
  }

  /** As of the last change; a view. */
  get matrix(): PolicyMatrix {
    return this.#engine.matrix;
  }

  /** Rules whose networks are denied for want of numbers. */
  get peerShortages(): PolicyEngine['shortages'] {
    return this.#engine.shortages;
  }

  // Each like `PolicyEngine`.
  readonly leftOutAt: PolicyEngine['leftOutAt'] = (...of) => this.#engine.leftOutAt(...of);
  readonly rulesOf: PolicyEngine['rulesOf'] = (...of) => this.#engine.rulesOf(...of);
  readonly podsOf: PolicyEngine['podsOf'] = (...of) => this.#engine.podsOf(...of);
  readonly holderOf: PolicyEngine['holderOf'] = (address) => this.#engine.holderOf(address);

  /** Owners of rows that say what becomes of a packet, with what they are made of. */
  decided(): ReturnType<PolicyFlows['decided']> {
    return this.#options.flows.decided(this.#engine.matrix);
  }

  /** By owner of the attachment's flows. */
  standings(): ReadonlyMap<Owner, SubjectStanding> {
    return this.#standing;
  }

  /** Of each pod of the cluster that has an attachment here, by `namespace/name`. */
  pods(): ReturnType<typeof podStandings> {
    return podStandings(this.#subjects.withoutPredecessors(), this.#standing, this.#engine.matrix);
  }

  /** What is denied that policies allow, in words. */
  get shortages(): readonly string[] {
    return [...this.#engine.shortages.map(shortageText), ...this.#options.flows.problems];
  }

  /** Of what all attachments have on the bridge. */
  owners(): Iterable<Owner> {
    return [...this.#subjects.all()].flatMap(({ owner }) => [owner, openingsOwner(owner)]);
  }

  /** `namespace/name` of the pod of the cluster that has this OpenFlow port; undefined if none has. */
  podAt(ofPort: number): string | undefined {
    return this.#subjects.podAt(ofPort);
  }

  /** What attachments' flows in the entry tables are compiled from. */
  *inputs(): Generator<{ readonly owner: Owner; readonly intent: SubjectIntent }> {
    for (const subject of this.#subjects.all()) {
      const standing = this.#standing.get(subject.owner);
      if (standing) yield { owner: subject.owner, intent: intentOf(subject, standing, this.#openings.most) };
    }
  }

  /** Follows the cluster. @returns a function that ends it */
  follow(): () => void {
    const end = this.#objects.follow();
    const returns = setInterval(() => {
      this.#rows.forgetHeld();
      if (this.#returns.look()) this.#schedule();
    }, RETURNS_EVERY_MS).unref();
    return () => {
      end();
      clearInterval(returns);
      clearImmediate(this.#begins);
    };
  }

  /** The bridge is rid of what nobody wants from now on, flows of policy included: numbers that nobody uses are lent again. */
  removalsAllowed(): void {
    this.#returns.removalsAllowed();
    this.#options.programming?.begin();
  }

  /** What the API server says of these pods of this node may be otherwise. @param pods `namespace/name` */
  podsChanged(pods: Iterable<string>): void {
    for (const key of pods) if (this.#subjects.has(key)) this.#putLocal(key);
    this.#schedule();
  }

  /** The mode is another one. Pods are free at once; to what holds for them they go as they went at the start. */
  modeChanged(): void {
    if (this.#options.mode() === 'off') for (const subject of this.#subjects.all()) this.#want(subject);
    for (const key of this.#subjects.pods()) this.#due.add(key);
    this.#schedule();
  }

  /** Policies of some pods are suspended now, or no more: those that are free or closed by it are so at once, others as they were at the start. */
  suspensionsChanged(): void {
    for (const subject of this.#subjects.all()) {
      const [is, was] = [this.#standings.of(subject).is, this.#standing.get(subject.owner)?.is];
      if (is === 'suspended' || (was === 'suspended' && is !== 'policed')) this.#want(subject);
    }
    for (const key of this.#subjects.pods()) this.#due.add(key);
    this.#schedule();
  }

  /** Resolves once all that is known is wanted. */
  async settled(): Promise<void> {
    do {
      this.#begin();
      await this.#work;
    } while (this.#isBehind);
  }

  /**
   * Polices an attachment that begins: what is known of its policies is wanted when this returns a promise, and acknowledged when that
   * resolves.
   *
   * @throws SeineError `UNAVAILABLE` if policies are enforced, too little is known of it, and `whenUnknown` is `refuse`; `CANCELLED`
   */
  async attach(subject: LocalSubject, signal: AbortSignal): Promise<void> {
    const { whenUnknown, nodeState, mode } = this.#options;
    this.#subjects.add(subject);
    const key = podKeyOf(subject);
    if (key !== undefined) await this.#learn(subject, key, signal);
    for (;;) {
      const standing = this.#standings.of(subject);
      if (standing.is === 'closed' && whenUnknown === 'refuse' && mode() === 'enforce')
        throw new SeineError('UNAVAILABLE', `its policies: ${standing.why}`);
      await this.#rows.untilReady(standing, signal);
      if (isSameStanding(standing, this.#standings.of(subject))) break; // else another one by now, whose rows may be under way
    }
    this.#undecided.delete(subject.owner);
    await nodeState.realized(this.#lead(subject, this.#standings.of(subject)), signal);
    const standing = this.#standing.get(subject.owner);
    if (standing) this.#openings.limit(subject, standing); // else detached meanwhile
  }

  /** An attachment that an earlier agent has made. Until more is known it keeps what the bridge had of it. */
  adopt(subject: LocalSubject): void {
    const { bridgeBefore, mode, suspensions, rulesKnown } = this.#options;
    this.#subjects.add(subject);
    const key = podKeyOf(subject);
    const standing = this.#standings.of(subject);
    // Then what the bridge has is what a suspension that is over has opened.
    const isOpened = key !== undefined && suspensions.endedAway(key);
    if (!isOpened) this.#undecided.add(subject.owner);
    if (key === undefined || bridgeBefore === 'without policy') this.#lead(subject, { is: 'free' });
    else if (bridgeBefore === 'empty' || mode() === 'off' || standing.is === 'suspended') this.#lead(subject, standing);
    else if (isOpened && !rulesKnown()) this.#lead(subject, standing);
    if (key === undefined) return;
    this.#putLocal(key);
    this.#schedule();
  }

  /** @returns when its flows are gone */
  detach(owner: Owner): Revisions {
    const subject = this.#subjects.remove(owner);
    this.#standing.delete(owner);
    this.#undecided.delete(owner);
    const key = subject && podKeyOf(subject);
    if (key !== undefined) {
      if (this.#subjects.has(key)) this.#putLocal(key);
      else {
        this.#engine.removePod(key);
        this.#objects.lookAgain(key);
      }
      this.#schedule();
    }
    this.#openings.unlimit(owner);
    return this.#options.nodeState.forget(owner);
  }

  /** Puts a pod that starts, and has what is known of its policies wanted: at once, if it is little or others of its classes are here. */
  async #learn({ owner }: LocalSubject, key: string, signal: AbortSignal): Promise<void> {
    if (this.#isFed) this.#objects.workOnRules(key);
    const pod = this.#putLocal(key);
    if (!this.#isFed) return;
    const isAtOnce = this.#rows.updateQuickly() || (pod ? this.#rows.admit(pod) : !this.#engine.matrix.subjects.has(key));
    this.#learning.add(owner);
    try {
      if (!isAtOnce) await this.#rows.updateAfterMoves(signal);
    } finally {
      this.#learning.delete(owner);
      setTimeout(() => this.#schedule(), BEHIND_START_MS).unref();
    }
  }

  #putLocal(key: string): PolicyPod | undefined {
    const { nodeName, factsOf } = this.#options;
    const facts = this.#subjects.identify(key, factsOf);
    const pod = facts && this.#subjects.policyPod(key, nodeName, facts);
    this.#objects.leaveTo(key);
    if (pod) this.#engine.putPod(pod);
    else {
      this.#engine.removePod(key);
      // A pod of that name may run on another node by now, while the sandbox of its predecessor is still here.
      this.#objects.lookAgain(key);
    }
    this.#due.add(key);
    return pod;
  }

  get #isBehind(): boolean {
    return this.#objects.isBehind || (this.#options.rulesKnown() && (this.#due.size > 0 || this.#rows.isBehind || this.#rows.isUnsettled));
  }

  /** Changes of one turn of the loop are worked off together, and so are those that come while others are worked off. */
  #schedule(): void {
    if (this.#begins !== undefined || this.#work !== undefined || this.#options.signal.aborted) return;
    this.#begins = setImmediate(() => this.#begin());
  }

  #begin(): void {
    clearImmediate(this.#begins);
    this.#begins = undefined;
    this.#work ??= this.#workOff()
      .catch((thrown: unknown) => {
        if (!this.#options.signal.aborted) throw thrown;
      })
      .finally(() => {
        this.#work = undefined;
        if (this.#isBehind) this.#schedule();
        else this.#options.programming?.workedOff();
      });
  }

  async #workOff(): Promise<void> {
    const { signal } = this.#options;
    do {
      await this.#objects.work();
      if (!this.#options.rulesKnown()) return;
      await this.#rows.update(signal);
      if (!this.#isFed) for (const key of this.#subjects.pods()) this.#due.add(key);
      this.#isFed = true;
      for (const key of this.#silent.look(this.#subjects.pods())) this.#due.add(key);
      for (const key of [...this.#due]) await this.#flip(key);
      if (this.#due.size === 0) await this.#rows.settle(signal);
    } while (this.#isBehind && !signal.aborted);
  }

  /** Whether every attachment is led to what holds for it, and the bridge has that and nothing of policy that nobody wants. */
  #areLed(): boolean {
    const { bridge } = this.#options.nodeState.reconcilers;
    if (!this.#returns.isSwept || this.#due.size > 0 || this.#undecided.size > 0 || bridge.failures().length > 0) return false;
    return [...this.#standing.keys()].every((owner) => bridge.isHeld(owner));
  }

  /** Leads a pod's packets to what holds for it now, as soon as the rows of that are on the switch. */
  async #flip(key: string): Promise<void> {
    this.#due.delete(key);
    for (const subject of [...this.#subjects.ofPod(key)]) {
      if (this.#learning.has(subject.owner)) continue; // it is led as it begins
      const standing = this.#standings.of(subject);
      const isAdopted = this.#undecided.has(subject.owner) && standing.is !== 'suspended';
      if (isAdopted && (standing.is === 'closed' || this.#standings.lackOf(subject) !== undefined)) continue; // what the bridge has of it is better
      await this.#rows.untilReady(standing, this.#options.signal);
      if (isSameStanding(standing, this.#standings.of(subject))) this.#want(subject);
      else this.#due.add(key); // another one by now, whose rows may be under way
    }
  }

  /** Wants an attachment's flows as of now. Where it is led so already they are not made once more: with each pod that starts, all may be looked at. */
  #want(subject: LocalSubject): void {
    this.#undecided.delete(subject.owner);
    const standing = this.#standings.of(subject);
    const led = this.#standing.get(subject.owner);
    if (led !== undefined && isSameStanding(led, standing)) this.#standing.set(subject.owner, standing);
    else this.#lead(subject, standing);
    this.#openings.limit(subject, standing);
  }

  #lead(subject: LocalSubject, standing: SubjectStanding): Revisions {
    const { nodeState, log } = this.#options;
    const before = this.#standing.get(subject.owner);
    this.#standing.set(subject.owner, standing);
    if (standing.is === 'closed' && before?.is !== 'closed')
      log.warn('a pod is closed until its policies are known', { pod: podKeyOf(subject), why: standing.why });
    return nodeState.wantPod(subject.owner, this.#patterns.of(intentOf(subject, standing)));
  }
}
