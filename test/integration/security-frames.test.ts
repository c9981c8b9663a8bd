import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ByteWriter } from '../../src/base/bytes/bytes.ts';
import { type Ip, ipToBytes, parseIp } from '../../src/base/net/ip.ts';
import { type Mac, macToBytes, parseMac } from '../../src/base/net/mac.ts';
import { linkLocal } from '../../src/dataplane/compile/environment.ts';
import { addressOf, gatewayOf, macOf } from '../support/cluster-plan.ts';
import { encodeFrame } from '../support/frame.ts';
import { TappedCluster } from '../support/tapped-cluster.ts';
import { patienceMs } from '../support/test-cluster.ts';

/**
 * Handmade frames to pass the guards of pod `a`: forgeries in fragments, behind extension headers, in options, in unusual frames. Receivers
 * are checked on the links of its neighbour `b`, of `c` on the other node, and of both gateways.
 */
let tapped: TappedCluster;

beforeAll(async () => {
  tapped = await TappedCluster.start();
}, patienceMs);
afterAll(() => tapped.stop());

const broadcast = parseMac('ff:ff:ff:ff:ff:ff');
const virtual = parseMac('aa:bb:cc:dd:ee:ff');
const allNodes = { ip: parseIp('ff02::1'), mac: parseMac('33:33:00:00:00:01') };

interface To {
  readonly ip: Ip;
  readonly mac: Mac;
}
/** Bytes of a fragment that is not the last. Open vSwitch accepts none of fewer than 1200 (IPv6: 1280), with their header. */
const largePart = 1288;
const neighbour4: To = { ip: addressOf('b', 'ipv4'), mac: macOf('b') };
const neighbour6: To = { ip: addressOf('b', 'ipv6'), mac: macOf('b') };

function ethernet(to: Mac, etherType: number, body: Uint8Array, from: Mac = macOf('a')): Uint8Array {
  return new ByteWriter().raw(macToBytes(to)).raw(macToBytes(from)).u16(etherType).raw(body).finish();
}

function ipv6(source: Ip, to: Ip, next: number, body: Uint8Array, hops = 255): Uint8Array {
  return new ByteWriter().u32(0x6000_0000).u16(body.length).u8(next).u8(hops).raw(ipToBytes(source)).raw(ipToBytes(to)).raw(body).finish();
}

interface Cut {
  /** Offset in bytes. */
  readonly from: number;
  readonly more: boolean;
  readonly id: Uint8Array;
}

/** RFC 791 section 3.1. @param frame with the first header */
function ipv4Fragment(frame: Uint8Array, part: Uint8Array, { from, more, id }: Cut): Uint8Array {
  const header = Uint8Array.from(frame.subarray(14, 34));
  const view = new DataView(header.buffer);
  view.setUint16(2, 20 + part.length);
  header.set(id.subarray(0, 2), 4);
  view.setUint16(6, (more ? 0x2000 : 0) | (from / 8));
  view.setUint16(10, 0);
  view.setUint16(10, checksum(header));
  return joined(frame.subarray(0, 14), header, part);
}

/** RFC 8200 section 4.5. */
function ipv6Fragment(source: Ip, { ip, mac }: To, part: Uint8Array, { from, more, id }: Cut): Uint8Array {
  const header = new ByteWriter()
    .u8(17)
    .u8(0)
    .u16(from | (more ? 1 : 0))
    .raw(id)
    .finish();
  return ethernet(mac, 0x86dd, ipv6(source, ip, 44, joined(header, part), 64));
}

/** RFC 1071, of an even number of bytes. */
function checksum(bytes: Uint8Array): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

/** A neighbour advertisement, "solicited" and "override" (RFC 4861 section 4.4), with its checksum. */
function advertisement(source: Ip, to: Ip, target: Ip, options: Uint8Array): Uint8Array {
  const message = new ByteWriter().u8(136).u8(0).u16(0).u32(0x6000_0000).raw(ipToBytes(target)).raw(options).finish();
  const pseudo = new ByteWriter().raw(ipToBytes(source)).raw(ipToBytes(to)).u32(message.length).u32(58).raw(message).finish();
  new DataView(message.buffer, message.byteOffset).setUint16(2, checksum(pseudo));
  return message;
}

/** Target link-layer address (RFC 4861 section 4.6.1). */
const targetIs = (mac: Mac): Uint8Array => new ByteWriter().u8(2).u8(1).raw(macToBytes(mac)).finish();
/** A nonce (RFC 3971 section 5.3.2), which distinguishes the frame from all others. */
const nonce = (mark: Uint8Array): Uint8Array => new ByteWriter().u8(14).u8(1).raw(mark).finish();
const joined = (...parts: readonly Uint8Array[]): Uint8Array => Buffer.concat(parts);

