import type { Entry, PortEntry } from '../../../api/entry.ts';
import { type FirewallKey, isTable } from '../../../dataplane/targets/host/firewall-target.ts';
import type { HostEntry, HostKey } from '../../../dataplane/targets/host/host-entry.ts';
import { type SettingKey, settingText } from '../../../dataplane/targets/host/setting-key.ts';
import type { LinkEntry, LinkKey } from '../../../dataplane/targets/links/link-entry.ts';
import type { SwitchEntry, SwitchKey } from '../../../dataplane/targets/switch/switch-entry.ts';
import { type Compared, compare, type ReconciledTarget } from './compare.ts';

/** State of an interface in ovs-vswitchd. */
export interface InterfaceState {
  readonly ofPort: number | undefined;
  readonly error: string | undefined;
}

export function* portEntries(
  part: ReconciledTarget<SwitchKey, SwitchEntry>,
  held: ReadonlyMap<SwitchKey, SwitchEntry>,
  stateOf: (name: string) => InterfaceState | undefined,
): Generator<PortEntry> {
  for (const each of compare(part, held)) yield portEntry(each, stateOf);
}

function portEntry(each: Compared<SwitchKey, SwitchEntry>, stateOf: (name: string) => InterfaceState | undefined): PortEntry {
  const { key, owners, wanted, actual, error } = each;
  const port = wanted?.kind === 'port' ? wanted.port : actual?.kind === 'port' ? actual.port : undefined;
  const name = port?.name ?? (wanted?.kind === 'bridge' ? wanted.bridge.name : key);
  const link = port && stateOf(port.name);
  const [ofPort, trouble] = [link?.ofPort, link?.error];
  const misplaced = each.state === 'ok' && port !== undefined && ofPort !== port.ofPort;
  const why = error ?? (trouble ? { message: `ovs-vswitchd: ${trouble}` } : undefined);
  return {
    kind: port ? 'port' : 'bridge',
    name,
    state: misplaced ? 'changed' : each.state,
    owners,
    type: port?.type ?? '',
    wantedOfPort: wanted?.kind === 'port' ? wanted.port.ofPort : null,
    // ovs-vswitchd.conf.db(5) Interface "ofport": -1 for an interface that could not be opened.
    ofPort: ofPort === undefined || ofPort < 0 ? null : ofPort,
    wanted: wanted ? switchText(wanted) : null,
    actual: actual ? switchText(actual) + (misplaced ? ` ofport=${ofPort ?? 'none'}` : '') : null,
    ...(why ? { error: why } : {}),
  };
}

/** Columns in the syntax of ovs-vsctl. */
function switchText(entry: SwitchEntry): string {
  const foreign = entry.foreign === undefined ? [] : [entry.foreign];
  if (entry.kind === 'bridge') {
    const { name, datapathType, tableNames } = entry.bridge;
    return ['bridge', name, `datapath_type=${datapathType}`, `tables=${tableNames.size}`, ...foreign].join(' ');
  }
  const { name, type, ofPort, options, externalIds, mac, mtu } = entry.port;
  const columns = [
    ...(type === '' ? [] : [`type=${type}`]),
    `ofport_request=${ofPort}`,
    ...(mac === undefined ? [] : [`mac="${mac}"`]),
    ...(mtu === undefined ? [] : [`mtu_request=${mtu}`]),
    ...mapColumn('options', options),
    ...mapColumn('external_ids', externalIds),
  ];
  return ['port', name, ...columns, ...foreign].join(' ');
}

