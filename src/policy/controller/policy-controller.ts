import type { LoopTurns } from '../../base/async/loop-turns.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { SubjectIntent } from '../../dataplane/compile/compile-entry.ts';
import type { PolicyMode } from '../../dataplane/compile/environment.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { NodeState, Revisions } from '../../dataplane/targets/node-state.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import type { PodIdentity } from '../../pods/ipam/attachment.ts';
import type { UnknownPeers } from '../engine/cluster-rules.ts';
import { shortageText } from '../engine/identities/peer-shares.ts';
import { PolicyEngine } from '../engine/policy-engine.ts';
import type { PolicyFlows } from '../flows/policy-flows.ts';
import type { PolicyMatrix } from '../matrix/matrix.ts';
import { EntryFlows, ownersOf } from './entry-flows.ts';
import { type LocalPodFacts, type LocalSubject, LocalSubjects, podKeyOf } from './local-subjects.ts';
import { NumberReturns } from './number-returns.ts';
import { type NodeNetworks, ObjectFeed, type PolicySources } from './object-feed.ts';
import { isSameStanding, podStandings, Standings, type SubjectStanding, type WhenUnknown, whyOf } from './pod-policy-state.ts';
import { PodsAwaitingApi } from './pods-awaiting-api.ts';
import type { PolicyProgramming } from './policy-programming.ts';
import { PolicyRounds } from './policy-rounds.ts';
import { PolicyRuleInstaller, type PolicyRuleInstallerOptions } from './policy-rule-installer.ts';
import { RecentAddresses } from './recent-addresses.ts';
import { ServiceOpenings } from './service-openings.ts';
import type { Suspensions } from './suspensions.ts';

/** Period of the check for numbers that became available, and for rows whose names need not be kept (ms). */
const RETURNS_EVERY_MS = 1_000;
/** Delay of the work that a starting pod causes for other pods, after its answer (ms). */
const AFTER_START_MS = 5;

/** Content of the bridge when the agent started: flows of an agent with policy, of one without it, or none. */
export type BridgeBefore = 'with policy' | 'without policy' | 'empty';

export interface PolicyControllerOptions {
  readonly nodeName: string;
  readonly sources: PolicySources;
  readonly nodeNetworks: NodeNetworks;
  /** Reports whether policies and namespaces are known: synced with the API server, or stored by a previous agent. */
  readonly rulesKnown: () => boolean;
  /** Reports whether all pods and nodes of the cluster are known. */
  readonly areAddressesKnown: () => boolean;
  /** Returns the API server's data of a pod of this node; undefined if not known. */
  readonly factsOf: (pod: PodIdentity) => LocalPodFacts | undefined;
  readonly flows: PolicyFlows;
  readonly nodeState: PolicyRuleInstallerOptions['nodeState'] &
    Pick<NodeState, 'wantPod' | 'realized' | 'hasPolicyLeftovers'> & {
      readonly reconcilers: { readonly bridge: Pick<NodeState['reconcilers']['bridge'], 'failures'> };
    };
  readonly suspensions: Pick<Suspensions, 'of' | 'endedAway'>;
  readonly whenUnknown: WhenUnknown;
  /** Default: `closed`. */
  readonly unknownPeers?: UnknownPeers;
  /** Maximum rate of new connections to Services for one pod whose egress is policed (per second). */
  readonly serviceOpenings: number;
  /** Returns the current mode. */
  readonly mode: () => PolicyMode;
  readonly bridgeBefore: BridgeBefore;
  /** Measurement for metrics. */
  readonly programming?: PolicyProgramming;
  readonly turns: LoopTurns;
  readonly log: Log;
  /** Aborts when the agent ends. */
  readonly signal: AbortSignal;
}

/**
 * Runs NetworkPolicy on this node: changed objects become a matrix (`PolicyRounds`), the matrix becomes rows on the bridge
 * (`PolicyRuleInstaller`), and pods get entry flows that resubmit to them (`EntryFlows`), in this order. Rows that no class needs any more
 * are removed last. So a packet meets the policies before a change or those after it, and nothing between.
 */
