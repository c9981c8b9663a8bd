import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { bindUdpIn } from '../../lab/probe/sockets.ts';
import { cidrAddress, type Family, type Ip, ipToBytes, parseIp } from '../../src/base/net/ip.ts';
import { macFromBytes, parseMac } from '../../src/base/net/mac.ts';
import { linkLocal } from '../../src/dataplane/compile/environment.ts';
import { serviceNextHop } from '../../src/dataplane/pipeline/well-known.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import { addressOf, clusterIp, dnsCache, families, gatewayOf, macOf, nodes, outside, port, services } from '../support/cluster-plan.ts';
import { encodeFrame, encodeGeneve } from '../support/frame.ts';
import { RawSocket } from '../support/raw-socket.ts';
import { gatewayMac, honest, TappedCluster } from '../support/tapped-cluster.ts';
import { patienceMs } from '../support/test-cluster.ts';
import { slowness } from '../support/test-datapath.ts';

/** Pod `a` forges; `b` is its neighbour, `c` is on the other node. */
let tapped: TappedCluster;

beforeAll(async () => {
  tapped = await TappedCluster.start();
}, patienceMs);
afterAll(() => tapped.stop());

const other = nodes[1];

/** Sends frames from `a`, and waits until they have arrived or been dropped. */
async function sendFromA(...frames: readonly Uint8Array[]): Promise<void> {
  for (const frame of frames) tapped.wires.a.send(frame);
  await tapped.settled('ipv4');
}

/** The bytes after the Ethernet header: unchanged on the path in ARP and ND. */
function body(frame: Uint8Array): Uint8Array {
  return frame.subarray(14);
}

/** Far more than OVS forwards at once, and sent within a second. */
const floodFrames = 400;

const broadcast = parseMac('ff:ff:ff:ff:ff:ff');
const allNodes = { ip: parseIp('ff02::1'), mac: parseMac('33:33:00:00:00:01') };

