import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ByteWriter } from '../../src/base/bytes/bytes.ts';
import { type Ip, ipToBytes, parseIp } from '../../src/base/net/ip.ts';
import { type Mac, parseMac } from '../../src/base/net/mac.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import { addressOf, gatewayOf, macOf, outside } from '../support/cluster-plan.ts';
import { encodeFrame } from '../support/frame.ts';
import { gatewayMac, TappedCluster } from '../support/tapped-cluster.ts';
import { patienceMs } from '../support/test-cluster.ts';

/**
 * Old attacks of pod `a`: takes over addresses, announces itself as everybody's router, sets source routes, hides one packet in the
 * fragments of another.
 */
let tapped: TappedCluster;

beforeAll(async () => {
  tapped = await TappedCluster.start();
}, patienceMs);
afterAll(() => tapped.stop());

const broadcast = parseMac('ff:ff:ff:ff:ff:ff');
const own = { ipv4: addressOf('a', 'ipv4'), ipv6: addressOf('a', 'ipv6') };

type Datagram = Pick<Packet, 'ipSrc' | 'ipDst' | 'ethDst'> & { readonly ports?: readonly [from: number, to: number] };

function datagram({ ipSrc, ipDst, ethDst, ports: [portSrc, portDst] = [4000, 9] }: Datagram, data: Uint8Array): Uint8Array {
  const family = ipDst?.family ?? 'ipv4';
  const fields = { ethSrc: macOf('a'), ethDst, payload: family, ttl: 64, protocol: 'udp', portSrc, portDst } as const;
  return encodeFrame({ ...fields, ...(ipSrc && { ipSrc }), ...(ipDst && { ipDst }) }, data);
}

describe('a pod cannot broadcast', () => {
  const allDhcpServers = parseIp('ff02::1:2');
  it.each<[string, Datagram]>([
    ['as a DHCP server that has an address', { ipSrc: own.ipv4, ipDst: parseIp('255.255.255.255'), ethDst: broadcast, ports: [67, 68] }],
    [
      'as a DHCP server that has none',
      { ipSrc: parseIp('0.0.0.0'), ipDst: parseIp('255.255.255.255'), ethDst: broadcast, ports: [67, 68] },
    ],
    [
      'as a DHCP server that says to be the gateway',
      { ipSrc: gatewayOf('n1', 'ipv4'), ipDst: addressOf('b', 'ipv4'), ethDst: macOf('b'), ports: [67, 68] },
    ],
    ['as a DHCP client', { ipSrc: parseIp('0.0.0.0'), ipDst: parseIp('255.255.255.255'), ethDst: broadcast, ports: [68, 67] }],
    ['as a DHCPv6 client', { ipSrc: own.ipv6, ipDst: allDhcpServers, ethDst: parseMac('33:33:00:01:00:02'), ports: [546, 547] }],
    [
      'as a DHCPv6 server, to all nodes',
      { ipSrc: own.ipv6, ipDst: parseIp('ff02::1'), ethDst: parseMac('33:33:00:00:00:01'), ports: [547, 546] },
    ],
    ['by multicast DNS', { ipSrc: own.ipv4, ipDst: parseIp('224.0.0.251'), ethDst: parseMac('01:00:5e:00:00:fb'), ports: [5353, 5353] }],
  ])('%s', async (_, fields) => {
    const mark = randomBytes(16);
    tapped.wires.a.send(datagram(fields, mark));
    expect(await tapped.hearers(mark)).toEqual([]);
  });

  it.each<[string, number, Ip, Mac]>([
    ['VRRP', 112, parseIp('224.0.0.18'), parseMac('01:00:5e:00:00:12')],
    ['OSPF', 89, parseIp('224.0.0.5'), parseMac('01:00:5e:00:00:05')],
    ['IGMP', 2, parseIp('224.0.0.1'), parseMac('01:00:5e:00:00:01')],
  ])('with %s', async (_, protocol, to, mac) => {
    const mark = randomBytes(16);
    tapped.wires.a.send(ipv4({ to, mac, protocol, body: mark }));
    expect(await tapped.hearers(mark)).toEqual([]);
  });
});

interface Ipv4 {
  readonly from?: Ip;
  readonly to: Ip;
  readonly mac: Mac;
  readonly protocol: number;
  /** Multiple of four bytes. */
  readonly options?: Uint8Array;
  readonly body: Uint8Array;
  readonly fragment?: { readonly id: number; readonly from: number; readonly more: boolean };
}

/** RFC 791 section 3.1. */
function ipv4({ from = own.ipv4, to, mac, protocol, options = new Uint8Array(), body, fragment }: Ipv4): Uint8Array {
  const length = 20 + options.length;
  const header = new ByteWriter()
    .u8(0x40 + length / 4)
    .u8(0)
    .u16(length + body.length)
    .u16(fragment?.id ?? 0)
    .u16(fragment ? (fragment.more ? 0x2000 : 0) | (fragment.from / 8) : 0)
    .u8(64)
    .u8(protocol)
    .u16(0)
    .raw(ipToBytes(from))
    .raw(ipToBytes(to))
    .raw(options)
    .finish();
  new DataView(header.buffer, header.byteOffset).setUint16(10, checksum(header));
  const macs = [mac, macOf('a')].flatMap((each) => each.split(':').map((byte) => Number.parseInt(byte, 16)));
  return Buffer.concat([Uint8Array.from(macs), new Uint8Array([0x08, 0x00]), header, body]);
}

