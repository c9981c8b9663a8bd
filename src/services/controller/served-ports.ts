import type { Cidr } from '../../base/net/ip.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { Transport } from '../../dataplane/pipeline/flow.ts';
import type { Revisions } from '../../dataplane/targets/node-state.ts';
import { compileService, translations } from '../compile/compile-service.ts';
import { endpointOwner, endpointOwners } from '../compile/endpoint-owner.ts';
import type { Proxying } from '../compile/intent.ts';
import { askedRanges, type ServiceEndpoint, type ServiceIntent, translatedEndpoints } from '../compile/service-intent.ts';
import { compileSourceRanges, rangeSetOf } from '../compile/source-ranges.ts';
import { GroupIdPool } from './group-id-pool.ts';
import { KeptPort, type ServedPort } from './packed-service-port.ts';
import type { ServedState } from './ports.ts';
import type { ServiceHost } from './service-host.ts';

const ENDPOINTS_AT_ONCE = 256;

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
   * Serves a port. Yields between endpoints, of which there may be thousands.
   *
   * @throws errors of the compilers; then both the previous and the new state of the port are dropped
   */
  *serve(owner: Owner, intent: ServiceIntent, known: ServedPort | undefined): Generator<void, ServedPort> {
    const { nodeState, node } = this.#options;
    const groups = new Map<string, number>();
    const before = known?.groups;
    const groupId = (name: string): number => {
      const id = groups.get(name) ?? before?.get(name) ?? this.#groups.lend(`${owner}#${name}`);
      groups.set(name, id);
      return id;
    };
    // Endpoints first: a group must not forward to an endpoint without translation, in case the two are in different bundles.
    const had = new Set(known && endpointOwners(known.intent));
    this.#rangeSets.use(intent);
    for (const [at, endpoint] of translatedEndpoints(intent).entries()) {
      this.#useEndpoint(intent.transport, endpoint, had);
      if (at % ENDPOINTS_AT_ONCE === ENDPOINTS_AT_ONCE - 1) yield;
    }
    try {
      const wanted = compileService(intent, { owner, groupId });
      this.#giveBack(nodeState.want(owner, { ...wanted, routes: node.host.routes(intent) }), unused(before, groups));
      nodeState.wantElements(owner, node.host.elements(intent));
    } catch (thrown) {
      for (const endpoint of had) this.#leaveEndpoint(endpoint);
      if (known) this.#rangeSets.leave(known.intent);
      this.drop(owner, { intent, groups: new Map([...(before ?? []), ...groups]) });
      throw thrown;
    }
    for (const endpoint of had) this.#leaveEndpoint(endpoint);
    if (known) this.#rangeSets.leave(known.intent);
    return new KeptPort(intent, groups);
  }

  drop(owner: Owner, port: ServedPort): void {
    const { nodeState } = this.#options;
    nodeState.wantElements(owner, new Map());
    const gone = nodeState.forget(owner);
    for (const endpoint of endpointOwners(port.intent)) this.#leaveEndpoint(endpoint);
    this.#rangeSets.leave(port.intent);
    this.#giveBack(gone, [...port.groups.values()]);
  }

  /**
   * Releases numbers once no flow of OVS can use the old group. One wait at a time for all of them: each of thousands of waits would be
   * woken by every change that OVS acknowledges.
   */
  #giveBack(gone: Pick<Revisions, 'bridge'>, groups: readonly number[]): void {
    if (groups.length === 0) return;
    this.#returning.push({ revision: gone.bridge, groups });
    if (this.#returning.length === 1) this.#returnGroups().catch(() => undefined); // the agent stops, and the pool with it
  }

  async #returnGroups(): Promise<void> {
    const { nodeState, signal } = this.#options;
    while (this.#returning.length > 0) {
      const count = this.#returning.length;
      const newest = this.#returning.reduce((most, { revision }) => Math.max(most, revision), 0);
      await nodeState.reconcilers.bridge.realized(newest, signal);
      for (const { groups } of this.#returning.splice(0, count)) for (const id of groups) this.#groups.giveBack(id);
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

  #leaveEndpoint(endpoint: Owner): void {
    const further = this.#furtherUsers.get(endpoint) ?? 0;
    if (further === 0) this.#options.nodeState.forget(endpoint);
    else if (further === 1) this.#furtherUsers.delete(endpoint);
    else this.#furtherUsers.set(endpoint, further - 1);
  }
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

  use(intent: ServiceIntent): void {
    const ranges = askedRanges(intent);
    if (ranges === undefined) return;
    const { owner } = rangeSetOf(ranges);
    this.#users.set(owner, (this.#users.get(owner) ?? 0) + 1);
    if (this.#compiled.has(ranges)) return;
    const { nodeState, node } = this.#options;
    const { revision } = nodeState.bridge;
    if (nodeState.want(owner, compileSourceRanges(ranges, node.proxying.node)).bridge === revision) nodeState.bringAlong(owner);
    this.#compiled.add(ranges);
  }

  leave(intent: ServiceIntent): void {
    const ranges = askedRanges(intent);
    if (ranges === undefined) return;
    const { owner } = rangeSetOf(ranges);
    const others = (this.#users.get(owner) ?? 0) - 1;
    if (others > 0) this.#users.set(owner, others);
    else if (this.#users.delete(owner)) this.#options.nodeState.forget(owner);
  }
}
