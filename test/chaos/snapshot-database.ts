import { join } from 'node:path';
import { type Place, run } from './host.ts';

/** Columns with configured values; counters and state of `ovs-vswitchd` are omitted. */
const columns = {
  Open_vSwitch: ['other_config', 'external_ids', 'bridges', 'manager_options', 'ssl'],
  Bridge: [
    ...[
      'name',
      'ports',
      'flow_tables',
      'controller',
      'mirrors',
      'netflow',
      'sflow',
      'ipfix',
      'auto_attach',
      'external_ids',
      'other_config',
    ],
    ...['datapath_type', 'fail_mode', 'protocols', 'stp_enable', 'rstp_enable', 'mcast_snooping_enable', 'flood_vlans'],
  ],
  Flow_Table: ['name', 'flow_limit', 'overflow_policy', 'groups', 'prefixes', 'external_ids'],
  Port: [
    ...['name', 'interfaces', 'external_ids', 'other_config', 'tag', 'trunks', 'cvlans', 'vlan_mode', 'qos', 'mac', 'protected'],
    ...['bond_mode', 'bond_fake_iface', 'fake_bridge', 'lacp'],
  ],
  Interface: [
    ...[
      'name',
      'type',
      'options',
      'ofport',
      'ofport_request',
      'mac',
      'mtu_request',
      'external_ids',
      'other_config',
      'lldp',
      'bfd',
      'cfm_mpid',
    ],
    ...['ingress_policing_rate', 'ingress_policing_burst', 'ingress_policing_kpkts_rate', 'ingress_policing_kpkts_burst', 'admin_state'],
  ],
} as const;

type Atom = string | number | boolean | readonly ['uuid', string];
type Datum = Atom | readonly ['set', readonly Atom[]] | readonly ['map', readonly (readonly [Atom, Atom])[]];
type Row = Readonly<Record<string, Datum>>;

/** A line for each row, with names of other rows in place of UUIDs. Source of the notation: RFC 7047, section 5.1. */
export async function databaseLines({ rundir }: Place): Promise<string[]> {
  const tables = Object.entries(columns);
  const selects = tables.map(([table, wanted]) => ({ op: 'select', table, where: [], columns: ['_uuid', ...wanted] }));
  const asked = JSON.stringify(['Open_vSwitch', ...selects]);
  const answered = await run('ovsdb-client', ['transact', `unix:${join(rundir, 'db.sock')}`, asked]);
  const rows = (JSON.parse(answered) as { rows: Row[] }[]).map((each) => each.rows);
  const names = new Map(rows.flat().flatMap((row) => (typeof row['name'] === 'string' ? [[uuidOf(row), row['name']] as const] : [])));
  return tables.flatMap(([table, wanted], index) =>
    (rows[index] ?? []).map((row) => `${table} ${wanted.map((column) => `${column}=${printed(row[column] ?? '', names)}`).join(' ')}`),
  );
}

function uuidOf(row: Row): string {
  const uuid = row['_uuid'];
  return Array.isArray(uuid) ? String(uuid[1]) : '';
}

function printed(datum: Datum, names: ReadonlyMap<string, string>): string {
  const atom = (value: Atom): string => (Array.isArray(value) ? (names.get(String(value[1])) ?? 'a row') : String(value));
  if (!Array.isArray(datum) || datum[0] === 'uuid') return atom(datum as Atom);
  if (datum[0] === 'set') return `[${(datum[1] as readonly Atom[]).map(atom).toSorted().join(',')}]`;
  const pairs = datum[1] as readonly (readonly [Atom, Atom])[];
  return `{${pairs
    .map(([key, value]) => `${atom(key)}:${atom(value)}`)
    .toSorted()
    .join(',')}}`;
}
