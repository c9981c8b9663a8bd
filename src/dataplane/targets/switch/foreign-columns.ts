import type { SwitchDatabase } from './switch-database.ts';

type SwitchRow<Table extends keyof SwitchDatabase['tables']> = NonNullable<ReturnType<SwitchDatabase['tables'][Table]['get']>>;
export type BridgeRow = SwitchRow<'Bridge'>;
export type PortRow = SwitchRow<'Port'>;
type PortInterfaceRow = SwitchRow<'Interface'>;
type FlowTableRow = SwitchRow<'Flow_Table'>;

/** Mark of Seine's rows: other rows on the bridge are ignored. */
export const ownerMark = { key: 'seine-owner', value: 'agent' } as const;
const protocols = ['OpenFlow10', 'OpenFlow13', 'OpenFlow14', 'OpenFlow15'] as const;
/** Options of the bridge. In-band control would add hidden flows of highest priority. */
export const otherConfig: ReadonlyMap<string, string> = new Map([['disable-in-band', 'true']]);

/** Defaults of every bridge of Seine's: other features that affect packets are off. Spanning trees would block ports. */
export const bridgeDefaults = { fail_mode: 'secure', protocols, controller: [], stp_enable: false, rstp_enable: false } as const;
/** Defaults of every interface of Seine's: only flows drop packets. */
export const interfaceDefaults = {
  ingress_policing_rate: 0n,
  ingress_policing_burst: 0n,
  ingress_policing_kpkts_rate: 0n,
  ingress_policing_kpkts_burst: 0n,
} as const;

/** Returns columns of the bridge that another program has set, in the words of `ovs-vsctl`. Other keys of its maps are ignored. */
export function foreignOfBridge(row: BridgeRow, tables: readonly (FlowTableRow | undefined)[]): readonly string[] {
  const missing = protocols.filter((protocol) => !row.protocols.has(protocol));
  return [
    ...(row.external_ids.get(ownerMark.key) === ownerMark.value ? [] : [`external_ids:${ownerMark.key} is not set`]),
    ...(row.fail_mode === 'secure' ? [] : [`fail_mode=${row.fail_mode ?? '[]'}`]),
    ...(missing.length === 0 ? [] : [`protocols without ${missing.join()}`]),
    ...[...otherConfig].flatMap(([key, value]) => (row.other_config.get(key) === value ? [] : [`other_config:${key} is not ${value}`])),
    ...(row.controller.size === 0 ? [] : [`controller=${row.controller.size}`]),
    ...(row.stp_enable ? ['stp_enable=true'] : []),
    ...(row.rstp_enable ? ['rstp_enable=true'] : []),
    ...tables.flatMap((table) => (table === undefined ? [] : foreignOfTable(table))),
  ];
}

function foreignOfTable({ name, flow_limit: limit, overflow_policy: policy }: FlowTableRow): readonly string[] {
  return [
    ...(limit === undefined ? [] : [`flow_limit=${limit} of ${name ?? 'a table'}`]),
    ...(policy === undefined ? [] : [`overflow_policy=${policy} of ${name ?? 'a table'}`]),
  ];
}

/** Like `foreignOfBridge`, for a port. */
export function foreignOfPort(port: PortRow, link: PortInterfaceRow | undefined): readonly string[] {
  const limits = link === undefined ? [] : Object.entries(interfaceDefaults).flatMap(([column, value]) => limitOf(link, column, value));
  return [...(port.qos === undefined ? [] : ['qos is set']), ...limits];
}

function limitOf(link: PortInterfaceRow, column: string, value: bigint): readonly string[] {
  const held = link[column as keyof typeof interfaceDefaults];
  return held === value ? [] : [`${column}=${held}`];
}