describe('a pod that forges addresses', () => {
  /** The target's MAC is not read, so it identifies a frame. */
  const arp = (fields: Partial<Packet>): Uint8Array => {
    const arpTha = macFromBytes(randomBytes(6));
    const said = { arpOp: 'reply', arpSha: macOf('a'), arpTha, arpTpa: addressOf('b', 'ipv4') } as const;
    return encodeFrame({ ethSrc: macOf('a'), ethDst: macOf('b'), payload: 'arp', ...said, ...fields });
  };

  it('is received with its own addresses', async () => {
    const answer = arp({ arpSpa: addressOf('a', 'ipv4') });
    const announcement = arp({ ethDst: broadcast, arpOp: 'request', arpSpa: addressOf('a', 'ipv4'), arpTpa: addressOf('a', 'ipv4') });
    await sendFromA(answer, announcement);
    expect(tapped.receivedBy(body(answer))).toEqual(['b']);
    expect(tapped.receivedBy(body(announcement))).toEqual(['b', 'n1']);
  });

  it.each<[string, Partial<Packet>]>([
    ['the gateway', { arpSpa: gatewayOf('n1', 'ipv4') }],
    ['its neighbour', { arpSpa: addressOf('b', 'ipv4'), arpTpa: gatewayOf('n1', 'ipv4'), ethDst: gatewayMac }],
    ['another MAC', { arpSpa: addressOf('a', 'ipv4'), arpSha: macOf('b') }],
    ['another MAC on the wire', { arpSpa: addressOf('a', 'ipv4'), ethSrc: macOf('b') }],
    [
      'its neighbour, to everybody',
      { arpOp: 'request', ethDst: broadcast, arpSpa: addressOf('b', 'ipv4'), arpTpa: addressOf('b', 'ipv4') },
    ],
  ])('cannot claim by ARP that it is %s', async (_, fields) => {
    const frame = arp(fields);
    await sendFromA(frame);
    expect(tapped.receivedBy(body(frame))).toEqual([]);
  });

  const ownIpv6 = addressOf('a', 'ipv6');
  const advertise = { ethDst: allNodes.mac, ipSrc: ownIpv6, ipDst: allNodes.ip, icmpType: 136, ndTarget: ownIpv6, ndTll: macOf('a') };
  const nd = (fields: Partial<Packet>): Uint8Array =>
    encodeFrame({ ethSrc: macOf('a'), ethDst: allNodes.mac, payload: 'ipv6', protocol: 'icmp6', icmpCode: 0, ttl: 255, ...fields });

  it('may announce its own IPv6 address', async () => {
    const frame = nd(advertise);
    await sendFromA(frame);
    expect(tapped.receivedBy(body(frame))).toEqual(['b', 'n1']);
  });

  it.each<[string, Partial<Packet>]>([
    ['advertise the gateway', { ...advertise, ndTarget: gatewayOf('n1', 'ipv6') }],
    ['advertise its neighbour', { ...advertise, ndTarget: addressOf('b', 'ipv6') }],
    ['advertise another MAC', { ...advertise, ndTll: macOf('b') }],
    [
      'ask with another MAC',
      {
        icmpType: 135,
        ipSrc: ownIpv6,
        ipDst: addressOf('b', 'ipv6'),
        ethDst: macOf('b'),
        ndTarget: addressOf('b', 'ipv6'),
        ndSll: macOf('c'),
      },
    ],
    [
      'take an address away from its neighbour',
      { icmpType: 135, ipSrc: parseIp('::'), ipDst: allNodes.ip, ndTarget: addressOf('b', 'ipv6') },
    ],
    ['be a router', { icmpType: 134, ipSrc: linkLocal(macOf('a')), ipDst: allNodes.ip }],
    ['be a router for one neighbour', { icmpType: 134, ipSrc: ownIpv6, ipDst: addressOf('b', 'ipv6'), ethDst: macOf('b') }],
    ['redirect', { icmpType: 137, ipSrc: linkLocal(macOf('a')), ipDst: addressOf('b', 'ipv6'), ethDst: macOf('b') }],
    ['redirect as the gateway', { icmpType: 137, ipSrc: linkLocal(gatewayMac), ipDst: addressOf('b', 'ipv6'), ethDst: macOf('b') }],
  ])('cannot %s', async (_, fields) => {
    const frame = nd(fields);
    await sendFromA(frame);
    expect(tapped.receivedBy(body(frame))).toEqual([]);
  });

  it.each([
    [
      'ARP',
      () =>
        encodeFrame({
          ...{
            ethSrc: macOf('b'),
            ethDst: broadcast,
            payload: 'arp',
            arpOp: 'request',
            arpSha: macOf('b'),
            arpTha: macFromBytes(randomBytes(6)),
          },
          ...{ arpSpa: addressOf('b', 'ipv4'), arpTpa: addressOf('b', 'ipv4') },
        }),
    ],
    [
      'an advertisement',
      () => nd({ ...advertise, ethSrc: macOf('b'), ipSrc: addressOf('b', 'ipv6'), ndTarget: addressOf('b', 'ipv6'), ndTll: macOf('b') }),
    ],
    [
      'duplicate address detection',
      () => nd({ ethSrc: macOf('b'), ipSrc: parseIp('::'), ipDst: allNodes.ip, icmpType: 135, ndTarget: addressOf('b', 'ipv6') }),
    ],
  ])('cannot flood its neighbours with its own address by %s', async (_, frameOf) => {
    const frame = frameOf();
    for (let sent = 0; sent < floodFrames; sent++) tapped.wires.b.send(frame);
    await tapped.settled('ipv4');
    const received = tapped.wires.a.frames.filter((each) => each.includes(Buffer.from(body(frame)))).length;
    expect(received).toBeLessThan(floodFrames / 5);
  });

  it('cannot use VLANs or other protocols', async () => {
    const mark = randomBytes(12);
    const tagged = encodeFrame({ ...honest('ipv4', { ip: addressOf('b', 'ipv4'), mac: macOf('b') }), vlan: 0 }, mark);
    const strange = encodeFrame({ ethSrc: macOf('a'), ethDst: macOf('b'), payload: 'other' });
    strange.set(mark, 20);
    await sendFromA(tagged, strange);
    expect(tapped.receivedBy(mark)).toEqual([]);
  });
});

