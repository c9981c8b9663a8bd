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

/** So many ports are kept free: an eighth of those in use, and as many as pods once came at a time, but not fewer or more than this. */
const FREE_MIN = 8;
const FREE_MAX = 64;
/** Ports that are made together: ovs-vswitchd makes few passes for them, and a pod that comes meanwhile waits some 40 ms. */
const MADE_AT_ONCE = 16;
/** Pods that come within this of each other come at a time: ports are made once so long no pod was attached (ms). */
const QUIET_MS = 100;
/** How long ports, and what the database is told, wait for that (ms). */
const PATIENCE_MS = 1_000;
/** How often the namespace is looked for, or ports are tried again (ms). */
const LOOK_EVERY_MS = 1_000;

type PodInterfaceKind = 'auto' | 'standing' | 'veth';

/** Why a pod got a veth pair although standing ports are wanted. */
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
  /** Whether another plugin of the chain will look for a veth pair of this pod. Asked if `kind` is `auto`. */
  readonly needsVeth: (pod: PodIdentity | undefined) => boolean;
  /** As of pods' pairs. */
  readonly pair: () => Pick<StandingPair, 'mtu' | 'hostEnd' | 'checksumOffload'>;
  /** The agent's. */
  readonly shutdown: AbortSignal;
  readonly log: Log;
}

/**
 * Ports that stay plugged in, so that a pod that comes makes ovs-vswitchd look at nothing (docs/adr/0058). Each is free, a pod's, or on its way
 * from one to the other; what is not well is removed, and another made.
 */
export class StandingPorts {
  readonly #options: StandingPortsOptions;
  /** Next-fit: what was given back last is lent last. */
  readonly #free = new Map<string, StandingPort>();
  /** A pod's, or with what is left of one. */
  readonly #used = new Map<string, StandingPort>();
  readonly #coming = new Map<string, StandingPort>();
  /** What the switch's database is to be told of ports, once no pod is being attached. */
  readonly #untold = new Map<string, WantedPort['externalIds']>();
  readonly #fallbacks = new Map<FallbackReason, number>();
  readonly #bell = new Doorbell();
  #macvlan: boolean | undefined;
  /** On their way from a pod to the next one. */
  #returning = 0;
  #adding = 0;
  /** Pods that came at a time, and the most of them since this process began. */
  #burst = 0;
  #burstMost = 0;
  #lastAddedMs = -Infinity;

  constructor(options: StandingPortsOptions) {
    this.#options = options;
  }

