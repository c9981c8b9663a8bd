import type { Cidr } from '../../base/net/ip.ts';
import { nothing, type Wanted } from '../../dataplane/desired/host-entries.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { Transport } from '../../dataplane/pipeline/flow.ts';
import { compileAddresses, compileService, translations } from '../compile/compile-service.ts';
import { endpointOwner, endpointOwners } from '../compile/endpoint-owner.ts';
import type { Proxying } from '../compile/intent.ts';
import { askedRanges, type ServiceEndpoint, type ServiceIntent, translatedEndpoints } from '../compile/service-intent.ts';
import { compileSourceRanges, rangeSetOf } from '../compile/source-ranges.ts';
import { GroupIdPool } from './group-id-pool.ts';
import { PackedServicePort, type ServedPort } from './packed-service-port.ts';
import type { ServedState } from './ports.ts';
import type { ServiceHost } from './service-host.ts';

const ENDPOINTS_AT_ONCE = 256;
/** Number of addresses that are set in one step. Each has up to nine flows. */
const ADDRESSES_AT_ONCE = 100;
/** Number of entries above which an owner's are changed in several steps. */
const MANY_ENTRIES = 1_000;

interface ServedPortsOptions {
  readonly nodeState: ServedState;
  readonly node: { readonly proxying: Proxying; readonly host: Pick<ServiceHost, 'routes' | 'elements'> };
  /** Ends waiting for OVS to confirm that groups are removed. */
  readonly signal: AbortSignal;
}

/** Sets the desired entries of single ports of Services, allocates group numbers for them, and counts the ports that use each endpoint. */
export class ServedPorts {
  readonly #options: ServedPortsOptions;
  readonly #groups = new GroupIdPool();
  /** Number of ports beyond the first that use an endpoint; most of a hundred thousand have one. */
  readonly #furtherUsers = new Map<Owner, number>();
  readonly #rangeSets: RangeSets;
  /** Numbers of groups that are no longer desired, with the revision of the bridge that is without them. */
  readonly #returning: { readonly revision: number; readonly groups: readonly number[] }[] = [];

  constructor(options: ServedPortsOptions) {
    this.#options = options;
    this.#rangeSets = new RangeSets(options);
  }

  /**
   * Serves a port. Yields between endpoints and between addresses, of which there may be thousands.
   *
   * @throws errors of the compilers; then both the previous and the new state of the port are dropped
   */
  *serve(owner: Owner, intent: ServiceIntent, known: ServedPort | undefined): Generator<void, ServedPort> {
    const groups = new Map<string, number>();
    const before = known?.groups;
    const groupId = (name: string): number => {
      const id = groups.get(name) ?? before?.get(name) ?? this.#groups.lend(`${owner}#${name}`);
      groups.set(name, id);
      return id;
    };
    // Endpoints first: a group must not forward to an endpoint without translation, in case the two are in different bundles.
    const had = new Set(known && endpointOwners(known.intent));
    yield* this.#rangeSets.use(intent);
    for (const [at, endpoint] of translatedEndpoints(intent).entries()) {
      this.#useEndpoint(intent.transport, endpoint, had);
      if (at % ENDPOINTS_AT_ONCE === ENDPOINTS_AT_ONCE - 1) yield;
    }
    try {
      yield* this.#setEntries(owner, intent, { owner, groupId });
      this.#release(unused(before, groups));
    } catch (thrown) {
      yield* this.#leaveEndpoints(had);
      if (known) yield* this.#rangeSets.leave(known.intent);
      yield* this.drop(owner, { intent, groups: new Map([...(before ?? []), ...groups]) });
      throw thrown;
    }
    yield* this.#leaveEndpoints(had);
    if (known) yield* this.#rangeSets.leave(known.intent);
    return new PackedServicePort(intent, groups);
  }

  /** Withdraws a port. Yields between its entries. */
  *drop(owner: Owner, port: ServedPort): Generator<void> {
    yield* withdraw(this.#options.nodeState, owner);
    yield* this.#leaveEndpoints(endpointOwners(port.intent));
    yield* this.#rangeSets.leave(port.intent);
    this.#release([...port.groups.values()]);
  }

  *#setEntries(owner: Owner, intent: ServiceIntent, options: Parameters<typeof compileService>[1]): Generator<void> {
    const { nodeState, node } = this.#options;
    if (intent.addresses.length <= ADDRESSES_AT_ONCE && !hasMany(nodeState, owner)) {
      nodeState.want(owner, { ...compileService(intent, options), routes: node.host.routes(intent) });
      nodeState.wantElements(owner, node.host.elements(intent));
      return;
    }
    const replacement = nodeState.replace(owner);
    for (const { wanted, addresses } of compileAddresses(intent, options, ADDRESSES_AT_ONCE)) {
      replacement.add({ ...wanted, routes: node.host.routes({ addresses }) }, node.host.elements(intent, addresses));
      yield;
    }
    yield* replacement.finish();
  }