describe.each(families)('over %s, a pod', (family) => {
  const to = { ip: addressOf('b', family), mac: macOf('b') };

  it.each<[string, (packet: Packet) => Packet]>([
    ['its neighbour', (packet) => ({ ...packet, ipSrc: addressOf('b', family) })],
    ['a pod of another node', (packet) => ({ ...packet, ipSrc: addressOf('c', family) })],
    ['the gateway', (packet) => ({ ...packet, ipSrc: gatewayOf('n1', family) })],
    ['its node', (packet) => ({ ...packet, ipSrc: addressOf('n1', family) })],
    ['what else its node has', (packet) => ({ ...packet, ipSrc: dnsCache[family][0] ?? addressOf('n1', family) })],
    ['its node’s loopback', (packet) => ({ ...packet, ipSrc: parseIp(family === 'ipv4' ? '127.0.0.1' : '::1') })],
    ['another Ethernet address', (packet) => ({ ...packet, ethSrc: macOf('b') })],
  ])('cannot send as %s', async (_, lie) => {
    const mark = randomBytes(12);
    const targets = [to, { ip: addressOf('c', family), mac: gatewayMac }, { ip: gatewayOf('n1', family), mac: gatewayMac }];
    await sendFromA(...targets.map((target) => encodeFrame(lie(honest(family, target)), mark)));
    expect(tapped.receivedBy(mark)).toEqual([]);
  });

  it('cannot broadcast', async () => {
    const mark = randomBytes(12);
    const groups = family === 'ipv4' ? ['224.0.0.251', '255.255.255.255'] : ['ff02::fb', 'ff05::2'];
    await sendFromA(...groups.map((group) => encodeFrame(honest(family, { ip: parseIp(group), mac: broadcast }), mark)));
    expect(tapped.receivedBy(mark)).toEqual([]);
  });

  it('cannot reach the apparent source of hairpin connections', async () => {
    const mark = randomBytes(12);
    const ip = parseIp(family === 'ipv4' ? '169.254.0.253' : 'fc01::aabb:ccdd:eeff');
    await sendFromA(encodeFrame(honest(family, { ip, mac: gatewayMac }), mark));
    expect(tapped.receivedBy(mark)).toEqual([]);
  });
});

/** A frame as if from a pod of the other node to `victim`, or from another source. */
function inner(family: Family, victim: 'b' | 'c', mark: Uint8Array, name?: Ip): Uint8Array {
  const source = other?.environment.podCidrs.find((cidr) => cidr.family === family);
  const ipSrc = name ?? (victim === 'b' && source ? cidrAddress(source, 99n) : addressOf('a', family));
  const link = { ethSrc: parseMac('0e:00:00:00:02:01'), ethDst: parseMac('aa:bb:cc:dd:ee:ff') };
  const ports = { protocol: 'udp', portSrc: 4000, portDst: port.closed } as const;
  return encodeFrame({ ...link, payload: family, ipSrc, ipDst: addressOf(victim, family), ttl: 64, ...ports }, mark);
}

async function sendDatagram(from: string, to: string, number: number, data: Uint8Array): Promise<void> {
  const socket = await bindUdpIn(tapped.cluster.place(from), to.includes(':') ? '::' : '0.0.0.0', 0);
  await new Promise<void>((resolve, reject) => socket.send(data, number, to, (error) => (error ? reject(error) : resolve())));
  socket.close();
}

