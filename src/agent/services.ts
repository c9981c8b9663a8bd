import type { LoopTurns } from '../async/loop-turns.ts';
import type { NodeDatapath } from '../datapath/node-datapath.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { EndpointSlice } from '../kube/endpoint-slice.ts';
import type { Replica } from '../kube/replica.ts';
import type { Service } from '../kube/service.ts';
import type { Log } from '../log/log.ts';
import type { Ip } from '../net/ip.ts';
import { type Owner, ownerOf } from '../pipeline/cookie.ts';
import { endpointOwners } from '../proxy/endpoint-owner.ts';
import { type Proxying, serviceIntents } from '../proxy/intent.ts';
import type { ServiceAddress, ServiceIntent } from '../proxy/service-intent.ts';
import { Objections } from './objections.ts';
import type { Arrival, ProgrammingTimes } from './proxy/programming-times.ts';
import { type ServedPort, ServedPorts } from './proxy/served-ports.ts';
import type { ServiceHost } from './proxy/service-host.ts';
import { SlicesOfServices } from './proxy/slices-of-services.ts';

/** Changes that come within this time are worked off together (ms): a rollout is many small ones. */
const COALESCE_MS = 2;

/** A Service that is otherwise on the bridge than before. */
export interface ServiceChange {
  readonly key: string;
  readonly before: ReadonlyMap<Owner, ServedPort>;
  readonly after: ReadonlyMap<Owner, ServedPort>;
  /** `start`: what the agent found when it started, which need not be new. */
  readonly occasion: 'start' | 'news';
}

/** What else must happen when Services change. Called synchronously; must not throw. */
export interface ServiceConsequences {
  /** @param acknowledged resolves when the switch has the change; rejects only when the agent stops */
  changed(change: ServiceChange, acknowledged: Promise<void>): void;
  /** A Service that was looked at, with the ports that are served of it. */
  looked(key: string, service: Service | undefined, ports: readonly ServedPort[]): void;
}

export interface ServicesOptions {
  readonly services: Replica<Service>;
  readonly slices: Replica<EndpointSlice>;
  readonly datapath: NodeDatapath;
  /** Asked at every look; `lookAgain` after it has changed. */
  readonly proxying: () => Proxying;
  readonly host: Pick<ServiceHost, 'routes' | 'elements' | 'staysWhereItIs'>;
  /** Whose address that is already, in words for people: a Service must not take the place of a node or a pod. */
  readonly holderOf: (address: Ip) => string | undefined;
  readonly consequences: ServiceConsequences;
  /** Thousands of Services may change at once, and pods start meanwhile. */
  readonly turns: LoopTurns;
  readonly times: ProgrammingTimes;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** A Service being looked at: what was served of it, what is from now on, and what is wrong with it. */
interface Refresh {
  readonly before: ReadonlyMap<Owner, ServedPort>;
  readonly after: Map<Owner, ServedPort>;
  /** Dropped already. */
  readonly failed: Set<Owner>;
  readonly objections: string[];
}

interface NotedChange extends ServiceChange {
  readonly arrival: Arrival;
}

/**
 * Keeps Services on the node in step with the API. What changed is looked at, nothing else: work grows with the change,
 * not with the number of Services.
 */
export class Services {
  readonly #options: ServicesOptions;
  readonly #ports: ServedPorts;
  readonly #slicesOf: SlicesOfServices;
  readonly #served = new Map<string, ReadonlyMap<Owner, ServedPort>>();
  #pending = new Map<string, Arrival>();
  /** Slices that may have changed, and when that was heard (`performance.now()`). Whose they are is found out in turns, for there may be many. */
  readonly #heard = new Map<string, number>();
  /** Services that came before their slices. */
  #early = new Map<string, Arrival>();
  #timer: NodeJS.Timeout | undefined;
  #work: Promise<void> | undefined;
  #isSettled = false;
  /** By `namespace/name`. */
  readonly objections: Objections;

