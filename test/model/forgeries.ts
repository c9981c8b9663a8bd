import fc from 'fast-check';
import { cidrAddress, type Family, type Ip, parseIp } from '../../src/base/net/ip.ts';
import { type Mac, parseMac } from '../../src/base/net/mac.ts';
import type { PodIntent } from '../../src/dataplane/compile/compile-pod.ts';
import { linkLocal } from '../../src/dataplane/compile/environment.ts';
import { virtualMac } from '../../src/dataplane/pipeline/well-known.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import type { Arrival } from './conversation.ts';
import type { Scene } from './scene.ts';

type Body = Omit<Packet, 'ethSrc' | 'ethDst'>;

const pick = <T>(...from: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...from);

/** Forged packets: invented, or genuine except for one field. */
export function forgeries(scene: Scene): fc.Arbitrary<Arrival> {
  return fc.oneof(
    { weight: 4, arbitrary: madeUp(scene) },
    { weight: 5, arbitrary: almostTrue(scene) },
    { weight: 1, arbitrary: byTunnel(scene) },
  );
}

function madeUp(scene: Scene): fc.Arbitrary<Arrival> {
  const { node, pods } = scene;
  const port = pick(...pods.map(({ ofPort }) => ofPort), node.gateway.ofPort, node.tunnel.ofPort, 40_000);
  const vlan = pick<Pick<Packet, 'vlan'>>({}, {}, {}, {}, {}, { vlan: 0 }, { vlan: 7 });
  const outer = pick(...tunnelEnds(scene));
  const mac = pick(...macs(scene));
  return fc
    .record({ port, ethSrc: mac, ethDst: mac, body: bodies(scene), vlan, outer })
    .map(({ port: inPort, ethSrc, ethDst, body, vlan: tag, outer: ends }) => ({
      inPort,
      packet: { ...body, ethSrc, ethDst, ...tag, ...(inPort === node.tunnel.ofPort ? ends : {}) },
    }));
}

/** A packet for a pod that a node sends through the tunnel, with any source. */
function byTunnel(scene: Scene): fc.Arbitrary<Arrival> {
  const { node, pods, peers } = scene;
  const pairs = pods
    .flatMap(({ addresses }) => addresses)
    .flatMap((ipDst) => {
      const inside = peers.flatMap(({ podCidrs }) => podCidrs.map((cidr) => cidrAddress(cidr, 9n)));
      const senders = [...knownAddresses(scene), ...peers.flatMap(({ transport }) => transport), ...inside];
      return senders.filter(({ family }) => family === ipDst.family).map((ipSrc) => ({ payload: ipDst.family, ipSrc, ipDst }));
    });
  return fc
    .record({ pair: pick(...pairs), outer: pick(...tunnelEnds(scene)), ethDst: pick(...macs(scene)), ...udp })
    .map(({ pair, outer, ethDst, ...ports }) => ({
      inPort: node.tunnel.ofPort,
      packet: { ...pair, ...ports, ...outer, ethSrc: virtualMac, ethDst, ttl: 64 },
    }));
}

const macFields = ['ethSrc', 'arpSha', 'ndSll', 'ndTll'] as const;
const ipFields = ['arpSpa', 'ipSrc', 'ndTarget'] as const;

/** A valid packet of a pod in which one checked field has another value – or, by chance, the right one. */
function almostTrue(scene: Scene): fc.Arbitrary<Arrival> {
  const mac = pick(...macs(scene));
  const ip = pick(...knownAddresses(scene));
  return fc
    .record({ pod: pick(...scene.pods), ethDst: mac, body: bodies(scene), own: fc.nat(), sender: fc.boolean(), field: fc.nat(), mac, ip })
    .map(({ pod, ethDst, body, own, sender, field, mac: otherMac, ip: otherIp }) => {
      const packet = truthful(pod, { ...body, ethSrc: pod.mac, ethDst }, own, sender);
      const checked = [...macFields, ...ipFields, 'icmpCode' as const].filter((each) => packet[each] !== undefined);
      const lie = checked[field % checked.length] ?? 'ethSrc';
      const value = macFields.some((each) => each === lie) ? otherMac : lie === 'icmpCode' ? 1 : otherIp;
      return { inPort: pod.ofPort, packet: fits(packet, lie, value) ? { ...packet, [lie]: value } : packet };
    });
}

/** IPv4 stays IPv4. */
function fits(packet: Packet, field: keyof Packet, value: Mac | Ip | number): boolean {
  const before = packet[field];
  return typeof value !== 'object' || typeof before !== 'object' || ('family' in before && value.family === before.family);
}

