import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeFrame } from '../../../test/support/frame.ts';
import { parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import { reg } from '../../dataplane/pipeline/fields.ts';
import { tables } from '../../dataplane/pipeline/tables.ts';
import type { Packet } from '../../dataplane/switch-model/packet.ts';
import type { PacketIn } from '../../openflow/packet.ts';
import { readDeniedPacket } from './denied-packet.ts';

const [ethSrc, ethDst] = [parseMac('0e:00:00:00:00:01'), parseMac('0e:00:00:00:00:02')];
const v4 = { payload: 'ipv4', ipSrc: parseIp('10.10.0.5'), ipDst: parseIp('10.10.1.7') } as const;
const v6 = { payload: 'ipv6', ipSrc: parseIp('fd00:10::5'), ipDst: parseIp('fd00:10:1::7') } as const;
const packet = (more: Partial<Packet> & Pick<Packet, 'payload'>): Uint8Array => encodeFrame({ ethSrc, ethDst, ttl: 64, ...more });
const shown = (data: Uint8Array, table: number = tables.egressVerdict.id): PacketIn => ({
  table,
  reason: 'action',
  fields: { in_port: 7, reg1: 9 },
  fullLength: data.length,
  data,
});
const tcp4 = packet({ ...v4, protocol: 'tcp', portSrc: 40_000, portDst: 5432 });

/** Makes an IPv6 header followed by these headers, then eight bytes. */
function chained(...headers: readonly (readonly [protocol: number, bytes: readonly number[]])[]): Uint8Array {
  const frame = packet({ ...v6, protocol: 'udp', portSrc: 1, portDst: 2 }).slice(0, 14 + 40);
  const [first = [59, []] as const] = headers;
  frame[14 + 6] = first[0];
  return Uint8Array.from([...frame, ...headers.flatMap(([, bytes]) => bytes)]);
}

describe('a denied packet', () => {
  it('belongs to the pod that sends it, or to the one that would receive it', () => {
    expect(readDeniedPacket(shown(tcp4))).toMatchObject({
      direction: 'egress',
      ofPort: 7,
      own: { text: '10.10.0.5' },
      peer: { text: '10.10.1.7' },
      protocol: 'TCP',
      ports: { source: 40_000, destination: 5432 },
    });
    const got = readDeniedPacket(shown(tcp4, tables.ingressVerdict.id));
    expect(got).toMatchObject({ direction: 'ingress', ofPort: 9, own: { text: '10.10.1.7' }, peer: { text: '10.10.0.5' } });
  });

  it.each([
    [packet({ ...v4, protocol: 'udp', portSrc: 1, portDst: 53 }), { protocol: 'UDP', ports: { source: 1, destination: 53 } }],
    [chained([132, [0, 1, 0, 2, 0, 0, 0, 0]]), { protocol: 'SCTP', ports: { source: 1, destination: 2 } }],
    [packet({ ...v4, protocol: 'icmp', icmpType: 8, icmpId: 1 }), { protocol: 'ICMP', icmp: { type: 8, code: 0 } }],
    [packet({ ...v6, protocol: 'icmp6', icmpType: 128, icmpId: 1 }), { protocol: 'ICMPv6', icmp: { type: 128, code: 0 } }],
    [packet({ ...v4, protocol: 'gre' }), { protocol: '47' }],
  ])('has the fields of its protocol', (data, has) => {
    expect(readDeniedPacket(shown(data))).toMatchObject(has);
  });

  it('has no ports in a later fragment', () => {
    const later = tcp4.slice();
    later[14 + 7] = 5;
    expect(readDeniedPacket(shown(later))).toMatchObject({ protocol: 'TCP' });
    expect(readDeniedPacket(shown(later))).not.toHaveProperty('ports');
    const udp = [0, 1, 0, 53, 0, 8, 0, 0];
    const piece = (offset: number) => chained([44, [17, 0, 0, offset, 0, 0, 0, 9]], [17, udp]);
    expect(readDeniedPacket(shown(piece(1)))).toMatchObject({ protocol: 'UDP', ports: { destination: 53 } });
    expect(readDeniedPacket(shown(piece(8)))).not.toHaveProperty('ports');
    expect(readDeniedPacket({ ...shown(later), fields: { in_port: 7, reg0: reg.reason('pieces').value } })).toMatchObject({
      asFragments: true,
    });
  });

  it('is parsed through a bounded number of headers', () => {
    const options = (next: number) => [0, [next, 0, 0, 0, 0, 0, 0, 0]] as const;
    expect(readDeniedPacket(shown(chained(options(60), options(6), [6, [0, 7, 0, 80, 0, 0, 0, 0]])))).toMatchObject({
      protocol: 'TCP',
      ports: { source: 7, destination: 80 },
    });
    const endless = chained(...Array.from({ length: 200 }, () => options(0)), [6, [0, 7, 0, 80]]);
    expect(readDeniedPacket(shown(endless))).toMatchObject({ protocol: '0' });
    expect(readDeniedPacket(shown(endless))).not.toHaveProperty('ports');
    const tooLong = chained([0, [6, 255, 0, 0, 0, 0, 0, 0]]);
    expect(readDeniedPacket(shown(tooLong))).not.toHaveProperty('ports');
  });

  it('is undefined for other tables, other kinds, and without its port', () => {
    expect(readDeniedPacket(shown(tcp4, tables.route.id))).toBeUndefined();
    expect(readDeniedPacket(shown(packet({ payload: 'other' })))).toBeUndefined();
    expect(readDeniedPacket({ ...shown(tcp4), fields: {} })).toBeUndefined();
  });

  it('may be any bytes, and of any length', () => {
    const whole = packet({ ...v6, protocol: 'tcp', portSrc: 1, portDst: 2 });
    for (let length = 0; length <= whole.length; length++) readDeniedPacket(shown(whole.slice(0, length)));
    fc.assert(
      fc.property(fc.constantFrom([0x08, 0x00], [0x86, 0xdd]), fc.uint8Array({ maxLength: 200 }), (type, bytes) => {
        const found = readDeniedPacket(shown(Uint8Array.from([...whole.slice(0, 12), ...type, ...bytes])));
        expect(found?.ports?.destination ?? 0).toBeLessThan(65_536);
      }),
    );
  });
});