describe.each(families)('a tunnel packet over %s', (family) => {
  it('of a known node arrives, so the forged ones below would', async () => {
    const marks = { b: randomBytes(12), c: randomBytes(12) };
    await sendDatagram('n2', addressOf('n1', family).text, port.tunnel, encodeGeneve(inner(family, 'b', marks.b)));
    await sendDatagram('n1', addressOf('n2', family).text, port.tunnel, encodeGeneve(inner(family, 'c', marks.c)));
    await tapped.wires.b.hears(marks.b);
    await tapped.wires.c.hears(marks.c);
  });

  it.each<[string, string, number, 'b' | 'c']>([
    ['its gateway', gatewayOf('n1', family).text, port.tunnel, 'b'],
    ['its node', addressOf('n1', family).text, port.tunnel, 'b'],
    ['another node, by the masquerade', addressOf('n2', family).text, port.tunnel, 'c'],
    ['another node’s gateway', gatewayOf('n2', family).text, port.tunnel, 'c'],
    ['a Service whose endpoint is its node', clusterIp('tunnelOfFirst', family).text, services.tunnelOfFirst.port, 'b'],
    ['a Service whose endpoint is another node', clusterIp('tunnelOfSecond', family).text, services.tunnelOfSecond.port, 'c'],
  ])('that a pod sends to %s does not, whole or in fragments', async (_, to, number, victim) => {
    const mark = randomBytes(12);
    const geneve = encodeGeneve(inner(family, victim, mark));
    await sendDatagram('a', to, number, geneve);
    await sendDatagram('a', to, number, Buffer.concat([geneve, new Uint8Array(3000)]));
    await afterTheMasquerade();
    expect(tapped.wires[victim].received(mark)).toBe(false);
  });

  it('that a pod of another node sends to this node’s gateway does not', async () => {
    const mark = randomBytes(12);
    await sendDatagram('c', gatewayOf('n1', family).text, port.tunnel, encodeGeneve(inner(family, 'b', mark)));
    tapped.cluster.exec('c', 'ping', '-q', '-c', '1', '-W', '2', addressOf('b', family).text);
    await tapped.settled(family);
    expect(tapped.wires.b.received(mark)).toBe(false);
  });

  it.each<[string, Ip]>([
    ['a pod of this node', addressOf('a', family)],
    ['this node', gatewayOf('n1', family)],
    ['a node’s own address', addressOf('n2', family)],
    ['the outside', outside.router[family]],
    ['a third node’s pod', parseIp(family === 'ipv4' ? '10.10.12.9' : 'fd00:10:0:3::9')],
    ['a client that is its own endpoint', serviceNextHop[family]],
    ['no sender', parseIp(family === 'ipv4' ? '0.0.0.0' : '::')],
  ])('that another node sends with the addresses of %s does not', async (_, name) => {
    const [mark, honestly] = [randomBytes(12), randomBytes(12)];
    await sendDatagram('n2', addressOf('n1', family).text, port.tunnel, encodeGeneve(inner(family, 'b', mark, name)));
    await sendDatagram('n2', addressOf('n1', family).text, port.tunnel, encodeGeneve(inner(family, 'b', honestly)));
    await tapped.wires.b.hears(honestly);
    expect(tapped.wires.b.received(mark)).toBe(false);
  });

  it('that another node sends with others’ addresses is counted', async () => {
    await vi.waitFor(
      () => {
        const dump = tapped.cluster.switchOf('n1').exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', 'table=4,in_port=32768');
        expect(dump).toMatch(/n_packets=[1-9].*priority=100,in_port=32768 actions=drop/);
      },
      { timeout: 10_000, interval: 200 },
    );
  });

  it('of an unknown peer does not, and it is counted', async () => {
    const mark = randomBytes(12);
    // The first one is still being learned when it is counted, OVS may use its earlier decision for a moment, and counters are updated now
    // and then.
    const source = `${family === 'ipv4' ? 'tun_src' : 'tun_ipv6_src'}=${outside.router[family].text}`;
    await vi.waitFor(
      async () => {
        await sendDatagram('external', addressOf('n1', family).text, port.tunnel, encodeGeneve(inner(family, 'b', mark)));
        const counted = tapped.cluster.switchOf('n1').exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', 'table=120');
        expect(counted).toMatch(new RegExp(`n_packets=([2-9]|[0-9]{2,}),.*${source}`));
      },
      { timeout: 10_000, interval: 200 },
    );
    tapped.cluster.exec('external', 'ping', '-q', '-c', '1', '-W', '2', addressOf('n1', family).text);
    await tapped.settled(family);
    expect(tapped.wires.b.received(mark)).toBe(false);
  });

  /** `a`'s earlier frames have arrived by now, if at all: the second node received a later one on the same path. */
  async function afterTheMasquerade(): Promise<void> {
    tapped.cluster.exec('a', 'ping', '-q', '-c', '2', '-i', '0.1', '-W', '2', addressOf('n2', family).text);
    await tapped.settled(family);
  }
});

