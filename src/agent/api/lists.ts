import type { Entry } from '../../agent-api/entry.ts';
import { SeineError } from '../../errors/seine-error.ts';
import type { Peer } from '../../kube/peer-source.ts';
import { listLinks } from '../../netlink/links.ts';
import { features } from '../../pipeline/cookie.ts';
import { type TableName, tableName, tables } from '../../pipeline/tables.ts';
import type { Agent, RunningNode } from '../agent.ts';
import { type ApiAnswer, itemsAnswer } from './answer.ts';
import { bridgeDifferences, flowEntries, type Narrowed, numberedEntries, type Reading, readBridge, type Telling } from './bridge-view.ts';
import type { NodeSnapshot } from './holdings.ts';
import { firewallEntries, hostEntries, type InterfaceState, portEntries } from './node-entries.ts';
import { ownNodeView, peerView } from './node-view.ts';
import { ownersByCookie } from './owners.ts';
import { partsOf } from './parts.ts';
import { type PodSources, podName, podView } from './pod-view.ts';
import { serviceView } from './service-view.ts';

/** The lists that `seinectl get` shows. Each reads the node anew, and asks for one thing by `?name=`. */
type List = (agent: Agent, query: URLSearchParams, signal: AbortSignal) => Promise<ApiAnswer>;

/** Asked for by name, a pod is also looked into. */
export const pods: List = async (agent, query, signal) => {
  const { plane, sources } = agent;
  const node = running(agent);
  const isAskedFor = named(query);
  const leases = node.ipam.leases().filter((lease) => lease.state === 'allocated' && isAskedFor(podName(lease)));
  const common: PodSources = {
    parts: partsOf(plane.datapath),
    snapshot: await snapshotOf(agent, signal),
    links: new Map(listLinks(plane.host.socket, { kind: 'veth' }).map((link) => [link.name, link])),
    stateOf: interfaceStates(agent),
    ...(query.has('name') ? { check: async (lease) => (lease.attached ? node.network.check(lease, lease.attached, signal) : []) } : {}),
  };
  async function* views() {
    for (const lease of leases) yield await podView(lease, common);
  }
  return itemsAnswer(views(), sources.turns);
};

export const nodes: List = async (agent, query, signal) => {
  const { environment, peers } = running(agent);
  const isAskedFor = named(query);
  const [parts, snapshot] = [partsOf(agent.plane.datapath), await snapshotOf(agent, signal)];
  function* views() {
    const own = agent.config.nodeName;
    if (isAskedFor(own)) yield ownNodeView(own, environment, parts, snapshot);
    for (const peer of agent.peers.peers() as Iterable<Peer>)
      if (isAskedFor(peer.name)) yield peerView(peer, peers.objections.of(peer.name), parts, snapshot);
  }
  return itemsAnswer(views(), agent.sources.turns);
};

export const services: List = async (agent, query, signal) => {
  const node = running(agent);
  const isAskedFor = named(query);
  const [parts, snapshot] = [partsOf(agent.plane.datapath), await snapshotOf(agent, signal)];
  function* views() {
    for (const [key, service] of agent.sources.services.replica.entries())
      if (isAskedFor(key)) yield serviceView(service, node.services, parts, snapshot);
  }
  return itemsAnswer(views(), agent.sources.turns);
};

export const flows: List = async (agent, query, signal) => {
  const narrowed = narrowing(query);
  const snapshot = await readBridge({ ...reading(agent), ...narrowed, counters: 'kept' }, signal);
  return itemsAnswer(flowEntries(partsOf(agent.plane.datapath).bridge, snapshot, narrowed, await tellingOf(agent)), agent.sources.turns);
};

export const groups: List = async (agent, query, signal) => await numbered('group', agent, query, signal);

export const meters: List = async (agent, query, signal) => await numbered('meter', agent, query, signal);

async function numbered(kind: 'group' | 'meter', agent: Agent, query: URLSearchParams, signal: AbortSignal): Promise<ApiAnswer> {
  const snapshot = await readBridge(reading(agent), signal);
  const entries = numberedEntries(partsOf(agent.plane.datapath).bridge, snapshot, { kind, ...narrowing(query) }, await tellingOf(agent));
  return itemsAnswer(onlyNamed(entries, query), agent.sources.turns);
}

export const ports: List = async (agent, query, signal) => {
  const { datapath } = agent.plane;
  const held = await datapath.targets.switch.observe(patient(signal));
  return itemsAnswer(onlyNamed(portEntries(partsOf(datapath).switch, held, interfaceStates(agent)), query), agent.sources.turns);
};

/** Also the node's own addresses, neighbours and interface, as far as they are ours. */
export const routes: List = async (agent, query, signal) => {
  const { datapath } = agent.plane;
  const held = await datapath.targets.host.observe(signal);
  return itemsAnswer(onlyNamed(hostEntries(partsOf(datapath).host, held), query), agent.sources.turns);
};

/** Everything that is not as wanted, over all parts of the node. */
export async function differences(agent: Agent, signal: AbortSignal): Promise<ApiAnswer> {
  return itemsAnswer(await differingEntries(agent, signal), agent.sources.turns);
}

