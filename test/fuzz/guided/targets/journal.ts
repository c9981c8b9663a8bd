import { crc32 } from 'node:zlib';
import { SeineError } from '../../../../src/base/errors/seine-error.ts';
import { parseCidr, parseIp } from '../../../../src/base/net/ip.ts';
import { parseMac } from '../../../../src/base/net/mac.ts';
import { decodeJournal, encodeRecord, type JournalRecord } from '../../../../src/pods/ipam/journal-records.ts';
import type { Lease } from '../../../../src/pods/ipam/lease.ts';
import { isRead, type Target } from '../target.ts';

const attached = { hostIfName: 'web-0-5d0b6f', hostMac: parseMac('0e:00:00:00:00:01'), mtu: 1450, netnsCookie: '42' };
const lease: Lease = {
  serial: 2,
  network: 'seine',
  containerId: 'c0ffee',
  ifName: 'eth0',
  state: 'allocated',
  addresses: [{ ip: parseIp('10.244.0.5'), prefixLength: 24, gateway: parseIp('10.244.0.1') }],
  mac: parseMac('0e:00:00:00:00:02'),
  netns: '/run/netns/pod',
  pod: { namespace: 'shop', name: 'web-0', uid: '5d0b6f2e-0000-4000-8000-000000000001' },
  egress: { rate: 8_000_000, burst: 8_000_000 },
  ingress: { rate: 8_000_000, burst: 8_000_000 },
  limits: 'both',
  hostPorts: [{ transport: 'tcp', hostPort: 8080, containerPort: 80, hostIp: parseIp('192.0.2.1') }],
  ipamType: 'host-local',
  routes: [{ destination: parseCidr('0.0.0.0/0'), gateway: parseIp('10.244.0.1') }],
  dns: { nameservers: ['10.96.0.10'], search: [], options: [] },
  attached,
};

const records: readonly JournalRecord[] = [
  { op: 'open', boot: '5d0b6f2e-0000-4000-8000-000000000001', serial: 3, cursors: ['10.244.0.9', 'fd00:244::9'] },
  { op: 'lease', lease },
  { op: 'attached', serial: 2, attached },
  { op: 'quarantine', serial: 2 },
  { op: 'free', serial: 2 },
];

/** It is read once, when an agent starts, for a time proportional to its length: this limit applies. */
const linesMost = 1_000;

/** Each line with a correct checksum, as if an expert wrote it: mutations reach the content. */
function vouchedFor(text: string): string {
  const lines = text.split('\n', linesMost).map((line) => line.slice(line.indexOf(' ') + 1));
  return lines.map((json) => `${crc32(json).toString(16).padStart(8, '0')} ${json}\n`).join('');
}

/** Content that was read once is written again and read as equal. */
function readTwice(text: string): void {
  const { records: read } = decodeJournal(text);
  const again = decodeJournal(read.map(encodeRecord).join(''));
  if (again.damaged > 0 || again.records.length !== read.length) throw new Error('what was written again is not what was read');
}

export const journalTarget: Target = {
  name: 'journal',
  what: 'the journal of addresses, as a disk or another program may have left it',
  seeds: () => [Buffer.from(records.map(encodeRecord).join('')), ...records.map((record) => Buffer.from(encodeRecord(record)))],
  read: (bytes) => {
    const text = bytes.toString('utf8');
    const isRefusal = (thrown: unknown) => thrown instanceof SeineError && thrown.code === 'INVALID_INPUT';
    return isRead(() => {
      decodeJournal(text);
      readTwice(vouchedFor(text));
    }, isRefusal);
  },
};
