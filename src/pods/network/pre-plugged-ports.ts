import { idle } from '../../base/async/pause.ts';
import { within } from '../../base/async/time-limit.ts';
import { Doorbell } from '../../base/async/wake-signal.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { StandingPair } from '../../dataplane/desired/pod-link.ts';
import type { WantedPort } from '../../dataplane/desired/switch-row.ts';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { LinksTarget } from '../../dataplane/targets/links/links-target.ts';
import { farNameOf, standingPortPattern } from '../../dataplane/targets/links/pre-plugged-links.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { PortWatch } from '../../dataplane/targets/switch/port-watch.ts';
import type { PortsMount } from '../../netlink/pod-interfaces/ports-namespace.ts';
import { hasMacvlan } from '../../netlink/pod-interfaces/pre-plugged-port.ts';
import type { PodAttachment, PodIdentity } from '../ipam/attachment.ts';
import type { OfPortPool } from './of-port-pool.ts';

/**
 * Minimum number of free ports. The target is an eighth of those in use, and as many as pods were attached together before, within these
 * bounds.
 */
const FREE_MIN = 8;
const FREE_MAX = 64;
/** Number of ports made together: ovs-vswitchd needs few passes for them, and a pod attached meanwhile waits about 40 ms. */
const MADE_AT_ONCE = 16;
/** Pods attached within this time count as together; ports are made once no pod was attached for this time (ms). */
const QUIET_MS = 100;
/** Maximum delay of making ports, and of updates of OVSDB, for that (ms). */
const PATIENCE_MS = 1_000;
/** Period of the search for the namespace, and of retries (ms). */
const CHECK_EVERY_MS = 1_000;

type PodInterfaceKind = 'auto' | 'standing' | 'veth';

/** Reason why a pod got a veth pair although pre-plugged ports are enabled. */
type FallbackReason = 'noNamespace' | 'notPinned' | 'noMacvlan' | 'noneFree' | 'otherBandwidth';

interface StandingPort {
  readonly name: string;
  readonly ofPort: number;
}

interface StandingPortsOptions {
  readonly kind: PodInterfaceKind;
  readonly mount: PortsMount;
  readonly nodeState: NodeState;
  readonly ports: PortWatch;
  readonly links: Pick<LinksTarget, 'removed' | 'isIdle'>;
  readonly ofPorts: OfPortPool;
  /** Reports whether another plugin of the chain needs a veth pair for this pod. Called if `kind` is `auto`. */
  readonly needsVeth: (pod: PodIdentity | undefined) => boolean;
  /** Returns the settings, which are those of pods' pairs. */
  readonly pair: () => Pick<StandingPair, 'mtu' | 'hostEnd' | 'checksumOffload'>;
  /** Aborts when the agent ends. */
  readonly shutdown: AbortSignal;
  readonly log: Log;
}

/**
 * Ports that stay plugged in, so that a new pod causes no reconfiguration in ovs-vswitchd (docs/adr/0058). Each is free, used by a pod, or
 * changing from one to the other. A faulty port is removed, and another one is made.
 */
export class StandingPorts {
  readonly #options: StandingPortsOptions;
  /** Free ports. The port released last is used last. */
  readonly #free = new Map<string, StandingPort>();
  /** Ports of pods, or with remains of one. */
  readonly #used = new Map<string, StandingPort>();
  readonly #creating = new Map<string, StandingPort>();
  /** Descriptions to be written to OVSDB once no pod is being attached. */
  readonly #undescribed = new Map<string, WantedPort['externalIds']>();
  readonly #fallbacks = new Map<FallbackReason, number>();
  readonly #bell = new Doorbell();
  #macvlan: boolean | undefined;
  /** Number of ports being returned by pods. */
  #returning = 0;
  #adding = 0;
  /** Number of pods attached together, and its maximum since this process started. */
  #burst = 0;
  #burstMost = 0;
  #lastAddedMs = -Infinity;

