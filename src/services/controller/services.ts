import { abortable } from '../../base/async/abortable.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { UnservedReasons } from '../../base/log/unserved-reasons.ts';
import type { Ip } from '../../base/net/ip.ts';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { nodePortAddress } from '../../dataplane/pipeline/well-known.ts';
import type { EndpointSlice } from '../../kubernetes/resources/endpoint-slice.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import { endpointOwners } from '../compile/endpoint-owner.ts';
import { eachServiceIntent, type Proxying } from '../compile/intent.ts';
import { claimsOf, portKey, ServiceClaims } from '../compile/service-claims.ts';
import type { ServiceAddress, ServiceIntent } from '../compile/service-intent.ts';
import { VirtualPorts } from '../compile/virtual-ports.ts';
import { ChangeReports } from './change-reports.ts';
import type { ProgrammingTimes } from './effects/programming-times.ts';
import { PortsOfServices, type ServedPort } from './packed-service-port.ts';
import { ServedPorts } from './served-ports.ts';
import { type Arrival, changedPorts, type ServiceSubscriber } from './service-changes.ts';
import {
  addObjection,
  mayPassAfter,
  mayPassWithin,
  newRefresh,
  type Refresh,
  type ServicesOptions,
  serviceSize,
  smallestFirst,
  takenAddress,
} from './service-refresh.ts';
import { SlicesOfServices } from './slices-of-services.ts';

/** Time for which changes are gathered (ms): a rollout consists of many small ones. */
const COALESCE_MS = 2;
/** Maximum number of entries that one change of a Service may have written before waiting entries of others. */
const OVERTAKING_KEYS = 500;
/** Number of addresses of one port that are checked in one step. */
const ADDRESSES_AT_ONCE = 1_000;

/** Keeps Services on the node synced with the API. Work grows with the change, not with the number of Services. */
export class Services {
  readonly #options: ServicesOptions;
  readonly #ports: ServedPorts;
  readonly #virtualPorts: VirtualPorts;
  readonly #slicesOf: SlicesOfServices;
  readonly #claims = new ServiceClaims();
  readonly #served = new PortsOfServices();
  #pending = new Map<string, Arrival>();
  /** Pending Services whose claims were not recorded yet. */
  readonly #unclaimed = new Set<string>();
  readonly #comparing = new Set<string>();
  readonly #reports: ChangeReports;
  /**
   * Slices that may have changed, and times of the events (`performance.now()`). Their Services are looked up in slices of time, for there
   * may be many.
   */
  readonly #dirtySlices = new Map<string, number>();
  /** Services that arrived before their slices. */
  #awaitingSlices = new Map<string, Arrival>();
  #timer: NodeJS.Timeout | undefined;
  #work: Promise<void> | undefined;
  #isSettled = false;
  readonly #settling = Promise.withResolvers<void>();
  /** Rejection reasons by `namespace/name`. */
  readonly objections: UnservedReasons;

