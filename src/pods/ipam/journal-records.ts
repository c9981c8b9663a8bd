import { crc32 } from 'node:zlib';
import { SeineError } from '../../base/errors/seine-error.ts';
import { parseCidr, parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import type { CniDns } from '../../cni/result.ts';
import type { RateLimit } from '../../dataplane/compile/compile-pod.ts';
import type { HostPort } from '../../dataplane/compile/host-port.ts';
import type { AttachedPod, PodAddress, PodRoute } from './attachment.ts';
import type { Lease } from './lease.ts';

/*
 * The journal is text, one record a line:
 *
 *   crc32 of the JSON, 8 hexadecimal digits | space | JSON | newline
 *
 * The first record is `open` and has the version of the format. Records of one file apply in order. A crash during a write leaves a last
 * line without a newline or with a wrong checksum; it is dropped, because it was not reported as durable.
 */

const formatVersion = 1;

export type JournalRecord =
  /** First record of a file. `serial` is the last one allocated; `boot` is the kernel's boot ID when the file was begun. */
  | { readonly op: 'open'; readonly boot: string; readonly serial: number; readonly cursors: readonly string[] }
  | { readonly op: 'lease'; readonly lease: Lease }
  | { readonly op: 'attached'; readonly serial: number; readonly attached: AttachedPod }
  | { readonly op: 'quarantine'; readonly serial: number }
  | { readonly op: 'free'; readonly serial: number };

export function encodeRecord(record: JournalRecord): string {
  const json = JSON.stringify(plain(record));
  return `${checksum(json)} ${json}\n`;
}

function plain(record: JournalRecord): object {
  if (record.op === 'open') return { v: formatVersion, ...record };
  if (record.op !== 'lease') return record;
  const { addresses, routes, hostPorts, ...rest } = record.lease;
  return {
    op: 'lease',
    ...rest,
    ...(routes ? { routes: routes.map(({ destination, gateway }) => ({ dst: destination.text, gw: gateway?.text })) } : {}),
    ...(hostPorts ? { hostPorts: hostPorts.map(({ hostIp, ...each }) => ({ ...each, hostIp: hostIp?.text })) } : {}),
    addresses: addresses.map(({ ip, prefixLength, gateway }) => ({ ip: `${ip.text}/${prefixLength}`, gateway: gateway.text })),
  };
}

/** Rest of records that were not synced when the host crashed, and of the line break before the records that follow. */
const neverSynced = /^\0*$/;

interface DecodedJournal {
  readonly records: readonly JournalRecord[];
  /** True if the file ends in the middle of a record, as after a crash. */
  readonly torn: boolean;
  /** Number of corrupt lines before the last one. If it is not 0, the disk or another program has changed the file. */
  readonly damaged: number;
}

/** Decodes a journal. @throws SeineError `INVALID_INPUT` for a file of a newer format, which an older agent must not guess at */
export function decodeJournal(text: string): DecodedJournal {
  const lines = text.split('\n');
  const tail = lines.pop() ?? '';
  const records: JournalRecord[] = [];
  let damaged = 0;
  let lastIsBad = false;
  for (const line of lines) {
    if (neverSynced.test(line)) continue;
    const record = decodeLine(line);
    lastIsBad = record === undefined;
    if (record === undefined) damaged++;
    else records.push(record);
  }
  // A torn block may end in a newline of older content, so a corrupt last line counts as torn.
  return { records, torn: tail !== '' || lastIsBad, damaged: damaged - (lastIsBad ? 1 : 0) };
}

function decodeLine(line: string): JournalRecord | undefined {
  const json = line.slice(9);
  if (line[8] !== ' ' || line.slice(0, 8) !== checksum(json)) return undefined;
  try {
    return recordOf(JSON.parse(json) as RawRecord);
  } catch (thrown) {
    if (thrown instanceof SeineError && thrown.context['newerFormat'] === true) throw thrown;
    return undefined; // the checksum is right but the content is unknown; the caller counts it as damaged
  }
}

/** Parsed JSON of a line with a correct checksum, so it was written by some release of Seine. */
interface RawRecord {
  readonly op: string;
  readonly v?: number;
  readonly boot?: string;
  readonly serial?: number;
  readonly cursors?: readonly string[];
  readonly addresses?: readonly { readonly ip: string; readonly gateway: string }[];
  readonly network?: string;
  readonly containerId?: string;
  readonly ifName?: string;
  readonly state?: string;
  readonly mac?: string;
  readonly netns?: string;
  readonly ipamType?: string;
  readonly pod?: { readonly namespace: string; readonly name: string; readonly uid: string };
  readonly attached?: RawAttached;
  readonly routes?: readonly { readonly dst: string; readonly gw?: string }[];
  readonly dns?: CniDns;
  readonly egress?: RateLimit;
  readonly ingress?: RateLimit;
  readonly limits?: string;
  readonly hostPorts?: readonly RawHostPort[];
}

interface RawHostPort extends Omit<HostPort, 'hostIp'> {
  readonly hostIp?: string;
}

interface RawAttached {
  readonly hostIfName: string;
  readonly hostMac: string;
  readonly mtu: number;
  readonly netnsCookie?: string;
  readonly routeTables?: AttachedPod['routeTables'];
}

function recordOf(raw: RawRecord): JournalRecord {
  switch (raw.op) {
    case 'open':
      if (raw.v !== formatVersion)
        throw new SeineError('INVALID_INPUT', `the IPAM journal has format ${raw.v}; this agent supports ${formatVersion}`, {
          context: { newerFormat: true },
        });
      return { op: 'open', boot: present(raw.boot), serial: present(raw.serial), cursors: present(raw.cursors) };
    case 'lease':
      return { op: 'lease', lease: leaseOf(raw) };
    case 'attached':
      return { op: 'attached', serial: present(raw.serial), attached: attachedOf(present(raw.attached)) };
    case 'quarantine':
    case 'free':
      return { op: raw.op, serial: present(raw.serial) };
    default:
      throw new SeineError('INVALID_INPUT', `unknown record ${raw.op}`);
  }
}

function leaseOf(raw: RawRecord): Lease {
  const { pod, attached, ipamType, routes, dns, egress, ingress, limits, hostPorts } = raw;
  return {
    serial: present(raw.serial),
    network: present(raw.network),
    containerId: present(raw.containerId),
    ifName: present(raw.ifName),
    state: raw.state === 'quarantined' ? 'quarantined' : 'allocated',
    addresses: present(raw.addresses).map(addressOf),
    mac: parseMac(present(raw.mac)),
    netns: present(raw.netns),
    ...(pod === undefined ? {} : { pod: { namespace: pod.namespace, name: pod.name, uid: pod.uid } }),
    ...(egress === undefined ? {} : { egress: { rate: egress.rate, burst: egress.burst } }),
    ...(ingress === undefined ? {} : { ingress: { rate: ingress.rate, burst: ingress.burst } }),
    ...(limits === 'both' ? { limits } : {}),
    ...(hostPorts === undefined ? {} : { hostPorts: hostPorts.map(hostPortOf) }),
    ...(ipamType === undefined ? {} : { ipamType }),
    ...(routes === undefined ? {} : { routes: routes.map(routeOf) }),
    ...(dns === undefined ? {} : { dns }),
    ...(attached === undefined ? {} : { attached: attachedOf(attached) }),
  };
}

function attachedOf({ hostIfName, hostMac, mtu, netnsCookie, routeTables }: RawAttached): AttachedPod {
  return {
    hostIfName,
    hostMac: parseMac(hostMac),
    mtu,
    ...(netnsCookie === undefined ? {} : { netnsCookie }),
    ...(routeTables === undefined ? {} : { routeTables }),
  };
}

function hostPortOf({ transport, hostPort, containerPort, hostIp }: RawHostPort): HostPort {
  return { transport, hostPort, containerPort, ...(hostIp === undefined ? {} : { hostIp: parseIp(hostIp) }) };
}

function routeOf({ dst, gw }: { readonly dst: string; readonly gw?: string }): PodRoute {
  return { destination: parseCidr(dst), ...(gw === undefined ? {} : { gateway: parseIp(gw) }) };
}

function addressOf({ ip, gateway }: { readonly ip: string; readonly gateway: string }): PodAddress {
  const [address = '', length = ''] = ip.split('/');
  return { ip: parseIp(address), prefixLength: Number(length), gateway: parseIp(gateway) };
}

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new SeineError('INVALID_INPUT', 'a member of the record is missing');
  return value;
}

function checksum(json: string): string {
  return crc32(json).toString(16).padStart(8, '0');
}