describe('forgeries behind headers, in options and in fragments', () => {
  const own = addressOf('a', 'ipv6');
  const forgeries = { target: gatewayOf('n1', 'ipv6'), mac: macOf('a') };
  const filler = new Uint8Array([58, 0, 1, 4, 0, 0, 0, 0]); // next is ICMPv6, no more bytes, PadN of four

  const behind = (first: number, header: Uint8Array, said: Uint8Array): Uint8Array =>
    ethernet(allNodes.mac, 0x86dd, ipv6(own, allNodes.ip, first, joined(header, said)));

  it.each<[string, number]>([
    ['hop-by-hop options', 0],
    ['destination options', 60],
  ])('cannot advertise the gateway behind %s', async (_, header) => {
    const mark = randomBytes(6);
    const options = joined(targetIs(forgeries.mac), nonce(mark));
    tapped.wires.a.send(behind(header, filler, advertisement(own, allNodes.ip, forgeries.target, options)));
    expect(await tapped.hearers(mark)).toEqual([]);
  });

  it('cannot send two link-layer address options, the second one forged, nor one of no length', async () => {
    const [twice, cut] = [randomBytes(6), randomBytes(6)];
    const said = joined(targetIs(macOf('a')), targetIs(macOf('b')), nonce(twice));
    tapped.wires.a.send(ethernet(allNodes.mac, 0x86dd, ipv6(own, allNodes.ip, 58, advertisement(own, allNodes.ip, own, said))));
    const none = joined(new Uint8Array([1, 0]), cut, targetIs(macOf('b')));
    tapped.wires.a.send(
      ethernet(allNodes.mac, 0x86dd, ipv6(own, allNodes.ip, 58, advertisement(own, allNodes.ip, forgeries.target, none))),
    );
    expect([await tapped.hearers(twice), await tapped.hearers(cut)]).toEqual([[], []]);
  });

  it.each<[string, number, readonly (readonly [number, number])[]]>([
    ['whole in a fragment', 40, [[0, 40]]],
    [
      'in two large ones',
      1304,
      [
        [0, largePart],
        [largePart, 1304],
      ],
    ],
    [
      'in two large ones, the last one first',
      1304,
      [
        [largePart, 1304],
        [0, largePart],
      ],
    ],
    [
      'cut behind its type',
      40,
      [
        [0, 8],
        [8, 40],
      ],
    ],
    [
      'cut behind its type, the last one first',
      40,
      [
        [8, 40],
        [0, 8],
      ],
    ],
  ])('cannot advertise the gateway in fragments: %s', async (_, length, cuts) => {
    const mark = randomBytes(6);
    const options = [targetIs(forgeries.mac), nonce(mark), ...Array.from({ length: (length - 40) / 8 }, () => nonce(randomBytes(6)))];
    const whole = advertisement(own, neighbour6.ip, forgeries.target, joined(...options));
    const id = randomBytes(4);
    for (const [from, to] of cuts) {
      const header = new ByteWriter()
        .u8(58)
        .u8(0)
        .u16(from | (to < length ? 1 : 0))
        .raw(id)
        .finish();
      tapped.wires.a.send(ethernet(neighbour6.mac, 0x86dd, ipv6(own, neighbour6.ip, 44, joined(header, whole.subarray(from, to)))));
    }
    expect(await tapped.hearers(mark)).toEqual([]);
  });

  /** A datagram to the neighbour in two fragments, the mark in the second. */
  const inFragments = (source: Ip, { ip, mac }: To, mark: Uint8Array): void => {
    const address = { ethSrc: macOf('a'), ethDst: mac, ipSrc: source, ipDst: ip, ttl: 64 } as const;
    const frame = encodeFrame(
      { ...address, payload: source.family, protocol: 'udp', portSrc: 4000, portDst: 9 },
      joined(new Uint8Array(largePart - 8), mark),
    );
    const isIpv4 = source.family === 'ipv4';
    const datagram = frame.subarray(14 + (isIpv4 ? 20 : 40));
    const id = randomBytes(4);
    for (const [from, to] of [
      [0, largePart],
      [largePart, datagram.length],
    ] as const) {
      const [part, more] = [datagram.subarray(from, to), to < datagram.length];
      tapped.wires.a.send(
        isIpv4 ? ipv4Fragment(frame, part, { from, more, id }) : ipv6Fragment(source, { ip, mac }, part, { from, more, id }),
      );
    }
  };

  it.each<[string, Ip, Ip, To]>([
    ['IPv4', addressOf('a', 'ipv4'), addressOf('c', 'ipv4'), neighbour4],
    ['IPv6', addressOf('a', 'ipv6'), addressOf('c', 'ipv6'), neighbour6],
  ])('can send fragments of %s as itself, and not as another pod', async (_, itself, otherPod, to) => {
    const [honest, lie] = [randomBytes(16), randomBytes(16)];
    inFragments(otherPod, to, lie);
    inFragments(itself, to, honest);
    await tapped.wires.b.hears(honest);
    expect(await tapped.hearers(lie)).toEqual([]);
  });

  it('cannot be a router to one neighbour by any of its addresses', async () => {
    const mark = randomBytes(6);
    for (const source of [own, linkLocal(macOf('a'))]) {
      const said = new ByteWriter().u8(134).u8(0).u16(0).u8(64).u8(0).u16(1800).u32(0).u32(0).raw(nonce(mark)).finish();
      tapped.wires.a.send(ethernet(neighbour6.mac, 0x86dd, ipv6(source, neighbour6.ip, 58, said)));
      tapped.wires.a.send(ethernet(neighbour6.mac, 0x86dd, ipv6(source, neighbour6.ip, 0, joined(filler, said))));
    }
    expect(await tapped.hearers(mark)).toEqual([]);
  });
});