/** The same, read from the node now. @throws SeineError `UNAVAILABLE` if a part cannot be read */
export async function differingEntries(agent: Agent, signal: AbortSignal): Promise<AsyncIterable<Entry>> {
  const { datapath } = agent.plane;
  const { targets } = datapath;
  const parts = partsOf(datapath);
  const switchHeld = await targets.switch.observe(patient(signal));
  const bridge = await readBridge(reading(agent), signal);
  const [host, firewall] = [await targets.host.observe(signal), await targets.firewall.observe(signal)];
  const telling = await tellingOf(agent);
  async function* entries(): AsyncGenerator<Entry> {
    yield* unlike(portEntries(parts.switch, switchHeld, interfaceStates(agent)));
    yield* bridgeDifferences(parts.bridge, bridge, telling);
    yield* unlike(hostEntries(parts.host, host));
    yield* unlike(firewallEntries(parts.firewall, firewall));
  }
  return entries();
}

/** Tunnel packets that the switch has counted by where they come from, by whoever wants them let in: `peer/NAME`. */
export async function packetsFrom(agent: Agent, owners: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, bigint>> {
  const { counted } = await readBridge({ ...reading(agent), table: 'classify', counters: 'kept' }, signal);
  const { bridge } = agent.plane.datapath;
  const sums = new Map<string, bigint>(owners.map((owner) => [owner, 0n]));
  for (const [key, { packets }] of counted)
    for (const owner of bridge.ownersOf(key)) if (sums.has(owner)) sums.set(owner, (sums.get(owner) ?? 0n) + packets);
  return sums;
}

/** `{"items": [{"cookie": "0x…", "owner": "…"}, …]}`: everybody who wants flows now. */
export async function owners(agent: Agent): Promise<ApiAnswer> {
  const { sources, plane } = agent;
  const byCookie = await ownersByCookie(plane.datapath.bridge.owners(), sources.turns);
  function* entries() {
    for (const [cookie, owner] of byCookie) yield { cookie: `0x${cookie.toString(16)}`, owner };
  }
  return itemsAnswer(entries(), sources.turns);
}

/** The node, once it is known. @throws SeineError `UNAVAILABLE` before that, saying what is missing */
export function running(agent: Agent): RunningNode {
  const node = agent.node();
  if (node) return node;
  const state = agent.readiness.state();
  throw new SeineError('UNAVAILABLE', state.state === 'ready' ? 'the node is not known yet' : state.reason);
}

async function snapshotOf(agent: Agent, signal: AbortSignal): Promise<NodeSnapshot> {
  const { held } = await readBridge(reading(agent), signal);
  return { bridge: held, host: await agent.plane.datapath.targets.host.observe(signal) };
}

/** What is read of the bridge where nobody asks for less. */
export function reading({ plane }: Agent): Reading {
  return { reader: plane.openflow, desired: plane.datapath.bridge, counters: 'dropped' };
}

/** A database that is away must not hold up who asks for ever. */
function patient(signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(2_000)]);
}

/** What ovs-vswitchd made of each interface, by name. */
export function interfaceStates({ plane: { database } }: Agent): (name: string) => InterfaceState | undefined {
  return (name) => {
    const row = database.tables.Interface.find('name', name);
    return row && { ofPort: row.ofport, error: row.error };
  };
}

/** Names of tables and ports as `ovs-ofctl --names` writes them, and who is behind a cookie. */
async function tellingOf({ plane, sources }: Agent): Promise<Telling> {
  const ports = new Map<number, string>();
  for (const { name, ofport } of plane.database.tables.Interface.rows())
    if (ofport !== undefined && ofport >= 0) ports.set(ofport, quoted(name));
  const byCookie = await ownersByCookie(plane.datapath.bridge.owners(), sources.turns);
  const words = { names: { table: tableName, port: (port: number) => ports.get(port) }, ownerOf: (cookie: bigint) => byCookie.get(cookie) };
  return { words, turns: sources.turns };
}

/** The tools quote what is not plainly a word. */
function quoted(name: string): string {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : JSON.stringify(name);
}

function narrowing(query: URLSearchParams): Narrowed {
  const [table, owner] = [query.get('table'), askedOwner(query)];
  return { ...(table === null ? {} : { table: tableOf(table) }), ...(owner === undefined ? {} : { owner }) };
}

/** @throws SeineError `INVALID_INPUT` for what nobody can be called */
function askedOwner(query: URLSearchParams): string | undefined {
  const owner = query.get('owner') ?? undefined;
  if (owner !== undefined && !Object.hasOwn(features, owner.split('/', 1)[0] ?? ''))
    throw new SeineError('INVALID_INPUT', `no owner ${JSON.stringify(owner)}; owners begin with ${Object.keys(features).join(', ')}`);
  return owner;
}

/** By name or number. @throws SeineError `INVALID_INPUT` */
function tableOf(text: string): TableName {
  const name = /^\d{1,3}$/.test(text) ? tableName(Number(text)) : Object.keys(tables).find((each) => each === text);
  if (name === undefined)
    throw new SeineError('INVALID_INPUT', `no table ${JSON.stringify(text)}; there is ${Object.keys(tables).join(', ')}`);
  return name as TableName;
}

function named(query: URLSearchParams): (name: string) => boolean {
  const name = query.get('name');
  return (each) => name === null || each === name;
}

/** @throws SeineError `INVALID_INPUT` at once, while the answer can still say so */
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

function* unlike(entries: Iterable<Entry>): Generator<Entry> {
  for (const entry of entries) if (entry.state !== 'ok') yield entry;
}
