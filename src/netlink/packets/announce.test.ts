import { expect, it } from 'vitest';
import { parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import { announcement } from './announce.ts';

const mac = parseMac('0a:01:02:03:04:05');
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

it('announces an IPv4 address by an ARP request for itself', () => {
  expect(hex(announcement(mac, parseIp('10.1.2.3')))).toBe(
    'ffffffffffff0a0102030405080600010800060400010a01020304050a0102030000000000000a010203',
  );
});

it('announces an IPv6 address by a neighbour advertisement with a correct checksum', () => {
  const frame = announcement(mac, parseIp('fd00::5'));
  const address = 'fd000000000000000000000000000005';
  const allNodes = 'ff020000000000000000000000000001';
  const checksum = hex(frame.subarray(56, 58));
  expect(hex(frame)).toBe(
    `3333000000010a010203040586dd6000000000203aff${address}${allNodes}8800${checksum}20000000${address}02010a0102030405`,
  );
  // Check of a receiver, RFC 4443 section 2.3: the sum of everything with the pseudo-header is all ones.
  const covered = Buffer.from(`${address}${allNodes}000000200000003a${hex(frame.subarray(54))}`, 'hex');
  let sum = 0;
  for (let at = 0; at < covered.length; at += 2) sum += covered.readUInt16BE(at);
  expect((sum & 0xffff) + (sum >>> 16)).toBe(0xffff);
});
