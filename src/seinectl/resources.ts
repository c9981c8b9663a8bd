import type { Entry, EntryState, FlowEntry, PortEntry } from '../api/entry.ts';
import type { NodeView, ObjectView, PeerModeView, PodView, ServiceView, WireGuardPeerView } from '../api/object.ts';
import type { Tone } from './paint.ts';
import type { TableColumn } from './table.ts';
import { bitsText, count, duration, failureText, ownersText } from './words.ts';

/** Type of an item of each resource. */
export interface ResourceItems {
  readonly pods: PodView;
  readonly nodes: NodeView;
  readonly services: ServiceView;
  readonly flows: FlowEntry;
  readonly groups: Entry;
  readonly meters: Entry;
  readonly ports: PortEntry;
  readonly routes: Entry;
}

export type ResourceName = keyof ResourceItems;

export interface ResourceListing<T> {
  readonly about: string;
  /** Set if names are `NAMESPACE/NAME`. */
  readonly namespaced: boolean;
  readonly columns: readonly TableColumn<T>[];
  /** Sort key of items. */
  readonly order: (item: T) => readonly (string | number)[];
}

const tones: Readonly<Record<EntryState | 'idle', Tone>> = {
  ok: 'good',
  missing: 'bad',
  changed: 'bad',
  extra: 'warning',
  learned: 'quiet',
  idle: 'quiet',
};

const stateColumn = {
  title: 'STATE',
  of: ({ state }: Pick<Entry, 'state'> | Pick<ObjectView, 'state'>) => state,
  tone: ({ state }: Pick<Entry, 'state'> | Pick<ObjectView, 'state'>) => tones[state],
} as const;

const ownersColumn: TableColumn<Pick<Entry, 'owners' | 'state'>> = {
  title: 'OWNER',
  of: ({ owners, state }) => (owners.length > 0 ? ownersText(owners, 1) : state === 'learned' ? '(OVS)' : '(none)'),
  flexible: true,
};

const errorColumn: TableColumn<Pick<Entry, 'error'>> = {
  title: 'ERROR',
  of: ({ error }) => failureText(error),
  tone: () => 'bad',
  flexible: true,
};

/** Problem of an object, the likely cause first. */
const problemColumn: TableColumn<ObjectView> = {
  title: 'PROBLEM',
  of: ({ differences, error }) => [failureText(error), ...differences].filter((text) => text !== '').join('; '),
  tone: () => 'bad',
  flexible: true,
};

const flowsColumn: TableColumn<ObjectView> = { title: 'FLOWS', of: ({ flows }) => `${flows.held}/${flows.wanted}`, align: 'right' };

const pods: ResourceListing<PodView> = {
  about: 'pods of this node: addresses, ports, present flows. For a single pod its namespace is inspected as well',
  namespaced: true,
  order: ({ name }) => [name],
  columns: [
    { title: 'POD', of: ({ name }) => (name.length > 60 && !name.includes('/') ? `${name.slice(0, 12)}…` : name) },
    stateColumn,
    { title: 'ADDRESSES', of: ({ addresses }) => addresses.join(' ') },
    { title: 'INTERFACE', of: ({ hostInterface }) => hostInterface },
    { title: 'OFPORT', of: ({ ofPort }) => (ofPort === null ? '-' : String(ofPort)), align: 'right' },
    flowsColumn,
    { title: 'LINK', of: ({ link }) => link, tone: ({ link }) => (link === 'up' ? undefined : 'bad'), wide: true },
    { title: 'MTU', of: ({ mtu }) => (mtu === null ? '-' : String(mtu)), wide: true, align: 'right' },
    { title: 'SENDS', of: ({ egress }) => (egress === null ? '-' : `${bitsText(egress.rate)}/s`), wide: true, align: 'right' },
    { title: 'RECEIVES', of: ({ ingress = null }) => (ingress === null ? '-' : `${bitsText(ingress.rate)}/s`), wide: true, align: 'right' },
    { title: 'HOST PORTS', of: ({ hostPorts = [] }) => hostPorts.join(', ') || '-', wide: true },
    { title: 'MAC', of: ({ mac }) => mac, wide: true },
    { title: 'CONTAINER', of: ({ containerId }) => containerId.slice(0, 12), wide: true },
    { title: 'NAMESPACE PATH', of: ({ netns }) => netns, wide: true },
    problemColumn,
  ],
};