  constructor(options: ServicesOptions) {
    this.#options = options;
    this.#ports = new ServedPorts(options);
    this.#slicesOf = new SlicesOfServices(options.slices);
    this.objections = new Objections('Service', options.log);
  }

  /** Begins to serve what is known now, and follows changes. @returns a function that ends it */
  follow(): () => void {
    const { services, slices, times } = this.#options;
    const ofSlices = (names: Iterable<string>): void => {
      const atMs = times.nowMs();
      for (const name of names) if (!this.#heard.has(name)) this.#heard.set(name, atMs);
      this.#schedule();
    };
    ofSlices([...slices.entries()].map(([name]) => name));
    this.lookAgain();
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

  /** After a change of what this node is, what is ours to serve, or who has which address. @param which all if left out */
  lookAgain(which: (service: Service) => boolean = () => true): void {
    for (const [key, service] of this.#options.services.entries()) if (which(service)) this.#note(key);
    this.#schedule();
  }

  /** Resolves once all that is known of Services has been wished for. */
  async settled(): Promise<void> {
    while (this.#isBehind || this.#work !== undefined) {
      this.#begin();
      await this.#work;
    }
  }

  /** Whether everything that the API server has confirmed at first has been worked off: what is new now is new. */
  get isInStep(): boolean {
    return this.#isSettled;
  }

  get count(): number {
    return this.#served.size;
  }

  /** Every port that is served, by owner. */
  *served(): Generator<[Owner, ServedPort]> {
    for (const ports of this.#served.values()) yield* ports;
  }

  /** Of one Service, by owner. */
  portsOf(key: string): ReadonlyMap<Owner, ServedPort> {
    return this.#served.get(key) ?? new Map<Owner, ServedPort>();
  }

  slicesOf(key: string): readonly EndpointSlice[] {
    return this.#slicesOf.of(key);
  }

  /** What the node is, and what of Services is ours, at present. */
  get proxying(): Proxying {
    return this.#options.proxying();
  }

  get times(): Pick<ProgrammingTimes, 'of'> {
    return this.#options.times;
  }

  /** Everybody who asks something of the bridge for a Service: its ports, and the endpoints they lead to. */
  ownersOf(key: string): { readonly ports: readonly Owner[]; readonly endpoints: ReadonlySet<Owner> } {
    const served = this.portsOf(key);
    return { ports: [...served.keys()], endpoints: new Set([...served.values()].flatMap(({ intent }) => endpointOwners(intent))) };
  }

  get #isBehind(): boolean {
    const early = this.#options.slices.synced ? this.#early.size : 0;
    return this.#pending.size + this.#heard.size + early > 0;
  }

  /**
   * @param triggeredAt when what the change was made of changed, if somebody noted it (RFC 3339)
   * @param atMs when it was heard of, if not just now
   */
  #note(key: string, triggeredAt?: string, atMs?: number): void {
    this.#pending.set(key, this.#options.times.arrived(this.#pending.get(key), triggeredAt, atMs));
  }

  async #noteSlices(): Promise<void> {
    const { slices, turns } = this.#options;
    for (const [name, atMs] of this.#heard) {
      this.#heard.delete(name);
      for (const key of this.#slicesOf.note(name)) this.#note(key, slices.get(name)?.triggeredAt, atMs);
      if (turns.due) await turns.next();
    }
    if (slices.synced) this.#takeEarly();
  }

  /**
   * True for a new Service whose slices may merely not be listed yet. To look at it now would mean to refuse its connections, where a
   * bridge that outlived the agent's memory serves them, and to do all the work twice.
   */
  #isEarly(key: string): boolean {
    const { services, slices } = this.#options;
    return !slices.synced && !this.#served.has(key) && services.get(key) !== undefined && this.#slicesOf.of(key).length === 0;
  }

  #takeEarly(): void {
    for (const [key, arrival] of this.#early) if (!this.#pending.has(key)) this.#pending.set(key, arrival);
    this.#early.clear();
  }

  /** Also where there is nothing to work off: then everything is in step. */
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

  /** In order of name, so that a start gives the same group numbers as the one before. */
  async #workOff(): Promise<void> {
    const { turns, services, slices, signal } = this.#options;
    do {
      await this.#noteSlices();
      const occasion = this.#isSettled ? 'news' : 'start';
      const concerned = this.#pending;
      this.#pending = new Map();
      let changes: NotedChange[] = [];
      for (const key of [...concerned.keys()].sort()) {
        const arrival = concerned.get(key);
        if (arrival === undefined) continue;
        if (this.#isEarly(key)) {
          this.#early.set(key, arrival);
          continue;
        }
        changes.push(...this.#refresh(key, arrival, occasion));
        if (!turns.due) continue;
        this.#follow(changes);
        changes = [];
        await turns.next();
      }
      this.#follow(changes);
    } while (this.#isBehind && !signal.aborted);
    this.#isSettled ||= services.synced && slices.synced;
  }

  /** What is to be done about changes once the switch has acknowledged them: one wait for all of them. */
  #follow(changes: readonly NotedChange[]): void {
    if (changes.length === 0) return;
    const { datapath, consequences, times, signal } = this.#options;
    const acknowledged = datapath.reconcilers.bridge.realized(datapath.bridge.revision, signal);
    acknowledged.catch(() => undefined); // only an abort rejects it; whoever waits for it learns that
    for (const change of changes) {
      const { key } = change;
      consequences.changed(change, acknowledged);
      if (this.#options.services.get(key)) times.programmed(key, change, acknowledged);
      else times.forget(key);
    }
  }

  /** @returns what was changed on the bridge; nothing if it was nothing */
  #refresh(key: string, arrival: Arrival, occasion: NotedChange['occasion']): readonly NotedChange[] {
    const { services, datapath, consequences } = this.#options;
    const service = services.get(key);
    const all = service ? serviceIntents(service, this.#slicesOf.of(key), this.proxying) : [];
    const refresh: Refresh = {
      before: this.portsOf(key),
      after: new Map(),
      failed: new Set(),
      objections: all.flatMap((intent) => intent.objections),
    };
    const revision = datapath.bridge.revision;
    for (const intent of all) this.#serve(key, intent, refresh);
    const { before, after, failed, objections } = refresh;
    for (const [owner, port] of before) if (!after.has(owner) && !failed.has(owner)) this.#ports.drop(owner, port);
    if (after.size === 0) this.#served.delete(key);
    else this.#served.set(key, after);
    this.objections.set(key, [...new Set(objections)]);
    consequences.looked(key, service, [...after.values()]);
    return datapath.bridge.revision === revision ? [] : [{ key, arrival, before, after, occasion }];
  }

  /** A port that makes no sense to the compilers is left out, and said; it must not end the agent, which serves all others. */
  #serve(key: string, intent: ServiceIntent, { before, after, failed, objections }: Refresh): void {
    const addresses = intent.addresses.filter((address) => this.#mayServe(address, objections));
    if (addresses.length === 0) return;
    const owner = ownerOf('service', `${key}:${intent.name}`);
    try {
      after.set(owner, this.#ports.serve(owner, { ...intent, addresses }, before.get(owner)));
    } catch (thrown) {
      failed.add(owner);
      objections.push(SeineError.from(thrown, `port ${intent.port}`).message);
    }
  }

  /** An external address may be a node's: load balancers give those out. A cluster address may be nobody's but the Service's. */
  #mayServe({ kind, ip }: ServiceAddress, objections: string[]): boolean {
    const { host, holderOf } = this.#options;
    if (kind === 'nodePort' || (kind !== 'cluster' && host.staysWhereItIs(ip))) return true;
    const holder = holderOf(ip);
    if (holder !== undefined) objections.push(`${ip.text} belongs to ${holder}`);
    return holder === undefined;
  }
}