/** A packet as the pod itself would send it. @param sender the unspecified address as source, as in duplicate detection */
function truthful({ mac, addresses }: PodIntent, packet: Packet, which: number, sender: boolean): Packet {
  const ipv4 = addresses.find(({ family }) => family === 'ipv4');
  const global = addresses.filter(({ family }) => family === 'ipv6');
  const own = [...global, ...(global.length > 0 ? [linkLocal(mac)] : [])];
  const ipv6 = own[which % Math.max(own.length, 1)];
  const { arpSha, arpSpa, ndSll, ndTll, ndTarget, payload, icmpType } = packet;
  const said = {
    ...packet,
    ...(arpSha && { arpSha: mac }),
    ...(arpSpa && ipv4 && { arpSpa: ipv4 }),
    ...(ndSll && { ndSll: mac }),
    ...(ndTll && { ndTll: mac }),
    ...(payload === 'ipv4' && ipv4 && { ipSrc: ipv4 }),
    ...(payload === 'ipv6' && (icmpType === undefined ? global[0] && { ipSrc: global[0] } : ipv6 && { ipSrc: ipv6 })),
    ...(ndTarget && icmpType === 136 && ipv6 && { ndTarget: ipv6 }),
  };
  if (!sender || icmpType !== 135 || !ipv6) return said;
  const { ndSll: _, ...probe } = said;
  return { ...probe, ipSrc: parseIp('::'), ndTarget: ipv6 };
}

function macs({ node, pods }: Scene): Mac[] {
  return [...pods.map(({ mac }) => mac), node.gateway.mac, virtualMac, parseMac('0e:66:66:66:66:66'), parseMac('ff:ff:ff:ff:ff:ff')];
}

/** Tunnel addresses of peers, and of an unknown peer. */
function tunnelEnds({ node, peers }: Scene): Pick<Packet, 'tunSrc' | 'tunDst'>[] {
  const sources = [...peers.flatMap(({ transport }) => transport), parseIp('192.168.77.66'), parseIp('fd00:77::66')];
  return sources.flatMap((tunSrc) => {
    const tunDst = node.transport.find(({ family }) => family === tunSrc.family);
    return tunDst ? [{ tunSrc, tunDst }] : [];
  });
}

function knownAddresses({ node, peers, pods }: Scene): Ip[] {
  return [
    ...pods.flatMap(({ mac, addresses }) => [...addresses, linkLocal(mac)]),
    ...node.gateway.addresses,
    linkLocal(node.gateway.mac),
    ...peers.flatMap(({ podCidrs }) => podCidrs.map((cidr) => cidrAddress(cidr, 1n))),
    ...['0.0.0.0', '::', 'ff02::1', '203.0.113.9', '2001:db8::9'].map(parseIp),
  ];
}

function bodies(scene: Scene): fc.Arbitrary<Body> {
  const mac = pick(...macs(scene));
  const [ipv4, ipv6] = (['ipv4', 'ipv6'] as const).map((family: Family) =>
    pick(...knownAddresses(scene).filter((ip) => ip.family === family)),
  ) as [fc.Arbitrary<Ip>, fc.Arbitrary<Ip>];
  return fc.oneof(
    fc.record({
      payload: pick<'arp'>('arp'),
      arpOp: pick<'request' | 'reply'>('request', 'reply'),
      arpSha: mac,
      arpSpa: ipv4,
      arpTha: mac,
      arpTpa: ipv4,
    }),
    { weight: 3, arbitrary: neighbourMessages(ipv6, mac) },
    fc.record({ payload: pick<'ipv4'>('ipv4'), ipSrc: ipv4, ipDst: ipv4, ttl: pick(64), ...udp }),
    fc.record({ payload: pick<'ipv6'>('ipv6'), ipSrc: ipv6, ipDst: ipv6, ttl: pick(64), ...udp }),
    fc.record({ payload: pick<'other'>('other') }),
  );
}

const udp = { protocol: pick<'udp'>('udp'), portSrc: fc.integer({ min: 1024, max: 60_000 }), portDst: pick(9, 6081) };

function neighbourMessages(ip: fc.Arbitrary<Ip>, mac: fc.Arbitrary<Mac>): fc.Arbitrary<Body> {
  const message = {
    payload: pick<'ipv6'>('ipv6'),
    protocol: pick<'icmp6'>('icmp6'),
    ipSrc: ip,
    ipDst: ip,
    ttl: pick(255),
    icmpCode: pick(0, 0, 0, 0, 1),
  };
  const solicitation = fc.record({ ...message, icmpType: pick(135), ndTarget: ip });
  const advertisement = fc.record({ ...message, icmpType: pick(136), ndTarget: ip });
  return fc.oneof(
    solicitation,
    fc.record({ message: solicitation, ndSll: mac }).map(({ message: fields, ndSll }) => ({ ...fields, ndSll })),
    advertisement,
    fc.record({ message: advertisement, ndTll: mac }).map(({ message: fields, ndTll }) => ({ ...fields, ndTll })),
    fc.record({ ...message, icmpType: pick(133, 134, 137) }),
  );
}