export class PolicyController {
  readonly #options: PolicyControllerOptions;
  readonly #engine: PolicyEngine;
  readonly #objects: ObjectFeed;
  readonly #returns: NumberReturns;
  readonly #rounds: PolicyRounds;
  readonly #rules: PolicyRuleInstaller;
  readonly #entryFlows: EntryFlows;
  readonly #standings: Standings;
  readonly #recent: RecentAddresses;
  readonly #subjects = new LocalSubjects();
  readonly #awaitingApi: PodsAwaitingApi;
  /** True once everything that was known at the start has become desired state. */
  #isFed = false;
  #begins: NodeJS.Immediate | undefined;
  #work: Promise<void> | undefined;

  constructor(options: PolicyControllerOptions) {
    this.#options = options;
    const { nodeName, sources, nodeNetworks, turns } = options;
    const engine = new PolicyEngine(nodeName, undefined, options.flows.coarseRooms, options.unknownPeers);
    const subjects = this.#subjects;
    this.#engine = engine;
    this.#recent = new RecentAddresses(engine, () => performance.now());
    this.#awaitingApi = new PodsAwaitingApi(engine);
    this.#standings = new Standings({ ...options, engine, subjects, rulesKnown: () => options.rulesKnown() && this.#isFed });
    this.#returns = new NumberReturns({ ...options, now: () => performance.now() });
    this.#rules = new PolicyRuleInstaller({ ...options, pods: () => subjects.pods() });
    const openings = new ServiceOpenings(options);
    this.#entryFlows = new EntryFlows({ ...options, subjects, standings: this.#standings, rules: this.#rules, openings });
    this.#rounds = new PolicyRounds({
      ...options,
      engine,
      rules: this.#rules,
      entryFlows: this.#entryFlows,
      surroundings: { adoptedAt: (pod) => this.#entryFlows.adoptedAt(pod), areAddressesKnown: options.areAddressesKnown },
      isBridgeClean: () => this.#returns.isSwept,
    });
    this.#objects = new ObjectFeed({
      engine,
      sources,
      nodeNetworks,
      recent: this.#recent,
      isLocal: (key, pod) => pod.nodeName === nodeName || subjects.hasCurrent(key),
      turns,
      changed: () => {
        this.#options.programming?.noted();
        this.#schedule();
      },
    });
  }

  /** Matrix of the last round; a view. */
  get matrix(): PolicyMatrix {
    return this.#engine.matrix;
  }

  /** Number that grows whenever the matrix may be another. */
  get matrixRevision(): number {
    return this.#rounds.revision;
  }

  /** Returns why policies are not enforced for a pod: its suspension, or the mode of the node; undefined if they are. */
  notEnforcedFor(pod: string): string | undefined {
    const { suspensions, mode } = this.#options;
    if (mode() !== 'enforce') return `policy mode ${mode()}`;
    const suspension = suspensions.of(pod);
    return suspension && `policies are suspended ${whyOf(suspension)}`;
  }

  /** Treatment of pods whose labels are not known by rules of cluster policies. */
  get unknownPeers(): UnknownPeers {
    return this.#options.unknownPeers ?? 'closed';
  }

  /** Rules whose networks are denied because numbers ran out. */
  get peerShortages(): PolicyEngine['shortages'] {
    return this.#engine.shortages;
  }

  // Like the methods of `PolicyEngine` with these names.
  readonly leftOutAt: PolicyEngine['leftOutAt'] = (...of) => this.#engine.leftOutAt(...of);
  readonly rulesOf: PolicyEngine['rulesOf'] = (...of) => this.#engine.rulesOf(...of);
  readonly podsOf: PolicyEngine['podsOf'] = (...of) => this.#engine.podsOf(...of);
  readonly holderOf: PolicyEngine['holderOf'] = (address) => this.#engine.holderOf(address);
  readonly isInPodNetwork: PolicyEngine['isInPodNetwork'] = (address) => this.#engine.isInPodNetwork(address);

  /** Reports whether a pod got this address a moment ago, as far as this node knows. */
  isRecent(address: string): boolean {
    return this.#recent.has(address);
  }

  /** Owners of rows that decide about packets, each with its decision. */
  decided(): ReturnType<PolicyFlows['decided']> {
    return this.#options.flows.decided(this.#engine.matrix);
  }

  /** Standings by owner of the attachment's flows. */
  standings(): ReadonlyMap<Owner, SubjectStanding> {
    return this.#entryFlows.standings();
  }

  /** All pods of the cluster with an attachment here, by `namespace/name`. */
  pods(): ReturnType<typeof podStandings> {
    return podStandings(this.#subjects.withoutPredecessors(), this.#entryFlows.standings(), this.#engine.matrix);
  }

  /** Traffic that is denied although policies allow it, for operators. */
  get shortages(): readonly string[] {
    return [...this.#engine.shortages.map(shortageText), ...this.#options.flows.problems];
  }

  /** Owners of everything that attachments have on the bridge. */
  owners(): Iterable<Owner> {
    return ownersOf(this.#subjects.all());
  }

  /** Returns `namespace/name` of the pod with this OpenFlow port; undefined if no pod has it. */
  podAt(ofPort: number): string | undefined {
    return this.#subjects.podAt(ofPort);
  }

  /** Intents that attachments' flows in the entry tables are compiled from. */
  inputs(): Generator<{ readonly owner: Owner; readonly intent: SubjectIntent }> {
    return this.#entryFlows.inputs();
  }

  /** Follows the cluster. @returns a function that ends it */
  follow(): () => void {
    const end = this.#objects.follow();
    const returns = setInterval(() => {
      this.#rounds.forgetInstalled();
      if (this.#returns.look()) this.#schedule();
    }, RETURNS_EVERY_MS).unref();
    return () => {
      end();
      clearInterval(returns);
      clearImmediate(this.#begins);
    };
  }

  /** Notes that entries without an owner, flows of policy included, are now removed from the bridge. Unused numbers become free. */
  removalsAllowed(): void {
    this.#returns.removalsAllowed();
    this.#options.programming?.begin();
  }

  /** Notes that the API server's data of these pods of this node may have changed. @param pods `namespace/name` */
  podsChanged(pods: Iterable<string>): void {
    for (const key of pods) if (this.#subjects.has(key)) this.#putLocal(key);
    this.#schedule();
  }

  /** Applies a change of the policy mode. With `off`, pods are free at once; else their policies apply as they do at the start. */
  modeChanged(): void {
    if (this.#options.mode() === 'off') for (const subject of this.#subjects.all()) this.#entryFlows.update(subject);
    this.#entryFlows.markDue(this.#subjects.pods());
    this.#schedule();
  }

  /**
   * Applies a change of suspensions. Pods that become free or blocked by it do so at once; for others their policies apply as they do at
   * the start.
   */
  suspensionsChanged(): void {
    for (const subject of this.#subjects.all()) {
      const [is, was] = [this.#standings.of(subject).is, this.#entryFlows.standings().get(subject.owner)?.is];
      if (is === 'suspended' || (was === 'suspended' && is !== 'policed')) this.#entryFlows.update(subject);
    }
    this.#entryFlows.markDue(this.#subjects.pods());
    this.#schedule();
  }

  /** Resolves once everything that is known is desired state. */
  async settled(): Promise<void> {
    do {
      this.#begin();
      await this.#work;
    } while (this.#isBehind);
  }

  /**
   * Applies policies to a new attachment: its flows are desired state when this returns a promise, and acknowledged when that resolves.
   *
   * @throws SeineError `UNAVAILABLE` if policies are enforced, too little is known of the pod, and `whenUnknown` is `refuse`; `CANCELLED`
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
      await this.#rules.untilReady(standing, signal);
      if (isSameStanding(standing, this.#standings.of(subject))) break; // it changed meanwhile, and its rows may not be installed
    }
    await nodeState.realized(this.#entryFlows.begin(subject), signal);
    this.#entryFlows.limitOpenings(subject);
  }

  /** Adopts an attachment of a previous agent. Until more is known it keeps the flows that the bridge has for it. */
  adopt(subject: LocalSubject): void {
    const { suspensions } = this.#options;
    this.#subjects.add(subject);
    const key = podKeyOf(subject);
    // The flows of a suspension that has ended are not kept: they open the pod.
    const isOpened = key !== undefined && suspensions.endedAway(key);
    this.#entryFlows.adopt(subject, this.#adoptedStanding(subject, isOpened), isOpened);
    if (key === undefined) return;
    this.#putLocal(key);
    this.#schedule();
  }

  /** Returns the standing to apply to an adopted attachment; undefined to keep the flows that the bridge has. */
  #adoptedStanding(subject: LocalSubject, isOpened: boolean): SubjectStanding | undefined {
    const { bridgeBefore, mode, rulesKnown } = this.#options;
    if (podKeyOf(subject) === undefined || bridgeBefore === 'without policy') return { is: 'free' };
    const standing = this.#standings.of(subject);
    const isApplied = bridgeBefore === 'empty' || mode() === 'off' || standing.is === 'suspended' || (isOpened && !rulesKnown());
    return isApplied ? standing : undefined;
  }

  /** Removes an attachment. @returns the revisions without its flows */
  detach(owner: Owner): Revisions {
    const subject = this.#subjects.remove(owner);
    const key = subject && podKeyOf(subject);
    const revisions = this.#entryFlows.remove(owner);
    if (key === undefined) return revisions;
    if (this.#subjects.has(key)) this.#putLocal(key);
    else {
      this.#engine.removePod(key);
      this.#objects.checkAgain(key);
    }
    this.#schedule();
    return revisions;
  }

  /**
   * Puts a starting pod into the engine and makes its policies desired state: at once, if few steps suffice or other pods have its classes.
   */
  async #learn({ owner }: LocalSubject, key: string, signal: AbortSignal): Promise<void> {
    if (this.#isFed) this.#objects.workOnRules(key);
    const pod = this.#putLocal(key);
    if (!this.#isFed) return;
    const isAtOnce = this.#rounds.updateQuickly() || (pod ? this.#rounds.admit(pod) : !this.#engine.matrix.subjects.has(key));
    this.#entryFlows.starting(owner);
    try {
      if (!isAtOnce) await this.#rounds.updateAfterMoves(signal);
    } finally {
      this.#entryFlows.started(owner);
      setTimeout(() => this.#schedule(), AFTER_START_MS).unref();
    }
  }

  #putLocal(key: string): PolicyPod | undefined {
    const { nodeName, factsOf } = this.#options;
    const facts = this.#subjects.identify(key, factsOf);
    const pod = facts && this.#subjects.policyPod(key, nodeName, facts);
    this.#objects.leaveTo(key);
    if (pod) {
      this.#recent.note(key, pod.podIps);
      this.#engine.putPod(pod);
    } else {
      this.#engine.removePod(key);
      // A pod of that name may run on another node by now, while the sandbox of its predecessor still exists here.
      this.#objects.checkAgain(key);
    }
    this.#entryFlows.markDue([key]);
    return pod;
  }

  get #isBehind(): boolean {
    const isWorkLeft = this.#entryFlows.isDue || this.#rounds.isBehind || this.#rounds.isUnsettled;
    return this.#objects.isBehind || (this.#options.rulesKnown() && isWorkLeft);
  }

  /** Processes changes of one turn of the event loop together, and those that arrive meanwhile. */
  #schedule(): void {
    if (this.#begins !== undefined || this.#work !== undefined || this.#options.signal.aborted) return;
    this.#begins = setImmediate(() => this.#begin());
  }

  #begin(): void {
    clearImmediate(this.#begins);
    this.#begins = undefined;
    this.#work ??= this.#process()
      .catch((thrown: unknown) => {
        if (!this.#options.signal.aborted) throw thrown;
      })
      .finally(() => {
        this.#work = undefined;
        if (this.#isBehind) this.#schedule();
        else this.#options.programming?.workedOff();
      });
  }

  /** The run of a policy change: objects, matrix and rows, entry flows, then the rows that are obsolete. */
  async #process(): Promise<void> {
    const { signal } = this.#options;
    do {
      await this.#objects.work();
      if (!this.#options.rulesKnown()) return;
      await this.#rounds.update(signal);
      if (!this.#isFed) this.#entryFlows.markDue(this.#subjects.pods());
      this.#isFed = true;
      this.#entryFlows.markDue(this.#awaitingApi.look(this.#subjects.pods()));
      await this.#entryFlows.applyDue(signal);
      if (!this.#entryFlows.isDue) await this.#rounds.settle(signal);
    } while (this.#isBehind && !signal.aborted);
  }
}
