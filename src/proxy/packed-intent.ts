import { type Family, parseCidr, parseIp } from '../net/ip.ts';
import { type PackedList, packList, unpackList } from './packed-list.ts';
import type { ServiceAddress, ServiceIntent } from './service-intent.ts';

/** An intent as texts, a quarter of the objects: of those there is one for each port, and hardly one is asked for twice. */
export interface PackedIntent {
  /** JSON of a row. */
  readonly row: string;
  readonly cluster: PackedList;
  readonly local: PackedList;
}

type Plain = Omit<ServiceIntent, 'addresses' | 'sourceRanges' | 'cluster' | 'local'>;
type AddressRow = readonly [kind: ServiceAddress['kind'], ip: string, port: number];
/** In the order of the interface. */
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
  sourceRanges: readonly string[],
  anyEndpoint: boolean,
  objections: readonly string[],
];

export function packIntent({ cluster, local, ...rest }: ServiceIntent): PackedIntent {
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
    rest.sourceRanges.map(({ text }) => text),
    rest.anyEndpoint,
    rest.objections,
  ];
  return { row: JSON.stringify(row), cluster: packList(cluster), local: packList(local) };
}

export function unpackIntent({ row, cluster, local }: PackedIntent): ServiceIntent {
  const [name, family, transport, port, addresses, internalPolicy, externalPolicy, seconds, translation, ranges, anyEndpoint, objections] =
    JSON.parse(row) as IntentRow; // our own text
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
    sourceRanges: ranges.map(parseCidr),
    cluster: unpackList(cluster, family),
    local: unpackList(local, family),
    anyEndpoint,
    objections,
  };
}