it.each(families)("a forged tunnel packet over %s would arrive without the bridge's checks", async (family) => {
  const mark = randomBytes(12);
  const flow = `table=4,priority=300,in_port=32768,${family === 'ipv4' ? 'ip' : 'ipv6'}`;
  tapped.cluster.switchOf('n1').exec('ovs-ofctl', '-O', 'OpenFlow15', 'add-flow', 'br-int', `${flow},actions=goto_table:12`);
  const forged = encodeGeneve(inner(family, 'b', mark, addressOf('a', family)));
  // OVS may use its earlier decision about such packets for a moment.
  await vi.waitFor(
    async () => {
      await sendDatagram('n2', addressOf('n1', family).text, port.tunnel, forged);
      expect(tapped.wires.b.received(mark)).toBe(true);
    },
    { timeout: 10_000, interval: 100 },
  );
  tapped.cluster.switchOf('n1').exec('ovs-ofctl', '-O', 'OpenFlow15', '--strict', 'del-flows', 'br-int', flow);
});

describe('a reset of a connection that the node’s tracker does not know', { tags: 'hardening' }, () => {
  /** Address without a responder, so that OVS has the connection as it was opened. */
  const silent: Readonly<Record<Family, Ip>> = { ipv4: parseIp('203.0.113.66'), ipv6: parseIp('2001:db8::66') };
  let external: RawSocket;
  let serial = 21_000;
  beforeAll(() => {
    external = RawSocket.open(tapped.cluster.place('external'), 'wire');
    for (const family of families)
      tapped.cluster.exec('external', 'ip', family === 'ipv4' ? '-4' : '-6', 'route', 'add', 'blackhole', silent[family].text);
  });
  afterAll(() => external.close());

  /** A connection that OVS has seen, so that it does not drop the reset itself, and that the node's tracker has lost. */
  async function reset(family: Family): Promise<Uint8Array> {
    const opened = { ...honest(family, { ip: silent[family], mac: gatewayMac }), protocol: 'tcp', portDst: port.server } as const;
    const portSrc = serial++;
    tapped.wires.a.send(encodeFrame({ ...opened, portSrc, tcpFlags: 'syn' }));
    const forgetting = ['-D', '-f', family, '--zone', '0', '-p', 'tcp', '--orig-port-src', `${portSrc}`];
    await vi.waitFor(() => tapped.cluster.exec('n1', 'conntrack', ...forgetting), { timeout: 5_000 * slowness });
    return encodeFrame({ ...opened, portSrc, tcpFlags: 'rst' });
  }
  /** Source and destination, as in a header. */
  const ends = (family: Family): Uint8Array => Buffer.concat([ipToBytes(addressOf('a', family)), ipToBytes(silent[family])]);

  it.each(families)('does not leave the node with the pod’s own address over %s', async (family) => {
    const later = randomBytes(12);
    tapped.wires.a.send(await reset(family));
    tapped.wires.a.send(encodeFrame(honest(family, { ip: silent[family], mac: gatewayMac }), later));
    await external.hears(later);
    expect(external.received(ends(family))).toBe(false);
  });

  it('would leave with it without the nftables rules', async () => {
    tapped.cluster.switchOf('n1').exec('nft', 'flush', 'chain', 'inet', 'seine', 'forward');
    for (const family of families) {
      tapped.wires.a.send(await reset(family));
      await external.hears(ends(family));
    }
  });
});

it.each(families)('a tunnel packet over %s would arrive without the checks of bridge and nftables', async (family) => {
  const mark = randomBytes(12);
  const payload = family === 'ipv4' ? 'udp' : 'udp6';
  const guard = `table=56,priority=220,reg0=0x3/0xf,${payload},tp_dst=${port.tunnel}`;
  const { exec } = tapped.cluster.switchOf('n1');
  exec('ovs-ofctl', '-O', 'OpenFlow15', '--strict', 'del-flows', 'br-int', guard);
  for (const chain of ['forward', 'prerouting-raw']) exec('nft', 'flush', 'chain', 'inet', 'seine', chain);
  await sendDatagram('a', addressOf('n2', family).text, port.tunnel, encodeGeneve(inner(family, 'c', mark)));
  await tapped.wires.c.hears(mark);
});