/** RFC 1071, of an even number of bytes. */
function checksum(bytes: Uint8Array): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

/** A UDP header without checksum, followed by the data. */
function udp(data: Uint8Array): Uint8Array {
  return new ByteWriter()
    .u16(4000)
    .u16(9)
    .u16(8 + data.length)
    .u16(0)
    .raw(data)
    .finish();
}

describe('options of IPv4', () => {
  /** Loose or strict source route over one more hop, padded (RFC 791 section 3.1). */
  const route = (kind: 131 | 137, hop: Ip): Uint8Array =>
    Buffer.concat([new Uint8Array([kind, 7, 4]), ipToBytes(hop), new Uint8Array([0])]);

  it('do not hide the sender of a packet', async () => {
    const [lie, honest] = [randomBytes(16), randomBytes(16)];
    const alert = new Uint8Array([148, 4, 0, 0]); // router alert, RFC 2113
    const packet = { to: addressOf('b', 'ipv4'), mac: macOf('b'), protocol: 17, options: alert };
    tapped.wires.a.send(ipv4({ ...packet, from: addressOf('c', 'ipv4'), body: udp(lie) }));
    tapped.wires.a.send(ipv4({ ...packet, body: udp(honest) }));
    await tapped.wires.b.hears(honest);
    expect(await tapped.hearers(lie)).toEqual([]);
  });

  it.each<[string, 131 | 137, Ip, Ip]>([
    ['its node to its neighbour', 131, gatewayOf('n1', 'ipv4'), addressOf('b', 'ipv4')],
    ['its node to its neighbour, strictly', 137, gatewayOf('n1', 'ipv4'), addressOf('b', 'ipv4')],
    ['its node to another node', 131, gatewayOf('n1', 'ipv4'), gatewayOf('n2', 'ipv4')],
    ['its node to the outside', 131, gatewayOf('n1', 'ipv4'), outside.router.ipv4],
  ])('do not route a packet over %s', async (_, kind, first, then) => {
    const mark = randomBytes(16);
    tapped.wires.a.send(ipv4({ to: first, mac: gatewayMac, protocol: 17, options: route(kind, then), body: udp(mark) }));
    // The node's own gateway receives it and its kernel drops it.
    expect((await tapped.hearers(mark)).filter((who) => who !== 'n1')).toEqual([]);
  });
});

it('a source route would reach the neighbour if the node’s kernel obeyed', async () => {
  const mark = randomBytes(16);
  const setting = (name: string, value: number) => tapped.cluster.exec('n1', 'sysctl', '-qw', `net.ipv4.conf.${name}=${value}`);
  for (const where of ['all', 'antrea-gw0']) setting(`${where}.accept_source_route`, 1);
  const hop = Buffer.concat([new Uint8Array([131, 7, 4]), ipToBytes(addressOf('b', 'ipv4')), new Uint8Array([0])]);
  tapped.wires.a.send(ipv4({ to: gatewayOf('n1', 'ipv4'), mac: gatewayMac, protocol: 17, options: hop, body: udp(mark) }));
  await tapped.wires.b.hears(mark);
  for (const where of ['all', 'antrea-gw0']) setting(`${where}.accept_source_route`, 0);
});

describe('fragments that overlap', () => {
  const first = 1_288;
  it.each<[string, number, number]>([
    ['the second begins within the first', 8, first + 8],
    ['the second is within the first', 64, 128],
    ['the second is all of the first', 0, first],
  ])('do not arrive: %s', async (_, from, to) => {
    const [mark, id] = [randomBytes(16), randomBytes(2).readUInt16BE()];
    const whole = udp(new Uint8Array(first + 400));
    const packet = { to: addressOf('b', 'ipv4'), mac: macOf('b'), protocol: 17 };
    const overlapping = Uint8Array.from(whole.subarray(from, to));
    overlapping.set(mark, overlapping.length - mark.length);
    tapped.wires.a.send(ipv4({ ...packet, body: whole.subarray(0, first), fragment: { id, from: 0, more: true } }));
    tapped.wires.a.send(ipv4({ ...packet, body: overlapping, fragment: { id, from, more: to < first } }));
    tapped.wires.a.send(ipv4({ ...packet, body: whole.subarray(first), fragment: { id, from: first, more: false } }));
    expect(await tapped.hearers(mark)).toEqual([]);
  });

  it('arrive if they do not overlap', async () => {
    const [mark, id] = [randomBytes(16), randomBytes(2).readUInt16BE()];
    const whole = udp(Buffer.concat([new Uint8Array(first), mark]));
    const packet = { to: addressOf('b', 'ipv4'), mac: macOf('b'), protocol: 17 };
    tapped.wires.a.send(ipv4({ ...packet, body: whole.subarray(0, first), fragment: { id, from: 0, more: true } }));
    tapped.wires.a.send(ipv4({ ...packet, body: whole.subarray(first), fragment: { id, from: first, more: false } }));
    await tapped.wires.b.hears(mark);
  });

  it('of a datagram longer than any do not arrive', async () => {
    const [mark, id] = [randomBytes(16), randomBytes(2).readUInt16BE()];
    const packet = { to: addressOf('b', 'ipv4'), mac: macOf('b'), protocol: 1 };
    tapped.wires.a.send(
      ipv4({ ...packet, body: Buffer.concat([mark, new Uint8Array(1_384)]), fragment: { id, from: 65_528, more: false } }),
    );
    expect(await tapped.hearers(mark)).toEqual([]);
  });
});
