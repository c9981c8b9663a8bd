import type { Entry } from '../../api/entry.ts';
import type { NodeView, WireGuardPeerView } from '../../api/object.ts';
import type { LoopTurns } from '../../base/async/loop-turns.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { features } from '../../dataplane/pipeline/cookie.ts';
import { type PipelineTableName, tableName, tableNames } from '../../dataplane/pipeline/tables.ts';
import type { Peer, PeerSource } from '../../kubernetes/resources/peer-source.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import { listLinks } from '../../netlink/links.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';
import type { WireGuardPublicKey } from '../../netlink/wireguard/wireguard-key.ts';
import type { Ipam } from '../../pods/ipam/ipam.ts';
import { podName } from '../../pods/ipam/lease.ts';
import type { BridgeFilter } from '../diagnose/entries/bridge-entries.ts';
import type { NodeReader } from '../diagnose/entries/node-reader.ts';
import type { WireGuardReader } from '../diagnose/entries/wireguard-reader.ts';
import { type ApiAnswer, itemsAnswer } from './answer.ts';
import { ownNodeView, peerView } from './views/node-view.ts';
import { type PodChecker, type PodSources, podView } from './views/pod-view.ts';
import { type ServiceSources, serviceView } from './views/service-view.ts';

/** Lists of entries of the node, read for each request. */
export interface EntryListPort {
  readonly reader: NodeReader;
  readonly turns: LoopTurns;
}

export interface PodListPort extends EntryListPort {
  readonly host: { readonly socket: NetlinkSocket };
  /** @throws SeineError `UNAVAILABLE` until the node is known, here and below */
  readonly running: () => { readonly ipam: Pick<Ipam, 'leases'>; readonly network: PodChecker };
}

export interface NodeListPort extends EntryListPort {
  readonly config: { readonly nodeName: string };
  readonly peers: Pick<PeerSource, 'peers'>;
  readonly wireGuard: Pick<WireGuardReader, 'peers'>;
  /** Undefined until the node is known. */
  readonly encryption: () =>
    | { readonly publicKey: string | undefined; readonly peers: { nodeOf(key: WireGuardPublicKey): string | undefined } }
    | undefined;
  readonly running: () => {
    readonly environment: NodeEnvironment;
    readonly peers: { readonly objections: { of(name: string): readonly string[] }; modesOf(name: string): NonNullable<NodeView['modes']> };
  };
}

export interface ServiceListPort extends EntryListPort {
  readonly sources: { readonly services: { readonly replica: { entries(): Iterable<readonly [string, Service]> } } };
  readonly running: () => { readonly services: ServiceSources };
}

/** Handler of `GET /v1/LIST`; `?name=` selects one object. */
type List<Port> = (port: Port, query: URLSearchParams, signal: AbortSignal) => Promise<ApiAnswer>;

/** A pod that is selected by name is also inspected inside. */
export const pods: List<PodListPort> = async ({ reader, turns, host, running }, query, signal) => {
  const { ipam, network } = running();
  const isAskedFor = named(query);
  const leases = ipam.leases().filter((lease) => lease.state === 'allocated' && isAskedFor(podName(lease)));
  const common: PodSources = {
    parts: reader.parts,
    snapshot: await reader.snapshot(signal),
    links: new Map(listLinks(host.socket, { kind: 'veth' }).map((link) => [link.name, link])),
    stateOf: (name) => reader.interfaceState(name),
    ...(query.has('name') ? { check: async (lease) => (lease.attached ? network.check(lease, lease.attached, signal) : []) } : {}),
  };
  async function* views() {
    for (const lease of leases) yield await podView(lease, common);
  }
  return itemsAnswer(views(), turns);
};

export const nodes: List<NodeListPort> = async (port, query, signal) => {
  const { reader, turns, config, peers: source, running } = port;
  const { environment, peers } = running();
  const isAskedFor = named(query);
  const [parts, snapshot] = [reader.parts, await reader.snapshot(signal)];
  const keys = await wireGuardPeers(port, signal);
  function* views() {
    const own = config.nodeName;
    if (isAskedFor(own)) yield ownNodeView(own, { environment, publicKey: port.encryption()?.publicKey }, parts, snapshot);
    for (const peer of source.peers() as Iterable<Peer>)
      if (isAskedFor(peer.name)) yield peerView(peer, aboutPeer(peer.name), parts, snapshot);
  }
  const aboutPeer = (name: string) => {
    const wireGuard = keys.get(name);
    return { objections: peers.objections.of(name), modes: peers.modesOf(name), ...(wireGuard && { wireGuard }) };
  };
  return itemsAnswer(views(), turns);
};