describe('frames of other kinds', () => {
  const ip = (mark: Uint8Array): Uint8Array =>
    encodeFrame(
      {
        ethSrc: macOf('a'),
        ethDst: macOf('b'),
        payload: 'ipv4',
        ipSrc: addressOf('a', 'ipv4'),
        ipDst: neighbour4.ip,
        ttl: 64,
        protocol: 'udp',
        portSrc: 4000,
        portDst: 9,
      },
      mark,
    ).subarray(14);
  const tag = (vlan: number, then: number): Uint8Array => new ByteWriter().u16(vlan).u16(then).finish();

  it.each<[string, (mark: Uint8Array) => Uint8Array]>([
    ['a priority tag', (mark) => ethernet(macOf('b'), 0x8100, joined(tag(0xe000, 0x0800), ip(mark)))],
    ['a service tag (802.1ad)', (mark) => ethernet(macOf('b'), 0x88a8, joined(tag(5, 0x0800), ip(mark)))],
    ['two tags', (mark) => ethernet(macOf('b'), 0x88a8, joined(tag(5, 0x8100), tag(6, 0x0800), ip(mark)))],
    ['MPLS', (mark) => ethernet(macOf('b'), 0x8847, joined(new Uint8Array([0, 0, 0x11, 64]), ip(mark)))],
    ['RARP', (mark) => ethernet(broadcast, 0x8035, joined(new Uint8Array([0, 1, 8, 0, 6, 4, 0, 3]), mark, new Uint8Array(20)))],
    [
      'a spanning tree',
      (mark) => ethernet(parseMac('01:80:c2:00:00:00'), 38, joined(new Uint8Array([0x42, 0x42, 3]), mark, new Uint8Array(35))),
    ],
    ['LLDP', (mark) => ethernet(parseMac('01:80:c2:00:00:0e'), 0x88cc, joined(mark, new Uint8Array(46)))],
    ['PPPoE', (mark) => ethernet(broadcast, 0x8863, joined(mark, new Uint8Array(46)))],
    [
      'ARP of another hardware',
      (mark) => ethernet(broadcast, 0x0806, joined(new Uint8Array([0, 6, 8, 0, 8, 4, 0, 1]), mark, new Uint8Array(34))),
    ],
  ])('reach no receiver: %s', async (_, frame) => {
    const mark = randomBytes(16);
    tapped.wires.a.send(frame(mark));
    expect(await tapped.hearers(mark)).toEqual([]);
  });

  it('go where their IP address is, whatever Ethernet address they have', async () => {
    for (const mac of [virtual, macOf('c'), broadcast, parseMac('02:00:00:00:00:99')]) {
      const mark = randomBytes(16);
      tapped.wires.a.send(ethernet(mac, 0x0800, ip(mark)));
      expect(await tapped.hearers(mark)).toEqual(['b']);
    }
  });

  it("do not change the bridge's learned addresses", async () => {
    const mark = randomBytes(16);
    tapped.wires.a.send(ethernet(broadcast, 0x0800, ip(mark), macOf('b')));
    tapped.wires.a.send(
      ethernet(broadcast, 0x0806, joined(new Uint8Array([0, 1, 8, 0, 6, 4, 0, 2]), mark, new Uint8Array(34)), macOf('b')),
    );
    expect(await tapped.hearers(mark)).toEqual([]);
    const table = tapped.cluster.switchOf('n1').exec('ovs-appctl', 'fdb/show', 'br-int');
    const learned = table.split('\n').filter((line) => line.includes(macOf('b')));
    const portOfA = tapped.cluster.switchOf('n1').exec('ovs-vsctl', 'get', 'Interface', portName('a'), 'ofport').trim();
    expect(learned.filter((line) => line.trim().startsWith(`${portOfA} `))).toEqual([]);
  });
});

/** The port of a pod on its node's bridge. */
function portName(who: 'a' | 'b'): string {
  const rows = tapped.cluster.switchOf('n1').exec('ovs-vsctl', '--format=json', '--columns=name', 'list', 'Interface');
  const names = (JSON.parse(rows) as { readonly data: readonly (readonly [string])[] }).data.map(([name]) => name);
  const found = names.find((name) => name === who || name.startsWith(`${who}-`) || name.endsWith(`-${who}`));
  if (found === undefined) throw new Error(`no port of ${who} among ${names.join(' ')}`);
  return found;
}
