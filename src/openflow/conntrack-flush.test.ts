import { expect, it } from 'vitest';
import { ByteWriter } from '../base/bytes/bytes.ts';
import { parseIp } from '../base/net/ip.ts';
import { type ConntrackMatch, writeConntrackFlush } from './conntrack-flush.ts';

function hex(match: ConntrackMatch): string {
  const w = new ByteWriter();
  writeConntrackFlush(w, match);
  const bytes = Buffer.from(w.finish());
  bytes.writeUInt32BE(2, 4);
  return bytes.toString('hex');
}

// Messages that `ovs-ofctl ct-flush` of Open vSwitch 3.1 sends.
it.each<readonly [string, ConntrackMatch, string]>([
  [
    'both directions of IPv4',
    {
      zone: 65_520,
      ipProtocol: 17,
      original: { dst: parseIp('10.96.0.10'), dstPort: 53 },
      reply: { src: parseIp('10.10.0.5'), srcPort: 5353 },
    },
    '06040070000000020000232000000020110000000000000000000028000000000001001400000000000000000000ffff0a60000a000000000003000800350000' +
      '00010028000000000000001400000000000000000000ffff0a0a0005000000000002000814e9000000020008fff00000',
  ],
  [
    'both directions of IPv6',
    {
      zone: 65_510,
      ipProtocol: 17,
      original: { dst: parseIp('fd00::a'), dstPort: 53 },
      reply: { src: parseIp('fd01::5'), srcPort: 5353 },
    },
    '060400700000000200002320000000201100000000000000000000280000000000010014fd00000000000000000000000000000a000000000003000800350000' +
      '0001002800000000' +
      '00000014fd010000000000000000000000000005000000000002000814e9000000020008ffe60000',
  ],
  [
    'an address alone',
    { zone: 5, ipProtocol: 17, original: { dst: parseIp('10.96.0.10') } },
    '06040040000000020000232000000020110000000000000000000020000000000001001400000000000000000000ffff0a60000a000000000002000800050000',
  ],
])('writes the bytes of ovs-ofctl: %s', (_, match, wanted) => {
  expect(hex(match)).toBe(wanted);
});