/** Returns peers of the WireGuard device by the name of the node that has the key. */
async function wireGuardPeers({ wireGuard, encryption }: NodeListPort, signal: AbortSignal): Promise<Map<string, WireGuardPeerView>> {
  const now = Date.now();
  const found = new Map<string, WireGuardPeerView>();
  for (const { publicKey, handshakeAt } of await wireGuard.peers(signal)) {
    const name = encryption()?.peers.nodeOf(publicKey);
    const handshakeSeconds = handshakeAt === undefined ? null : Math.max(0, Math.round((now - handshakeAt) / 1_000));
    if (name !== undefined) found.set(name, { publicKey, handshakeSeconds });
  }
  return found;
}

export const services: List<ServiceListPort> = async ({ reader, turns, sources, running }, query, signal) => {
  const served = running().services;
  const isAskedFor = named(query);
  const [parts, snapshot] = [reader.parts, await reader.snapshot(signal)];
  function* views() {
    for (const [key, service] of sources.services.replica.entries())
      if (isAskedFor(key)) yield serviceView(service, served, parts, snapshot);
  }
  return itemsAnswer(views(), turns);
};

export const flows: List<EntryListPort> = async ({ reader, turns }, query, signal) =>
  itemsAnswer(await reader.flows(narrowing(query), signal), turns);

export const groups: List<EntryListPort> = async (port, query, signal) => await numbered('group', port, query, signal);

export const meters: List<EntryListPort> = async (port, query, signal) => await numbered('meter', port, query, signal);

async function numbered(
  kind: 'group' | 'meter',
  { reader, turns }: EntryListPort,
  query: URLSearchParams,
  signal: AbortSignal,
): Promise<ApiAnswer> {
  return itemsAnswer(onlyNamed(await reader.numbered(kind, narrowing(query), signal), query), turns);
}

export const ports: List<EntryListPort> = async ({ reader, turns }, query, signal) =>
  itemsAnswer(onlyNamed(await reader.ports(signal), query), turns);

/** Includes the node's own addresses, neighbours and interface that Seine creates. */
export const routes: List<EntryListPort> = async ({ reader, turns }, query, signal) =>
  itemsAnswer(onlyNamed(await reader.routes(signal), query), turns);

/** Lists every entry that is not in sync, over all targets of the node. */
export async function differences({ reader, turns }: EntryListPort, signal: AbortSignal): Promise<ApiAnswer> {
  return itemsAnswer(await reader.differences(signal), turns);
}

/** `{"items": [{"cookie": "0x…", "owner": "…"}, …]}`: all owners of flows. */
export async function owners({ reader, turns }: EntryListPort): Promise<ApiAnswer> {
  const byCookie = await reader.ownersByCookie();
  function* entries() {
    for (const [cookie, owner] of byCookie) yield { cookie: `0x${cookie.toString(16)}`, owner };
  }
  return itemsAnswer(entries(), turns);
}

function narrowing(query: URLSearchParams): BridgeFilter {
  const [table, owner] = [query.get('table'), askedOwner(query)];
  return { ...(table === null ? {} : { table: tableOf(table) }), ...(owner === undefined ? {} : { owner }) };
}

/** @throws SeineError `INVALID_INPUT` for an invalid owner name */
function askedOwner(query: URLSearchParams): string | undefined {
  const owner = query.get('owner') ?? undefined;
  if (owner !== undefined && !Object.hasOwn(features, owner.split('/', 1)[0] ?? ''))
    throw new SeineError('INVALID_INPUT', `no owner ${JSON.stringify(owner)}; owners begin with ${Object.keys(features).join(', ')}`);
  return owner;
}

/** Parses a name or number. @throws SeineError `INVALID_INPUT` */
function tableOf(text: string): PipelineTableName {
  const name = /^\d{1,3}$/.test(text) ? tableName(Number(text)) : tableNames.find((each) => each === text);
  if (name === undefined) throw new SeineError('INVALID_INPUT', `no table ${JSON.stringify(text)}; there is ${tableNames.join(', ')}`);
  return name;
}

function named(query: URLSearchParams): (name: string) => boolean {
  const name = query.get('name');
  return (each) => name === null || each === name;
}

/** @throws SeineError `INVALID_INPUT` at once, while the answer's status can still be set */
function onlyNamed<E extends Entry>(entries: Iterable<E> | AsyncIterable<E>, query: URLSearchParams): AsyncGenerator<E> {
  const [isAskedFor, owner] = [named(query), askedOwner(query)];
  return only(
    entries,
    ({ name, owners: whose }) =>
      isAskedFor(name) && (owner === undefined || whose.some((each) => each === owner || each.startsWith(`${owner}/`))),
  );
}

async function* only<E>(entries: Iterable<E> | AsyncIterable<E>, isAskedFor: (entry: E) => boolean): AsyncGenerator<E> {
  for await (const entry of entries) if (isAskedFor(entry)) yield entry;
}