  constructor(options: StandingPortsOptions) {
    this.#options = options;
  }

  get counts(): { readonly free: number; readonly used: number; readonly coming: number } {
    return { free: this.#free.size, used: this.#used.size, coming: this.#creating.size };
  }

  /**
   * Reason why the next pod gets a veth pair, if it does not depend on the pod; `off` if veth pairs are configured; undefined if it gets a
   * port.
   */
  get obstacle(): 'off' | Exclude<FallbackReason, 'otherBandwidth'> | undefined {
    if (!this.#isOn) return 'off';
    return this.#unavailable() ?? (this.#free.size === 0 ? 'noneFree' : undefined);
  }

  /** Numbers of fallbacks since this process started. */
  get fallbacks(): ReadonlyMap<FallbackReason, number> {
    return this.#fallbacks;
  }

  /** Reports whether the plugin must make the namespace, which only the plugin can do. */
  get wantsNamespace(): boolean {
    return this.#isOn && this.#options.mount.current === undefined;
  }

  /** Notes that a pod is being attached, until the returned function is called. */
  adding(): () => void {
    if (this.#quietInMs === 0) this.#burst = 0;
    this.#adding++;
    this.#burstMost = Math.max(this.#burstMost, ++this.#burst);
    return () => {
      this.#adding--;
      this.#lastAddedMs = performance.now();
      setImmediate(() => this.#bell.ring()); // its reply is sent first
    };
  }

  /** Reports whether pods are being attached. */
  get isCrowded(): boolean {
    return this.#adding > 0;
  }

  /** Resolves once no pod is being attached and none was just before, at the latest after `patienceMs` or when the agent stops. */
  async quiet(patienceMs: number): Promise<void> {
    await this.#quiet(this.#options.shutdown, patienceMs);
  }

  /** Takes a port for a pod; undefined if the pod must have a veth pair. */
  take({ pod, limits }: Pick<PodAttachment, 'pod' | 'limits'>): StandingPort | undefined {
    const { kind, needsVeth } = this.#options;
    if (!this.#isOn) return undefined;
    if (kind === 'auto' && limits !== 'both' && needsVeth(pod)) return this.#fallBack('otherBandwidth');
    const reason = this.#unavailable();
    if (reason !== undefined) return this.#fallBack(reason);
    for (const port of this.#free.values()) {
      this.#free.delete(port.name);
      if (this.#options.ports.ofPort(port.name) !== port.ofPort) this.#drop(port);
      else {
        this.#used.set(port.name, port);
        return port;
      }
    }
    return this.#fallBack('noneFree');
  }

  /** Writes the owner of a port to OVSDB later, for many ports together, so that no pod being attached waits for it. */
  describe(name: string, externalIds: WantedPort['externalIds']): void {
    if (this.#undescribed.size === 0) void this.#tell();
    this.#undescribed.set(name, externalIds);
  }

  /** Removes the owner of a port from OVSDB. @returns the revision that contains this */
  disown(name: string): number {
    this.#undescribed.delete(name);
    return this.#options.nodeState.linkedPorts.describe(name, {});
  }

  /**
   * Releases the port of a pod. It is used again once nothing of the pod is left: its interface, its flows, and its name in OVSDB.
   *
   * @param gone promises that reject if the wait was cancelled
   * @returns resolves once the pod's interface is gone, or cannot be removed
   */
  release(name: string, pod: Owner, gone: readonly Promise<void>[], use: 'again' | 'never'): Promise<void> {
    const port = this.#used.get(name);
    const { nodeState, links, shutdown } = this.#options;
    if (port === undefined) throw new SeineError('INVARIANT', `${name} is not the port of a pod`);
    const forgotten = nodeState.forgetLinks(pod);
    const revision = use === 'again' ? nodeState.wantPair(ownerOfPort(name), this.#pairOf(name)) : forgotten;
    const done = nodeState.reconcilers.links.realized(revision, shutdown).then(() => links.removed(name));
    this.#returning++;
    Promise.all([done, ...gone])
      .finally(() => this.#returning--)
      .then(
        () => shutdown.aborted || this.#freed(port, use),
        () => undefined, // the agent stops
      );
    return done;
  }

  /** Adopts the port of a pod that was attached before this process started. @returns the number of the port */
  adoptUsed(name: string, externalIds: WantedPort['externalIds']): number {
    const { nodeState, ofPorts } = this.#options;
    const port = { name, ofPort: ofPorts.allocateAgain(name, numberOf(name)) };
    this.#used.set(name, port);
    nodeState.linkedPorts.want({ owner: ownerOfPort(name), port: { ...rowOf(port), externalIds } }, 'now');
    return port.ofPort;
  }

  /** Adopts ports without a pod from before this process started. Ports that are no longer needed are removed. */
  adoptIdle(names: readonly string[]): void {
    if (!this.#isOn) return;
    for (const name of names) {
      const ofPort = this.#options.ofPorts.allocateAgain(name, numberOf(name));
      void this.#want({ name, ofPort }, 'now');
    }
  }

  isKnown(name: string): boolean {
    return this.#used.has(name) || this.#free.has(name) || this.#creating.has(name);
  }

  /** Reports whether a pod has the port, or remains of one are on it. */
  isUsed(name: string): boolean {
    return this.#used.has(name);
  }

  /** Applies the MTU of the node to ports without a pod. */
  resize(): void {
    const { nodeState } = this.#options;
    for (const { name } of [...this.#free.values(), ...this.#creating.values()]) nodeState.wantPair(ownerOfPort(name), this.#pairOf(name));
  }

  /** Keeps ports free until `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    if (!this.#isOn) return;
    while (!signal.aborted) {
      this.#options.mount.look();
      if (this.#isLow && this.#unavailable() === undefined) await this.#refill(signal);
      await this.#bell.wait(within(signal, CHECK_EVERY_MS));
    }
  }

  get #isOn(): boolean {
    return this.#options.kind !== 'veth';
  }

  /** Target number of free ports. */
  get #kept(): number {
    return Math.ceil(Math.min(FREE_MAX, Math.max(FREE_MIN, this.#used.size / 8, this.#burstMost)));
  }

  /** Number of ports to make, not counting those being returned. */
  get #lacking(): number {
    return this.#kept - this.#free.size - this.#creating.size - this.#returning;
  }

  /** True if many ports are lacking. Making one port for each new pod would disturb the next one as much as a port of its own. */
  get #isLow(): boolean {
    return this.#lacking * 2 >= this.#kept;
  }

  /**
   * Time until no pod is being attached and none was just before, if no other starts meanwhile (ms); `Infinity` while one is being
   * attached.
   */
  get #quietInMs(): number {
    return this.#adding > 0 ? Infinity : Math.max(0, this.#lastAddedMs + QUIET_MS - performance.now());
  }

  #unavailable(): 'noNamespace' | 'notPinned' | 'noMacvlan' | undefined {
    const { current } = this.#options.mount;
    if (current === undefined) return 'noNamespace';
    if (!current.isMounted()) return 'notPinned';
    this.#macvlan ??= hasMacvlan(current);
    return this.#macvlan ? undefined : 'noMacvlan';
  }

  #fallBack(reason: FallbackReason): undefined {
    this.#fallbacks.set(reason, (this.#fallbacks.get(reason) ?? 0) + 1);
    return undefined;
  }

  /** Makes ports in batches, with turns for waiting pods in between. After a failure the next check tries again. */
  async #refill(signal: AbortSignal): Promise<void> {
    while (this.#lacking > 0 && !signal.aborted) {
      await this.#quiet(signal);
      const batch = Array.from({ length: Math.min(this.#lacking, MADE_AT_ONCE) }, () => this.#make());
      const made = await Promise.all(batch);
      if (!made.every(Boolean)) return;
    }
  }

  /** Writes descriptions outside of `run`, which may wait for ovs-vswitchd. */
  async #tell(): Promise<void> {
    await this.#quiet(this.#options.shutdown);
    for (const [name, externalIds] of this.#undescribed) this.#options.nodeState.linkedPorts.describe(name, externalIds);
    this.#undescribed.clear();
  }

  /** Waits until no pod is being attached, with a limit: changes that make ovs-vswitchd process its ports would delay pods. */
  async #quiet(signal: AbortSignal, patienceMs = PATIENCE_MS): Promise<void> {
    const patience = within(signal, patienceMs);
    for (let ms = this.#quietInMs; ms > 0 && !patience.aborted; ms = this.#quietInMs) await idle(Math.min(ms, QUIET_MS), patience);
  }

  async #make(): Promise<boolean> {
    try {
      const ofPort = this.#options.ofPorts.allocate('a pre-plugged port');
      return await this.#want({ name: `sp-${ofPort}`, ofPort }, 'later');
    } catch (thrown) {
      this.#failing(thrown);
      return false;
    }
  }

  /** Makes a port desired state. @param when as for `LinkedPorts` @returns whether it is free now */
  async #want(port: StandingPort, when: 'now' | 'later'): Promise<boolean> {
    const { nodeState, ports, shutdown, log } = this.#options;
    const owner = ownerOfPort(port.name);
    this.#creating.set(port.name, port);
    try {
      nodeState.linkedPorts.want({ owner, port: rowOf(port) }, when);
      await nodeState.reconcilers.links.realizedFor(owner, nodeState.wantPair(owner, this.#pairOf(port.name)), shutdown);
      const plugged: PortWatch['whenPlugged'] = (name, ofPort, until) => ports.whenPlugged(name, ofPort, until);
      await nodeState.linkedPorts.plugged(port.name, (row, until) => plugged(row.name, row.ofPort, until), shutdown);
      this.#free.set(port.name, port);
      log.working('pre-plugged ports');
      return true;
    } catch (thrown) {
      if (!shutdown.aborted) this.#drop(port);
      this.#failing(thrown);
      return false;
    } finally {
      this.#creating.delete(port.name);
    }
  }

  #failing(thrown: unknown): void {
    const { message: cause } = SeineError.from(thrown, 'create a pre-plugged port');
    if (!this.#options.shutdown.aborted) this.#options.log.failing('pre-plugged ports', 'a pre-plugged port cannot be created', { cause });
  }

  #freed(port: StandingPort, use: 'again' | 'never'): void {
    this.#used.delete(port.name);
    const isWell = use === 'again' && this.#isOn && this.#options.links.isIdle(this.#pairOf(port.name));
    if (isWell && this.#free.size < FREE_MAX) {
      this.#free.set(port.name, port);
      // The MTU may have changed while it was being returned.
      this.#options.nodeState.wantPair(ownerOfPort(port.name), this.#pairOf(port.name));
    } else this.#drop(port);
    this.#bell.ring();
  }

  /** Removes the pair, and with it any interface on top of it, in whatever namespace. */
  #drop({ name, ofPort }: StandingPort): void {
    const { nodeState, ofPorts, shutdown } = this.#options;
    const owner = ownerOfPort(name);
    const row = nodeState.linkedPorts.forget(owner, name);
    nodeState.forgetLinks(owner);
    ofPorts.releaseAfter(ofPort, [nodeState.reconcilers.switch.realized(row, shutdown)]);
  }

  #pairOf(name: string): StandingPair {
    return { hostName: name, farName: farNameOf(name), ...this.#options.pair() };
  }
}

function ownerOfPort(name: string): Owner {
  return ownerOf('node', 'standing', name);
}

function numberOf(name: string): number | undefined {
  const [, digits] = standingPortPattern.exec(name) ?? [];
  return digits === undefined ? undefined : Number(digits);
}

function rowOf({ name, ofPort }: StandingPort): WantedPort {
  return { name, type: '', ofPort, options: {}, externalIds: {} };
}
