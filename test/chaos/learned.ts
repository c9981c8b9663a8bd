import type { ApiObject } from './api.ts';

/** A flow of the table `affinity` (docs/design/pipeline.md): the endpoint of a client, by the address it used. */
export interface Learned {
  readonly protocol: string;
  /** Addresses as integers. */
  readonly address: bigint;
  readonly port: number;
  readonly endpoint: bigint;
  readonly endpointPort: number;
}

const affinityTable = 24;
/** Tables with other learned flows: associations of SCTP, and counts of unknown peers. */
const otherTables = [34, 120];
const cookieOfGeneration = /^cookie=0x1ff/;

/**
 * Learned flow in a line of `ovs-ofctl dump-flows`; undefined if it is not of the affinity of TCP or UDP. @throws Error if it cannot be
 * parsed
 */
export function readLearned(line: string): Learned | undefined {
  const [match = '', actions = ''] = line.split(' actions=');
  const table = Number(/table=(\d+)/.exec(match)?.[1] ?? 0);
  if (table !== affinityTable || match.includes('ip_frag')) return undefined;
  const protocol = /[, ](tcp|udp|sctp)6?(?:,|$)/.exec(match)?.[1];
  const address = /(?:nw_dst|ipv6_dst)=([^,\s]+)/.exec(match)?.[1];
  const port = /(?:tp|tcp|udp|sctp)_dst=(\d+)/.exec(match)?.[1];
  const endpoint = loaded(actions, address?.includes(':') === true ? 'xxreg3' : 'reg3');
  const endpointPort = loaded(actions, 'reg4', 'low');
  if (protocol === undefined || address === undefined || port === undefined || endpoint === undefined || endpointPort === undefined)
    throw new Error(`a learned flow that cannot be parsed: ${line}`);
  return { protocol, address: numberOf(address), port: Number(port), endpoint, endpointPort: Number(endpointPort) };
}

/**
 * Both notations: `set_field:5->reg3`, `load:5->NXM_NX_REG3[]`; of a subfield, `set_field:5/0xffff->reg4`, `load:5->NXM_NX_REG4[0..15]`.
 */
function loaded(actions: string, register: string, part: 'whole' | 'low' = 'whole'): bigint | undefined {
  const [mask, bits] = part === 'low' ? ['/0xffff', '\\[0\\.\\.15\\]'] : ['(?:/0xf+)?', '\\[\\]'];
  const value = '(?<value>0x[0-9a-f]+|\\d+)';
  const said = new RegExp(
    `set_field:${value}${mask}->${register}(?![0-9])|load:(?<loaded>0x[0-9a-f]+|\\d+)->NXM_NX_${register}${bits}`,
    'i',
  );
  const groups = said.exec(actions)?.groups;
  const text = groups?.['value'] ?? groups?.['loaded'];
  return text === undefined ? undefined : BigInt(text);
}

/**
 * Errors in learned flows: flows of tables that learn none, of another generation, or with an endpoint that the Service, by the API, may
 * not use for the client now.
 *
 * @param localNode node for Services that prefer local endpoints
 */
export function assessLearned(
  lines: readonly string[],
  services: readonly ApiObject[],
  slices: readonly ApiObject[],
  localNode: string,
): string[] {
  const choices = services
    .filter(({ spec }) => spec?.['sessionAffinity'] === 'ClientIP')
    .flatMap((service) => choicesOf(service, slices, localNode));
  return lines.filter((line) => !isRight(line, choices)).map((line) => `learned, and not to be: ${line}`);
}

function isRight(line: string, choices: readonly Choice[]): boolean {
  if (!cookieOfGeneration.test(line)) return false;
  const table = Number(/table=(\d+)/.exec(line)?.[1] ?? 0);
  const learned = readLearned(line);
  if (learned === undefined) return table === affinityTable || otherTables.includes(table);
  const found = choices.find(
    ({ protocol, addresses, port }) => protocol === learned.protocol && port === learned.port && addresses.includes(learned.address),
  );
  return found?.endpoints.has(`${learned.endpoint} ${learned.endpointPort}`) ?? false;
}

interface Choice {
  readonly protocol: string;
  readonly addresses: readonly bigint[];
  readonly port: number;
  /** Address and port. */
  readonly endpoints: ReadonlySet<string>;
}

interface ServicePort {
  readonly name?: string;
  readonly protocol?: string;
  readonly port: number;
  readonly nodePort?: number;
}

interface Endpoint {
  readonly addresses: readonly string[];
  readonly nodeName?: string;
  readonly conditions?: { readonly ready?: boolean; readonly serving?: boolean; readonly terminating?: boolean };
}

function choicesOf({ metadata, spec = {}, status = {} }: ApiObject, slices: readonly ApiObject[], localNode: string): Choice[] {
  const own = slices.filter(
    (slice) => slice.metadata.namespace === metadata.namespace && slice.metadata.labels?.['kubernetes.io/service-name'] === metadata.name,
  );
  const inside = strings(spec['clusterIPs']);
  const balancers = (status['loadBalancer'] as { ingress?: readonly { ip?: string }[] } | undefined)?.ingress ?? [];
  const outside = [...strings(spec['externalIPs']), ...balancers.flatMap(({ ip }) => ip ?? [])];
  return ((spec['ports'] ?? []) as readonly ServicePort[]).flatMap((each): Choice[] => {
    const protocol = (each.protocol ?? 'TCP').toLowerCase();
    const all = endpointsOf(own, each, undefined);
    const internal = spec['internalTrafficPolicy'] === 'Local' ? endpointsOf(own, each, localNode) : all;
    return [
      { protocol, addresses: inside.map(numberOf), port: each.port, endpoints: internal },
      { protocol, addresses: outside.map(numberOf), port: each.port, endpoints: all },
    ];
  });
}

/** Ready endpoints; if there are none, those that terminate and still serve. @param only of one node */
function endpointsOf(
  slices: readonly ApiObject[],
  { name = '', protocol = 'TCP' }: ServicePort,
  only: string | undefined,
): ReadonlySet<string> {
  const all = slices.flatMap((slice) => {
    const ports = (slice['ports'] ?? []) as readonly { name?: string; protocol?: string; port?: number }[];
    const port = ports.find((each) => (each.name ?? '') === name && (each.protocol ?? 'TCP') === protocol)?.port;
    const endpoints = (slice['endpoints'] ?? []) as readonly Endpoint[];
    return port === undefined ? [] : endpoints.map((endpoint) => ({ ...endpoint, port }));
  });
  const near = all.filter(({ nodeName }) => only === undefined || nodeName === only);
  const ready = near.filter(({ conditions }) => conditions?.ready !== false);
  const going = near.filter(({ conditions }) => conditions?.serving === true && conditions.terminating === true);
  return new Set((ready.length > 0 ? ready : going).flatMap(({ addresses, port }) => addresses.map((ip) => `${numberOf(ip)} ${port}`)));
}

function strings(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each): each is string => typeof each === 'string') : [];
}

/** An address as an integer. */
export function numberOf(address: string): bigint {
  if (!address.includes(':')) return address.split('.').reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  const [head = '', tail = ''] = address.split('::');
  const groups = (text: string): string[] => text.split(':').filter(Boolean);
  const zeros = Array.from({ length: 8 - groups(head).length - groups(tail).length }, () => '0');
  const all = [...groups(head), ...(address.includes('::') ? zeros : []), ...groups(tail)];
  return all.reduce((sum, group) => sum * 65_536n + BigInt(`0x${group}`), 0n);
}
