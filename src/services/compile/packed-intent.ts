import { type Cidr, type Family, parseIp } from '../../base/net/ip.ts';
import { type PackedList, packList, unpackList } from './packed-list.ts';
import type { ServiceAddress, ServiceIntent } from './service-intent.ts';

/** Intent as strings, with a quarter of the objects: there is one for each port, and hardly any is read twice. */
export interface PackedIntent {
  /** JSON of a row. */
  readonly row: string;
  readonly cluster: PackedList;
  readonly local: PackedList;
  /** List that all ports of the Service share; absent if it is empty. */
  readonly sourceRanges?: readonly Cidr[];
}

type Plain = Omit<ServiceIntent, 'addresses' | 'sourceRanges' | 'cluster' | 'local'>;
type AddressRow = readonly [kind: ServiceAddress['kind'], ip: string, port: number];
/** Values in the order of the interface. */
type IntentRow = readonly [
  name: Plain['name'],
  family: Family,
  transport: Plain['transport'],
  port: number,
  addresses: readonly AddressRow[],
  internalPolicy: Plain['internalPolicy'],
  externalPolicy: Plain['externalPolicy'],
  affinitySeconds: number | null,
  translation: Plain['translation'],
  anyEndpoint: boolean,
  objections: readonly string[],
];

export function packIntent({ cluster, local, sourceRanges, ...rest }: ServiceIntent): PackedIntent {
  const row: IntentRow = [
    rest.name,
    rest.family,
    rest.transport,
    rest.port,
    rest.addresses.map(({ kind, ip, port }): AddressRow => [kind, ip.text, port]),
    rest.internalPolicy,
    rest.externalPolicy,
    rest.affinitySeconds ?? null,
    rest.translation,
    rest.anyEndpoint,
    rest.objections,
  ];
  const packed = { row: JSON.stringify(row), cluster: packList(cluster), local: packList(local) };
  return sourceRanges.length === 0 ? packed : { ...packed, sourceRanges };
}

export function unpackIntent({ row, cluster, local, sourceRanges = [] }: PackedIntent): ServiceIntent {
  const [name, family, transport, port, addresses, internalPolicy, externalPolicy, seconds, translation, anyEndpoint, objections] =
    JSON.parse(row) as IntentRow; // written by this module
  return {
    name,
    family,
    transport,
    port,
    addresses: addresses.map(([kind, ip, at]) => ({ kind, ip: parseIp(ip), port: at })),
    internalPolicy,
    externalPolicy,
    ...(seconds === null ? {} : { affinitySeconds: seconds }),
    translation,
    sourceRanges,
    cluster: unpackList(cluster, family),
    local: unpackList(local, family),
    anyEndpoint,
    objections,
  };
}