const nodes: ResourceListing<NodeView> = {
  about: 'this node and its peers: pod CIDRs, tunnel ends, present entries',
  namespaced: false,
  order: ({ role, name }) => [role === 'self' ? 0 : 1, name],
  columns: [
    { title: 'NODE', of: ({ name, role }) => (role === 'self' ? `${name} (this)` : name) },
    stateColumn,
    { title: 'POD CIDRS', of: ({ podCidrs }) => podCidrs.join(' ') },
    { title: 'TUNNEL ENDS', of: ({ transport }) => transport.join(' ') },
    flowsColumn,
    { title: 'ROUTES', of: ({ host }) => `${host.held}/${host.wanted}`, align: 'right' },
    { title: 'WIREGUARD', of: ({ wireGuard, role }) => (wireGuard ? keyText(wireGuard, role) : '-'), wide: true },
    { title: 'SENDS BY', of: ({ modes = [] }) => modes.map(modeText).join('; ') || '-', wide: true },
    problemColumn,
  ],
};

/** Returns how the node sends to a peer, such as `ipv4 direct since 2026-11-29T12:00:00Z (the peer is on the link)`. */
function modeText({ family, mode, reason, since }: PeerModeView): string {
  return `${family} ${mode} since ${since.slice(0, 19)}Z (${reason})`;
}

/** Returns the beginning of a node's key and the age of the handshake, such as `Zm9vYmFy handshake 12 s ago`. */
function keyText({ publicKey, handshakeSeconds }: WireGuardPeerView, role: NodeView['role']): string {
  const key = publicKey.slice(0, 8);
  if (role === 'self') return key;
  return `${key} ${handshakeSeconds === null ? 'no handshake' : `handshake ${handshakeSeconds} s ago`}`;
}

const services: ResourceListing<ServiceView> = {
  about: 'Services as this node serves them, and parts of them that it does not serve',
  namespaced: true,
  order: ({ name }) => [name],
  columns: [
    { title: 'SERVICE', of: ({ name }) => name },
    stateColumn,
    { title: 'TYPE', of: ({ type }) => type },
    { title: 'ADDRESSES', of: ({ addresses, clusterIps }) => (addresses.length > 0 ? addresses : clusterIps).join(' ') },
    { title: 'PORTS', of: ({ ports }) => ports.join(' ') },
    { title: 'ENDPOINTS', of: ({ endpoints }) => String(endpoints), align: 'right' },
    { title: 'UNUSED', of: ({ unused }) => unused.map(({ why, count: number }) => `${number} ${why}`).join('; '), flexible: true },
    { title: 'GROUPS', of: ({ groups }) => groups.join(' '), wide: true },
    flowsColumn,
    { title: 'CHANGED', of: ({ lastChange }) => (lastChange === null ? '-' : lastChange.replace(/\.\d+Z$/, 'Z')), wide: true },
    { title: 'TOOK', of: ({ programmedMs }) => (programmedMs === null ? '-' : `${programmedMs} ms`), align: 'right' },
    { title: 'NOT SERVED', of: ({ notServed }) => notServed.join('; '), tone: () => 'warning', flexible: true },
    problemColumn,
  ],
};

const flows: ResourceListing<FlowEntry> = {
  about: 'flows of the bridge, in the syntax of ovs-ofctl, with their owners',
  namespaced: false,
  order: ({ table, priority, name }) => [table, -priority, name],
  columns: [
    { title: 'TABLE', of: ({ table }) => table },
    stateColumn,
    { title: 'PACKETS', of: ({ packets }) => packets ?? '-', align: 'right' },
    { title: 'BYTES', of: ({ bytes }) => bytes ?? '-', align: 'right', wide: true },
    { title: 'AGE', of: ({ ageSeconds }) => (ageSeconds === null ? '-' : duration(ageSeconds)), wide: true },
    ownersColumn,
    { title: 'FLOW', of: ({ wanted, actual }) => withoutPreamble(wanted ?? actual ?? ''), flexible: true },
    errorColumn,
  ],
};