  get counts(): { readonly free: number; readonly used: number; readonly coming: number } {
    return { free: this.#free.size, used: this.#used.size, coming: this.#coming.size };
  }

  /** Why the next pod gets a veth pair, as far as that does not depend on the pod; `off` where pairs are wanted. Undefined if it gets a port. */
  get obstacle(): 'off' | Exclude<FallbackReason, 'otherBandwidth'> | undefined {
    if (!this.#isOn) return 'off';
    return this.#unavailable() ?? (this.#free.size === 0 ? 'noneFree' : undefined);
  }

  /** Since this process began. */
  get fallbacks(): ReadonlyMap<FallbackReason, number> {
    return this.#fallbacks;
  }

  /** Whether the plugin is to make the namespace, which only it can. */
  get wantsNamespace(): boolean {
    return this.#isOn && this.#options.mount.current === undefined;
  }

  /** A pod is being attached until the function that is returned is called. */
  adding(): () => void {
    if (this.#quietInMs === 0) this.#burst = 0;
    this.#adding++;
    this.#burstMost = Math.max(this.#burstMost, ++this.#burst);
    return () => {
      this.#adding--;
      this.#lastAddedMs = performance.now();
      setImmediate(() => this.#bell.ring()); // its answer goes first
    };
  }

  /** Whether pods are being attached. */
  get isCrowded(): boolean {
    return this.#adding > 0;
  }

  /** Resolves once no pod is being attached, and none was just before, but after `patienceMs` at the latest, or when the agent stops. */
  async quiet(patienceMs: number): Promise<void> {
    await this.#quiet(this.#options.shutdown, patienceMs);
  }

  /** A port for a pod; undefined if it is to have a veth pair. */
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

  /** The switch's database says soon whose a port is: it is told of many together, and no pod that is being attached waits for it. */
  describe(name: string, externalIds: WantedPort['externalIds']): void {
    if (this.#untold.size === 0) void this.#tell();
    this.#untold.set(name, externalIds);
  }

  /** The switch's database says that a port is nobody's. @returns the revision of the switch that has it */
  disown(name: string): number {
    this.#untold.delete(name);
    return this.#options.nodeState.linkedPorts.describe(name, {});
  }

  /**
   * A pod has no more use for its port. It is lent again once nothing of the pod is left: its interface, its flows, and its name in the database.
   *
   * @param gone rejected where the waiting was given up
   * @returns resolves once the pod's interface is gone, or cannot be removed
   */
  giveBack(name: string, pod: Owner, gone: readonly Promise<void>[], use: 'again' | 'never'): Promise<void> {
    const port = this.#used.get(name);
    const { nodeState, links, shutdown } = this.#options;
    if (port === undefined) throw new SeineError('INVARIANT', `${name} is no pod's port`);
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

  /** A pod that was attached before this process began has it. @returns the number of the port */
  adoptUsed(name: string, externalIds: WantedPort['externalIds']): number {
    const { nodeState, ofPorts } = this.#options;
    const port = { name, ofPort: ofPorts.lendAgain(name, numberOf(name)) };
    this.#used.set(name, port);
    nodeState.linkedPorts.want({ owner: ownerOfPort(name), port: { ...rowOf(port), externalIds } }, 'now');
    return port.ofPort;
  }

  /** Ports that no pod has, from before this process began. Those that are not wanted any more go. */
  adoptIdle(names: readonly string[]): void {
    if (!this.#isOn) return;
    for (const name of names) {
      const ofPort = this.#options.ofPorts.lendAgain(name, numberOf(name));
      void this.#want({ name, ofPort }, 'now');
    }
  }

  isKnown(name: string): boolean {
    return this.#used.has(name) || this.#free.has(name) || this.#coming.has(name);
  }

  /** Whether a pod has it, or what is left of one. */
  isUsed(name: string): boolean {
    return this.#used.has(name);
  }

  /** Ports that no pod has follow the MTU of the node. */
  resize(): void {
    const { nodeState } = this.#options;
    for (const { name } of [...this.#free.values(), ...this.#coming.values()]) nodeState.wantPair(ownerOfPort(name), this.#pairOf(name));
  }

  /** Keeps ports free until `signal`. */
  async run(signal: AbortSignal): Promise<void> {
    if (!this.#isOn) return;
    while (!signal.aborted) {
      this.#options.mount.look();
      if (this.#isLow && this.#unavailable() === undefined) await this.#refill(signal);
      await this.#bell.wait(within(signal, LOOK_EVERY_MS));
    }
  }

  get #isOn(): boolean {
    return this.#options.kind !== 'veth';
  }

  /** How many are to be free. */
  get #kept(): number {
    return Math.ceil(Math.min(FREE_MAX, Math.max(FREE_MIN, this.#used.size / 8, this.#burstMost)));
  }

  /** What comes back from pods need not be made. */
  get #lacking(): number {
    return this.#kept - this.#free.size - this.#coming.size - this.#returning;
  }

  /** One port made for each pod that comes would disturb the next one as much as a port of its own. */
  get #isLow(): boolean {
    return this.#lacking * 2 >= this.#kept;
  }

  /** How long until no pod is being attached, and none was just before, if none comes meanwhile (ms); `Infinity` while one is. */
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

  /** In batches, between which pods that came have their turn. One that fails is tried again by the next look. */
  async #refill(signal: AbortSignal): Promise<void> {
    while (this.#lacking > 0 && !signal.aborted) {
      await this.#quiet(signal);
      const batch = Array.from({ length: Math.min(this.#lacking, MADE_AT_ONCE) }, () => this.#make());
      const made = await Promise.all(batch);
      if (!made.every(Boolean)) return;
    }
  }

  /** Not in `run`, which may wait for ovs-vswitchd. */
  async #tell(): Promise<void> {
    await this.#quiet(this.#options.shutdown);
    for (const [name, externalIds] of this.#untold) this.#options.nodeState.linkedPorts.describe(name, externalIds);
    this.#untold.clear();
  }

  /** Waits until no pod is being attached, but not for ever: what makes ovs-vswitchd go over its ports would make pods wait. */
  async #quiet(signal: AbortSignal, patienceMs = PATIENCE_MS): Promise<void> {
    const patience = within(signal, patienceMs);
    for (let ms = this.#quietInMs; ms > 0 && !patience.aborted; ms = this.#quietInMs) await idle(Math.min(ms, QUIET_MS), patience);
  }

  async #make(): Promise<boolean> {
    try {
      const ofPort = this.#options.ofPorts.lend('a standing port');
      return await this.#want({ name: `sp-${ofPort}`, ofPort }, 'later');
    } catch (thrown) {
      this.#failing(thrown);
      return false;
    }
  }

  /** @param when as of `LinkedPorts` @returns whether it is free now */
  async #want(port: StandingPort, when: 'now' | 'later'): Promise<boolean> {
    const { nodeState, ports, shutdown, log } = this.#options;
    const owner = ownerOfPort(port.name);
    this.#coming.set(port.name, port);
    try {
      nodeState.linkedPorts.want({ owner, port: rowOf(port) }, when);
      await nodeState.reconcilers.links.realizedFor(owner, nodeState.wantPair(owner, this.#pairOf(port.name)), shutdown);
      const plugged: PortWatch['whenPlugged'] = (name, ofPort, until) => ports.whenPlugged(name, ofPort, until);
      await nodeState.linkedPorts.plugged(port.name, (row, until) => plugged(row.name, row.ofPort, until), shutdown);
      this.#free.set(port.name, port);
      log.working('standing ports');
      return true;
    } catch (thrown) {
      if (!shutdown.aborted) this.#drop(port);
      this.#failing(thrown);
      return false;
    } finally {
      this.#coming.delete(port.name);
    }
  }

  #failing(thrown: unknown): void {
    const { message: cause } = SeineError.from(thrown, 'make a standing port');
    if (!this.#options.shutdown.aborted) this.#options.log.failing('standing ports', 'a standing port cannot be made', { cause });
  }

  #freed(port: StandingPort, use: 'again' | 'never'): void {
    this.#used.delete(port.name);
    const isWell = use === 'again' && this.#isOn && this.#options.links.isIdle(this.#pairOf(port.name));
    if (isWell && this.#free.size < FREE_MAX) {
      this.#free.set(port.name, port);
      // The MTU may have changed while it was on its way back.
      this.#options.nodeState.wantPair(ownerOfPort(port.name), this.#pairOf(port.name));
    } else this.#drop(port);
    this.#bell.ring();
  }

  /** The pair goes, and with it whatever stands on it, in whatever namespace that is. */
  #drop({ name, ofPort }: StandingPort): void {
    const { nodeState, ofPorts, shutdown } = this.#options;
    const owner = ownerOfPort(name);
    const row = nodeState.linkedPorts.forget(owner, name);
    nodeState.forgetLinks(owner);
    ofPorts.giveBackAfter(ofPort, [nodeState.reconcilers.switch.realized(row, shutdown)]);
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
