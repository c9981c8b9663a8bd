import type { NodeDatapath } from '../datapath/node-datapath.ts';
import { SeineError } from '../errors/seine-error.ts';
import { type EndpointSlice, serviceKeyOf } from '../kube/endpoint-slice.ts';
import type { Replica } from '../kube/replica.ts';
import type { Service } from '../kube/service.ts';
import type { Log } from '../log/log.ts';
import { type Family, type Ip, parseCidr } from '../net/ip.ts';
import { type Owner, ownerOf } from '../pipeline/cookie.ts';
import type { Transport } from '../pipeline/flow.ts';
import { serviceNextHop } from '../pipeline/well-known.ts';
import { compileEndpoint, compileService } from '../proxy/compile-service.ts';
import { type Proxying, serviceIntents } from '../proxy/intent.ts';
import { type Endpoint, reachableEndpoints, type ServiceAddress, type ServiceIntent } from '../proxy/service-intent.ts';
import type { Route } from '../wanted/wanted.ts';
import { GroupIdPool } from './group-id-pool.ts';
import { Objections } from './objections.ts';

export interface ServicesOptions {
  readonly services: Replica<Service>;
  readonly slices: Replica<EndpointSlice>;
  readonly datapath: NodeDatapath;
  readonly families: readonly Family[];
  /** Without it: cluster addresses only. */
  readonly proxying?: Proxying;
  readonly gateway: string;
  /** Families whose whole Service range is routed to the bridge already; for others each address gets its route. */
  readonly routedFamilies: readonly Family[];
  /** Whose address that is already, in words for people: a Service must not take the place of a node or a pod. */
  readonly holderOf: (address: Ip) => string | undefined;
  readonly log: Log;
  /** Ends waiting for the switch to confirm that groups are gone. */
  readonly signal: AbortSignal;
}

interface ServedPort {
  /** By their names within the port. */
  readonly groups: ReadonlyMap<string, number>;
  readonly endpoints: ReadonlySet<Owner>;
}

/** A Service being looked at: what was served of it, what is from now on, and what is wrong with it. */
interface Refresh {
  readonly before: Map<Owner, ServedPort>;
  readonly after: Map<Owner, ServedPort>;
  readonly objections: string[];
}

/**
 * Keeps Services on the bridge in step with the API. What changed is looked at, nothing else: work grows with the change,
 * not with the number of Services.
 */
export class Services {
  readonly #options: ServicesOptions;
  readonly #groups = new GroupIdPool();
  /** Names of the slices of each Service. */
  readonly #slicesOf = new Map<string, Set<string>>();
  /** Which Service a slice was counted for; its label may change. */
  readonly #serviceOfSlice = new Map<string, string>();
  readonly #served = new Map<string, ReadonlyMap<Owner, ServedPort>>();
  /** Which Service ports lead to an endpoint. */
  readonly #users = new Map<Owner, Set<Owner>>();
  /** By `namespace/name`. */
  readonly objections: Objections;

  constructor(options: ServicesOptions) {
    this.#options = options;
    this.objections = new Objections('Service', options.log);
  }