/** Cookie and table have columns of their own, or are for `-o wide` and JSON. */
function withoutPreamble(text: string): string {
  return text.replace(/^(?:cookie=\S+ )?(?:table=\S+ )?/, '');
}

const groups: ResourceListing<Entry> = {
  about: 'groups of the bridge: one for each port of a Service, with a bucket for each endpoint',
  namespaced: false,
  order: ({ owners, name }) => [owners[0] ?? '', Number(name)],
  columns: [
    { title: 'GROUP', of: ({ name }) => name, align: 'right' },
    stateColumn,
    { title: 'BUCKETS', of: ({ wanted, actual }) => String((wanted ?? actual ?? '').split('bucket=').length - 1), align: 'right' },
    ownersColumn,
    { title: 'TEXT', of: ({ wanted, actual }) => wanted ?? actual ?? '', wide: true, flexible: true },
    errorColumn,
  ],
};

const meters: ResourceListing<Entry> = {
  about: 'meters of the bridge: one for each pod with an egress limit',
  namespaced: false,
  order: ({ owners, name }) => [owners[0] ?? '', Number(name)],
  columns: [
    { title: 'METER', of: ({ name }) => name, align: 'right' },
    stateColumn,
    ownersColumn,
    { title: 'TEXT', of: ({ wanted, actual }) => wanted ?? actual ?? '', flexible: true },
    errorColumn,
  ],
};

const ports: ResourceListing<PortEntry> = {
  about: 'ports of the bridge in OVSDB, with their OpenFlow numbers',
  namespaced: false,
  order: ({ kind, name }) => [kind, name],
  columns: [
    { title: 'PORT', of: ({ name }) => name },
    stateColumn,
    { title: 'KIND', of: ({ kind, type }) => (kind === 'bridge' ? 'bridge' : type || 'pod') },
    { title: 'OFPORT', of: ({ ofPort }) => (ofPort === null ? '-' : String(ofPort)), align: 'right' },
    { title: 'WANTED', of: ({ wantedOfPort }) => (wantedOfPort === null ? '-' : String(wantedOfPort)), align: 'right' },
    ownersColumn,
    { title: 'ROW', of: ({ actual, wanted }) => actual ?? wanted ?? '', wide: true, flexible: true },
    errorColumn,
  ],
};

const routes: ResourceListing<Entry> = {
  about: 'routes, rules, addresses, neighbours and interfaces of the node that Seine manages, in the syntax of ip',
  namespaced: false,
  order: ({ kind, name }) => [kind, name],
  columns: [
    stateColumn,
    { title: 'WANTED', of: ({ wanted, actual }) => wanted ?? `(nothing; there is ${actual ?? 'nothing'})` },
    { title: 'ACTUAL', of: ({ actual, state }) => (state === 'ok' || state === 'extra' ? '' : (actual ?? '(missing)')), tone: () => 'bad' },
    ownersColumn,
    errorColumn,
  ],
};

export const resources: { readonly [N in ResourceName]: ResourceListing<ResourceItems[N]> } = {
  pods,
  nodes,
  services,
  flows,
  groups,
  meters,
  ports,
  routes,
};

/** `12 flows: 11 ok, 1 missing`, for the line below a table with problems. */
export function summary(name: string, items: readonly { readonly state: string }[]): string {
  const states = Object.entries(Object.groupBy(items, ({ state }) => state)).map(([state, all]) => `${all?.length ?? 0} ${state}`);
  return `${count(items.length, name.replace(/s$/, ''), name)}: ${states.join(', ')}`;
}

/** Sorts items in the order of their resource; the agent returns them in any order. */
export function sorted<T>(items: readonly T[], order: (item: T) => readonly (string | number)[]): T[] {
  return items
    .map((item) => ({ item, by: order(item) }))
    .toSorted((a, b) => comparePlaces(a.by, b.by))
    .map(({ item }) => item);
}

function comparePlaces(a: readonly (string | number)[], b: readonly (string | number)[]): number {
  for (const [at, left] of a.entries()) {
    const right = b[at];
    if (left === right || right === undefined) continue;
    return left < right ? -1 : 1;
  }
  return 0;
}