  constructor(options: ServicesOptions) {
    this.#options = options;
    this.#ports = new ServedPorts(options);
    this.#reports = new ChangeReports(options);
    this.#virtualPorts = new VirtualPorts({
      isOwn: (ip) => options.node.host.isOwn(ip),
      isNodePort: ({ family, transport }, port) => {
        const spot = { ip: nodePortAddress[family].text, port: portKey(transport, port) };
        return this.#claims.holderBefore('', [spot]) !== undefined;
      },
    });
    this.#slicesOf = new SlicesOfServices(options.sources.slices);
    this.objections = new UnservedReasons('Service', options.log);
  }

  /** Adds a subscriber. Call before `follow`. */
  subscribe(subscriber: ServiceSubscriber): void {
    this.#reports.subscribe(subscriber);
  }

  /** Serves known Services and follows changes. @returns a function that ends it */
  follow(): () => void {
    const { times } = this.#options;
    const { services, slices } = this.#options.sources;
    const ofSlices = (names: Iterable<string>): void => {
      const atMs = times.nowMs();
      for (const name of names) if (!this.#dirtySlices.has(name)) this.#dirtySlices.set(name, atMs);
      this.#schedule();
    };
    ofSlices([...slices.entries()].map(([name]) => name));
    this.checkAgain();
    const endServices = services.subscribe((keys) => {
      for (const key of keys) this.#note(key);
      this.#schedule();
    });
    const endSlices = slices.subscribe(ofSlices);
    return () => {
      endServices();
      endSlices();
      clearTimeout(this.#timer);
    };
  }

  /**
   * Compares again after a change of the node, of the share of Services that this agent serves, or of address holders. @param which all if
   * omitted
   */
  checkAgain(which: (service: Service) => boolean = () => true): void {
    for (const [key, service] of this.#options.sources.services.entries()) if (which(service)) this.#note(key);
    this.#schedule();
  }

  /** Resolves once all known Services are in the desired state. */
  async settled(): Promise<void> {
    while (this.#isBehind || this.#work !== undefined) {
      this.#begin();
      await this.#work;
    }
  }

  /** True once everything in the API server's first lists has been handled: later changes are new. */
  get isInStep(): boolean {
    return this.#isSettled;
  }

  /** Resolves once `isInStep` and OVS has acknowledged the desired state of that time. @throws the signal's reason */
  async inStep(signal: AbortSignal): Promise<void> {
    await abortable(this.#settling.promise, signal);
    const { nodeState } = this.#options;
    await nodeState.reconcilers.bridge.realized(nodeState.bridge.revision, signal);
  }

  get count(): number {
    return this.#served.size;
  }

  /** Served ports, by owner. */
  served(): Generator<[Owner, ServedPort]> {
    return this.#served.all();
  }

  portsOf(key: string): ReadonlyMap<Owner, ServedPort> {
    return this.#served.of(key);
  }

  slicesOf(key: string): readonly EndpointSlice[] {
    return this.#slicesOf.of(key);
  }

  get proxying(): Proxying {
    return this.#options.node.proxying;
  }

  get times(): Pick<ProgrammingTimes, 'of'> {
    return this.#options.times;
  }

  /** Returns the owners of a Service's bridge entries: its ports, and the endpoints that have their own flow. */
  ownersOf(key: string): { readonly ports: readonly Owner[]; readonly endpoints: ReadonlySet<Owner> } {
    const served = this.portsOf(key);
    return { ports: [...served.keys()], endpoints: new Set([...served.values()].flatMap(({ intent }) => endpointOwners(intent))) };
  }

  get #isBehind(): boolean {
    const early = this.#options.sources.slices.synced ? this.#awaitingSlices.size : 0;
    return this.#pending.size + this.#dirtySlices.size + early > 0;
  }

  /**
   * @param triggeredAt time of the underlying change, if the controller recorded it (RFC 3339)
   * @param atMs time of the event, if not now
   */
  #note(key: string, triggeredAt?: string, atMs?: number): void {
    this.#pending.set(key, this.#options.times.arrived(this.#pending.get(key), triggeredAt, atMs));
    this.#unclaimed.add(key);
  }

  /**
   * Records the claims of all pending Services before the first of them is compared; Services whose address another takes or releases are
   * compared too.
   */
  async #noteClaims(): Promise<void> {
    const { sources, node } = this.#options;
    const context = { config: this.proxying.config, isNodes: (ip: Ip): boolean => node.host.isNodeAddress(ip) };
    const concerned = new Set<string>();
    // Services that become pending meanwhile are also recorded: iteration of a set includes them.
    for (const key of this.#unclaimed) {
      this.#unclaimed.delete(key);
      const service = sources.services.get(key);
      const claims = service ? claimsOf(service, this.#slicesOf.of(key), context) : [];
      const claimant = { name: key, ...(service?.createdAt === undefined ? {} : { createdAt: service.createdAt }) };
      for (const other of this.#claims.note(claimant, claims)) concerned.add(other);
      if (sources.turns.due) await sources.turns.next();
    }
    for (const key of concerned) {
      if (!this.#pending.has(key)) this.#note(key);
      this.#unclaimed.delete(key); // its own claims are recorded
    }
  }

  async #noteSlices(): Promise<void> {
    const { slices, turns } = this.#options.sources;
    for (const [name, atMs] of this.#dirtySlices) {
      this.#dirtySlices.delete(name);
      for (const key of this.#slicesOf.note(name)) this.#note(key, slices.get(name)?.triggeredAt, atMs);
      if (turns.due) await turns.next();
    }
    if (slices.synced) this.#takeAwaiting();
  }

  /**
   * True for a new Service whose slices may just not be listed yet. Handling it now would refuse its connections, while the bridge may
   * still have flows of the previous agent that serve them, and would double the work.
   */
  #awaitsSlices(key: string): boolean {
    const { services, slices } = this.#options.sources;
    return !slices.synced && !this.#served.has(key) && services.get(key) !== undefined && this.#slicesOf.of(key).length === 0;
  }

  #takeAwaiting(): void {
    for (const [key, arrival] of this.#awaitingSlices) if (!this.#pending.has(key)) this.#pending.set(key, arrival);
    this.#awaitingSlices.clear();
  }

  /** Starts the work. Also without pending Services: then everything is synced. */
  #schedule(): void {
    if (this.#timer !== undefined || this.#work !== undefined || this.#options.signal.aborted) return;
    this.#timer = setTimeout(() => this.#begin(), COALESCE_MS);
  }

  #begin(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#work ??= this.#workOff().finally(() => {
      this.#work = undefined;
      if (this.#isBehind) this.#schedule();
    });
  }

  async #workOff(): Promise<void> {
    const { signal } = this.#options;
    const { turns, services, slices } = this.#options.sources;
    do {
      const isComplete = services.synced && slices.synced;
      await this.#noteSlices();
      await this.#noteClaims();
      const concerned = this.#pending;
      this.#pending = new Map();
      const byName = [...concerned.keys()].sort();
      // In order of names, a start gives the same group numbers as the previous one.
      for (const key of this.#isSettled ? smallestFirst(byName, (each) => this.#sizeOf(each)) : byName) {
        const arrival = concerned.get(key);
        if (arrival === undefined) continue;
        if (this.#awaitsSlices(key)) {
          this.#awaitingSlices.set(key, arrival);
          continue;
        }
        concerned.delete(key);
        await this.#refresh(key, arrival);
        if (!turns.due) continue;
        await this.#pause();
        await this.#letSmallerPass(mayPassAfter(this.#sizeOf(key)), concerned);
      }
      this.#reports.flush();
      // Everything known when both lists were complete is served now. Objects that change all the time must not delay the end of a start.
      if (isComplete && !signal.aborted) this.#settle();
    } while (this.#isBehind && !signal.aborted);
    if (services.synced && slices.synced) this.#settle();
  }

  #sizeOf(key: string): number {
    return serviceSize(this.#options.sources.services.get(key), this.#slicesOf.of(key), this.#served.countOf(key));
  }

  #settle(): void {
    this.#isSettled = true;
    this.#settling.resolve();
  }

  /** Yields to the event loop once the changes so far are in the desired state. */
  async #pause(): Promise<void> {
    this.#reports.flush();
    await this.#options.sources.turns.next();
  }

  /**
   * Compares one Service. One of many ports yields between them, and smaller ones that change meanwhile overtake it. If it changes itself,
   * it is compared again afterwards: ports compared with the previous object have what was right then.
   */
  async #refresh(key: string, arrival: Arrival): Promise<void> {
    const { turns } = this.#options.sources;
    const size = this.#sizeOf(key);
    const ports = this.#comparePorts(key, arrival);
    this.#comparing.add(key);
    while (ports.next().done !== true) {
      if (!turns.due) continue;
      await this.#pause();
      await this.#letSmallerPass(mayPassWithin(size));
    }
    this.#comparing.delete(key);
  }

  /**
   * Handles Services of at most this size that became pending meanwhile, and removes them from those that are compared next. At a start
   * they wait, for then all are pending.
   */
  async #letSmallerPass(most: number, waiting = new Map<string, Arrival>()): Promise<void> {
    if (!this.#isSettled) return;
    await this.#noteSlices();
    if (this.#pending.size === 0) return;
    await this.#noteClaims();
    for (const [key, arrival] of this.#pending) {
      if (this.#comparing.has(key) || this.#sizeOf(key) > most) continue;
      this.#pending.delete(key);
      const since = waiting.get(key) ?? arrival;
      waiting.delete(key);
      await this.#refresh(key, since);
      if (this.#options.sources.turns.due) await this.#pause();
    }
  }

  /** Yields after each port, and between its endpoints. */
  *#comparePorts(key: string, arrival: Arrival): Generator<void> {
    const { sources, nodeState } = this.#options;
    const occasion = this.#isSettled ? 'news' : 'start';
    // At a start all are new, and none overtakes another.
    const allowance = { keysLeft: this.#isSettled ? OVERTAKING_KEYS : -1 };
    const service = sources.services.get(key);
    const slices = this.#slicesOf.of(key);
    const refresh = newRefresh(this.portsOf(key));
    const steps = this.#changePorts(key, service ? eachServiceIntent(service, slices, this.proxying) : [], refresh);
    let isChanged = false;
    for (let isDone: boolean | undefined = false; !isDone; ) {
      const { revision } = nodeState.bridge;
      isDone = nodeState.overtaking(allowance, () => steps.next().done);
      isChanged ||= nodeState.bridge.revision !== revision;
      yield;
    }
    const { before, after, intents, changed, objections } = refresh;
    this.#served.set(key, after);
    this.objections.set(key, [...objections]);
    this.#reports.compared({ key, service, slices, ports: after, objections: this.objections.of(key) });
    if (!isChanged) return;
    const ahead = allowance.keysLeft < 0 ? undefined : { revision: nodeState.bridge.revision, owners: changed };
    for (const part of changedPorts(before, intents)) {
      this.#reports.add({ key, service, arrival, occasion, ...part }, ahead);
      yield;
    }
  }

  *#changePorts(key: string, wanted: Iterable<ServiceIntent>, refresh: Refresh): Generator<void> {
    const { before, after, changed, failed, objections } = refresh;
    for (const intent of wanted) {
      for (const objection of intent.objections) addObjection(objections, objection);
      yield* this.#serve(key, intent, refresh);
      yield;
    }
    for (const [owner, port] of before) {
      if (after.has(owner)) continue;
      this.#virtualPorts.release(owner);
      changed.add(owner);
      if (failed.has(owner)) continue;
      yield* this.#ports.drop(owner, port);
      yield;
    }
  }

  /** Serves a port. One that the compilers reject is left out and reported; it must not end the agent, which serves all others. */
  *#serve(key: string, asked: ServiceIntent, { before, after, intents, changed, failed, objections }: Refresh): Generator<void> {
    const addresses: ServiceAddress[] = [];
    const places = { ...this.#options, claims: this.#claims };
    for (const [at, address] of asked.addresses.entries()) {
      const objection = takenAddress(key, asked.transport, address, places);
      if (objection) addObjection(objections, objection);
      else addresses.push(address);
      if (at % ADDRESSES_AT_ONCE === ADDRESSES_AT_ONCE - 1) yield;
    }
    if (addresses.length === 0) return;
    const owner = ownerOf('service', `${key}:${asked.name}`);
    const intent = this.#virtualPorts.add(owner, addresses.length === asked.addresses.length ? asked : { ...asked, addresses });
    const { bridge } = this.#options.nodeState;
    const { revision } = bridge;
    try {
      after.set(owner, yield* this.#ports.serve(owner, intent, before.get(owner)));
      intents.set(owner, intent);
      if (bridge.revision !== revision) changed.add(owner);
    } catch (thrown) {
      failed.add(owner);
      addObjection(objections, SeineError.from(thrown, `port ${intent.port}`).message);
    }
  }
}