function mapColumn(column: string, values: Readonly<Record<string, string>>): string[] {
  return Object.entries(values)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${column}:${key}=${JSON.stringify(value)}`);
}

export function* hostEntries(part: ReconciledTarget<HostKey, HostEntry>, held: ReadonlyMap<HostKey, HostEntry>): Generator<Entry> {
  for (const { key, state, owners, wanted, actual, error } of compare(part, held)) {
    const { kind } = wanted ?? actual ?? {};
    if (kind === undefined) continue;
    yield {
      kind,
      name: key.slice(kind.length + 1),
      state,
      owners,
      wanted: wanted ? hostText(wanted) : null,
      actual: actual ? hostText(actual) : null,
      ...(error ? { error } : {}),
    };
  }
}

/** Text in the syntax of ip(8). */
function hostText(entry: HostEntry): string {
  switch (entry.kind) {
    case 'link':
      return `link ${entry.link.name} up mtu ${entry.link.mtu}`;
    case 'address':
      return `addr ${entry.address.ip.text}/${entry.address.prefixLength} dev ${entry.address.dev}`;
    case 'neighbour':
      return `neigh ${entry.neighbour.ip.text} dev ${entry.neighbour.dev} lladdr ${entry.neighbour.mac} nud permanent`;
    case 'route': {
      const { destination, via, dev, src, table } = entry.route;
      const { place, details } = entry.foreign ?? {};
      const way = `${via ? ` via ${via.text}` : ''} dev ${dev}${via ? ' onlink' : ''}${src ? ` src ${src.text}` : ''}`;
      const own = table === undefined ? '' : ` table ${table}`;
      return `route ${destination.text}${way}${place ? ` table ${place.table} metric ${place.metric}` : own}${details ? ` ${details}` : ''}`;
    }
    case 'rule': {
      const { family, priority, table, mark } = entry.rule;
      const marked = mark === undefined ? '' : ` fwmark 0x${mark.toString(16)}/0x${mark.toString(16)}`;
      const more = entry.foreign === undefined ? '' : ' with further conditions';
      return `${family === 'ipv6' ? '-6 ' : ''}rule from all${marked} lookup ${table} priority ${priority}${more}`;
    }
  }
}

export function* firewallEntries(part: ReconciledTarget<FirewallKey, string>, held: ReadonlyMap<FirewallKey, string>): Generator<Entry> {
  for (const { key, state, owners, wanted, actual, error } of compare(part, held)) {
    if (!isTable(key)) {
      const name = key.slice('element/'.length);
      const text = (value: string | undefined) => (value === undefined ? null : value === '' ? name : `${name} : ${value}`);
      yield { kind: 'firewall', name, state, owners, wanted: text(wanted), actual: text(actual), ...(error ? { error } : {}) };
      continue;
    }
    const name = key.slice('table/'.length);
    yield {
      kind: 'firewall',
      name,
      state,
      owners,
      wanted: wanted === undefined ? null : `table inet ${name} {\n${wanted}\n}`,
      // nft prints rules differently from their source; the target only knows whether they are the same.
      actual:
        actual === undefined
          ? null
          : state === 'ok'
            ? `table inet ${name} {\n${actual}\n}`
            : `table inet ${name}, changed since it was written`,
      ...(error ? { error } : {}),
    };
  }
}

/** Settings in the syntax of sysctl(8). */
export function* settingEntries(part: ReconciledTarget<SettingKey, string>, held: ReadonlyMap<SettingKey, string>): Generator<Entry> {
  for (const { key, state, owners, wanted, actual, error } of compare(part, held)) {
    const text = (value: string | undefined) => (value === undefined ? null : `${settingText(key)} = ${value}`);
    yield { kind: 'setting', name: key, state, owners, wanted: text(wanted), actual: text(actual), ...(error ? { error } : {}) };
  }
}

/** Pairs of interfaces of pods, by the node's end; similar to the syntax of ip(8). */
export function* interfaceEntries(part: ReconciledTarget<LinkKey, LinkEntry>, held: ReadonlyMap<LinkKey, LinkEntry>): Generator<Entry> {
  for (const { key, state, owners, wanted, actual, error } of compare(part, held)) {
    const name = key.slice('link/'.length);
    yield {
      kind: 'interface',
      name,
      state,
      owners,
      wanted: wanted?.link ? interfaceText(wanted.link) : null,
      actual:
        actual === undefined
          ? null
          : actual.differs.length > 0
            ? `interface ${name}: ${actual.differs.join(', ')}`
            : interfaceText(actual.link),
      ...(error ? { error } : {}),
    };
  }
}

function interfaceText(link: LinkEntry['link']): string | null {
  if (link === undefined) return null;
  const { hostName, podName, netnsPath, mac, mtu, alias } = link;
  return `interface ${hostName} up mtu ${mtu} alias ${JSON.stringify(alias)} peer ${podName} up mtu ${mtu} address ${mac} netns ${netnsPath}`;
}