  /** Serves what is known now and follows changes. @returns a function that ends it */
  follow(): () => void {
    const { services, slices } = this.#options;
    const names = new Set<string>();
    for (const [key] of slices.entries()) for (const name of this.#noteSlice(key)) names.add(name);
    for (const [key] of services.entries()) names.add(key);
    for (const name of [...names].toSorted()) this.#refresh(name);
    const endServices = services.subscribe((keys) => this.#refreshAll(keys));
    const endSlices = slices.subscribe((keys) => this.#refreshAll(new Set([...keys].flatMap((key) => this.#noteSlice(key)))));
    return () => {
      endServices();
      endSlices();
    };
  }

  /** After a change of what this node is: its families, and who has which address. */
  lookAgain(): void {
    const { services } = this.#options;
    this.#refreshAll(new Set([...services.entries()].map(([key]) => key)));
  }

  get count(): number {
    return this.#served.size;
  }

  /** Everybody who asks something of the bridge for a Service: its ports, and the endpoints they lead to. */
  ownersOf(key: string): { readonly ports: readonly Owner[]; readonly endpoints: ReadonlySet<Owner> } {
    const served = this.#served.get(key) ?? new Map<Owner, ServedPort>();
    return { ports: [...served.keys()], endpoints: new Set([...served.values()].flatMap(({ endpoints }) => [...endpoints])) };
  }

  #refreshAll(keys: ReadonlySet<string>): void {
    for (const key of keys) this.#refresh(key);
  }

  /** Notes which Service a slice belongs to now, and names those that are concerned: the one it had, and the one it has. */
  #noteSlice(key: string): string[] {
    const slice = this.#options.slices.get(key);
    const before = this.#serviceOfSlice.get(key);
    const after = slice && serviceKeyOf(slice);
    if (before !== undefined && before !== after) {
      const left = this.#slicesOf.get(before);
      left?.delete(key);
      if (left?.size === 0) this.#slicesOf.delete(before);
      this.#serviceOfSlice.delete(key);
    }
    if (after !== undefined) {
      this.#serviceOfSlice.set(key, after);
      this.#slicesOf.set(after, (this.#slicesOf.get(after) ?? new Set()).add(key));
    }
    return [...new Set([before, after])].filter((name) => name !== undefined);
  }

  #refresh(key: string): void {
    const { services, slices } = this.#options;
    const service = services.get(key);
    const ofService = [...(this.#slicesOf.get(key) ?? [])].flatMap((name) => slices.get(name) ?? []);
    const all = service ? serviceIntents(service, ofService, this.#proxying()) : [];
    const objections = all.flatMap((intent) => intent.objections);
    const before = new Map(this.#served.get(key));
    const after = new Map<Owner, ServedPort>();
    for (const intent of all) {
      const addresses = intent.addresses.filter((address) => this.#mayServe(address, objections));
      if (addresses.length > 0) this.#serve(key, { ...intent, addresses }, { before, after, objections });
    }
    for (const [owner, port] of before) if (!after.has(owner)) this.#drop(owner, port);
    if (after.size === 0) this.#served.delete(key);
    else this.#served.set(key, after);
    this.objections.set(key, [...new Set(objections)]);
  }

  #proxying(): Proxying {
    const { proxying, families } = this.#options;
    return proxying ?? { ...clusterAddressesOnly, node: { ...clusterAddressesOnly.node, families } };
  }

  #mayServe({ kind, ip }: ServiceAddress, objections: string[]): boolean {
    const holder = kind === 'nodePort' ? undefined : this.#options.holderOf(ip);
    if (holder !== undefined) objections.push(`${ip.text} belongs to ${holder}`);
    return holder === undefined;
  }

  /** A port that makes no sense to the compilers is left out, and said; it must not end the agent, which serves all others. */
  #serve(key: string, intent: ServiceIntent, { before, after, objections }: Refresh): void {
    const owner = ownerOf('service', `${key}:${intent.name}`);
    const known = before.get(owner);
    const groups = new Map<string, number>();
    const groupId = (name: string): number => {
      const id = groups.get(name) ?? known?.groups.get(name) ?? this.#groups.lend(`${owner}#${name}`);
      groups.set(name, id);
      return id;
    };
    const endpoints = new Set(reachableEndpoints(intent).map((endpoint) => this.#useEndpoint(owner, intent.transport, endpoint)));
    try {
      const wanted = compileService(intent, { owner, node: this.#proxying().node, groupId });
      this.#giveBack(this.#options.datapath.want(owner, { ...wanted, routes: this.#routes(intent) }), unused(known?.groups, groups));
    } catch (thrown) {
      objections.push(SeineError.from(thrown, `port ${intent.port}`).message);
      before.delete(owner);
      this.#drop(owner, {
        groups: new Map([...(known?.groups ?? []), ...groups]),
        endpoints: new Set([...endpoints, ...(known?.endpoints ?? [])]),
      });
      return;
    }
    for (const endpoint of known?.endpoints ?? []) if (!endpoints.has(endpoint)) this.#leaveEndpoint(owner, endpoint);
    after.set(owner, { groups, endpoints });
  }

  #routes({ addresses }: ServiceIntent): readonly Route[] {
    const { routedFamilies, gateway } = this.#options;
    return addresses
      .filter(({ kind, ip: { family } }) => kind === 'cluster' && !routedFamilies.includes(family))
      .map(({ ip: { family, text } }) => ({
        destination: parseCidr(`${text}/${family === 'ipv4' ? 32 : 128}`),
        via: serviceNextHop[family],
        dev: gateway,
      }));
  }

  #drop(owner: Owner, { groups, endpoints }: ServedPort): void {
    const gone = this.#options.datapath.forget(owner);
    for (const endpoint of endpoints) this.#leaveEndpoint(owner, endpoint);
    this.#giveBack(gone, [...groups.values()]);
  }

  /** A number may be lent again only once no flow of the switch can lead to the old group. */
  #giveBack(gone: { readonly bridge: number }, groups: readonly number[]): void {
    if (groups.length === 0) return;
    const { datapath, signal } = this.#options;
    datapath.reconcilers.bridge.realized(gone.bridge, signal).then(
      () => {
        for (const id of groups) this.#groups.giveBack(id);
      },
      () => undefined, // the agent stops, and the pool with it
    );
  }

  #useEndpoint(user: Owner, transport: Transport, endpoint: Endpoint): Owner {
    const owner = ownerOf('endpoint', transport, endpoint.ip.text, String(endpoint.port));
    const users = this.#users.get(owner);
    if (users) users.add(user);
    else {
      this.#users.set(owner, new Set([user]));
      this.#options.datapath.want(owner, compileEndpoint(transport, endpoint));
    }
    return owner;
  }

  #leaveEndpoint(user: Owner, endpoint: Owner): void {
    const users = this.#users.get(endpoint);
    users?.delete(user);
    if (users?.size !== 0) return;
    this.#users.delete(endpoint);
    this.#options.datapath.forget(endpoint);
  }
}

function unused(before: ReadonlyMap<string, number> = new Map(), after: ReadonlyMap<string, number>): number[] {
  return [...before].flatMap(([name, id]) => (after.has(name) ? [] : [id]));
}

const clusterAddressesOnly: Proxying = {
  node: { name: '', families: [], sctp: false, addresses: [], gateway: [] },
  config: { proxyAll: false, skipServices: new Set(), proxyLoadBalancerIps: true, serviceProxyName: '', externalIpRanges: [] },
};