  /**
   * Releases numbers that are no longer desired once no flow of OVS can use the old group. One wait at a time for all of them: each of thousands of waits would be
   * woken by every change that OVS acknowledges.
   */
  #release(groups: readonly number[]): void {
    if (groups.length === 0) return;
    this.#returning.push({ revision: this.#options.nodeState.bridge.revision, groups });
    if (this.#returning.length === 1) this.#returnGroups().catch(() => undefined); // the agent stops, and the pool with it
  }

  async #returnGroups(): Promise<void> {
    const { nodeState, signal } = this.#options;
    while (this.#returning.length > 0) {
      const count = this.#returning.length;
      const newest = this.#returning.reduce((most, { revision }) => Math.max(most, revision), 0);
      await nodeState.reconcilers.bridge.realized(newest, signal);
      for (const { groups } of this.#returning.splice(0, count)) for (const id of groups) this.#groups.release(id);
    }
  }

  /** @param had endpoints that the port had before; one that it keeps is removed from the set, and stays counted */
  #useEndpoint(transport: Transport, endpoint: ServiceEndpoint, had: Set<Owner>): void {
    const owner = endpointOwner(transport, endpoint);
    if (had.delete(owner)) return;
    const { nodeState } = this.#options;
    if (nodeState.bridge.has(owner)) {
      this.#furtherUsers.set(owner, (this.#furtherUsers.get(owner) ?? 0) + 1);
      nodeState.bringAlong(owner);
    } else nodeState.wantEndpoint(owner, translations[transport], endpoint);
  }

  *#leaveEndpoints(endpoints: Iterable<Owner>): Generator<void> {
    let count = 0;
    for (const endpoint of endpoints) {
      this.#leaveEndpoint(endpoint);
      if (++count % ENDPOINTS_AT_ONCE === 0) yield;
    }
  }

  #leaveEndpoint(endpoint: Owner): void {
    const further = this.#furtherUsers.get(endpoint) ?? 0;
    if (further === 0) this.#options.nodeState.forget(endpoint);
    else if (further === 1) this.#furtherUsers.delete(endpoint);
    else this.#furtherUsers.set(endpoint, further - 1);
  }
}

/** Reports whether an owner has more entries now than one step should change. */
function hasMany(nodeState: Pick<ServedState, 'bridge'>, owner: Owner): boolean {
  return nodeState.bridge.keysOf(owner).length > MANY_ENTRIES;
}

/** Withdraws the entries of an owner; yields between many. */
function* withdraw(nodeState: ServedState, owner: Owner): Generator<void> {
  if (hasMany(nodeState, owner)) {
    yield* nodeState.replace(owner).finish();
    return;
  }
  nodeState.wantElements(owner, new Map());
  nodeState.forget(owner);
}

function unused(before: ReadonlyMap<string, number> = new Map(), after: ReadonlyMap<string, number>): number[] {
  return [...before].flatMap(([name, id]) => (after.has(name) ? [] : [id]));
}

/** Sets each set of source ranges once, as long as a port uses it. */
class RangeSets {
  readonly #options: Pick<ServedPortsOptions, 'nodeState' | 'node'>;
  /** Number of ports that use each set. */
  readonly #users = new Map<Owner, number>();
  /** Lists that were compiled with the node's present addresses: a Service's ports share one, which is a new object in each comparison. */
  readonly #compiled = new WeakSet<readonly Cidr[]>();

  constructor(options: Pick<ServedPortsOptions, 'nodeState' | 'node'>) {
    this.#options = options;
  }

  *use(intent: ServiceIntent): Generator<void> {
    const ranges = askedRanges(intent);
    if (ranges === undefined) return;
    const { owner } = rangeSetOf(ranges);
    this.#users.set(owner, (this.#users.get(owner) ?? 0) + 1);
    if (this.#compiled.has(ranges)) return;
    const { nodeState, node } = this.#options;
    const { revision } = nodeState.bridge;
    const wanted = compileSourceRanges(ranges, node.proxying.node);
    if (wanted.flows.length > MANY_ENTRIES || hasMany(nodeState, owner)) yield* this.#replace(owner, wanted.flows);
    else if (nodeState.want(owner, wanted).bridge === revision) nodeState.bringAlong(owner);
    this.#compiled.add(ranges);
  }

  *leave(intent: ServiceIntent): Generator<void> {
    const ranges = askedRanges(intent);
    if (ranges === undefined) return;
    const { owner } = rangeSetOf(ranges);
    const others = (this.#users.get(owner) ?? 0) - 1;
    if (others > 0) this.#users.set(owner, others);
    else if (this.#users.delete(owner)) yield* withdraw(this.#options.nodeState, owner);
  }

  *#replace(owner: Owner, flows: Wanted['flows']): Generator<void> {
    const replacement = this.#options.nodeState.replace(owner);
    for (let at = 0; at < flows.length; at += MANY_ENTRIES) {
      replacement.add({ ...nothing, flows: flows.slice(at, at + MANY_ENTRIES) }, new Map());
      yield;
    }
    yield* replacement.finish();
  }
}
