import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bindUdpIn } from '../../lab/probe/sockets.ts';
import { cidrAddress, type Family, type Ip } from '../../src/base/net/ip.ts';
import { type Mac, parseMac } from '../../src/base/net/mac.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import { echoReply, echoRequest } from '../../src/dataplane/switch-model/packet.ts';
import { addressOf, clusterIp, families, gatewayOf, macOf, nodes, outside, port, services } from '../support/cluster-plan.ts';
import { encodeError, encodeFrame, encodeGeneve } from '../support/frame.ts';
import { gatewayMac, TappedCluster } from '../support/tapped-cluster.ts';
import { datapath, patienceMs } from '../support/test-cluster.ts';

/**
 * Handmade ICMP errors. Pods `a` and `b` are neighbours, `c` is on the other node. An error that bypasses policy must come from an end of
 * the connection that it quotes.
 */
let tapped: TappedCluster;

beforeAll(async () => {
  tapped = await TappedCluster.start();
  // The first packets of a tunnel may be lost on the userspace data path.
  for (const family of families) tapped.cluster.exec('c', 'ping', '-q', '-c', '3', '-i', '0.2', '-W', '2', addressOf('a', family).text);
  // The kernel of a pod must not answer: the kernel's tracker drops a connection whose only answer is a reset.
  const silence =
    'add table inet silent; add chain inet silent in { type filter hook input priority 0; }; add rule inet silent in meta l4proto { tcp, udp, sctp } drop';
  const echoes = 'add rule inet silent in icmp type echo-request drop; add rule inet silent in icmpv6 type echo-request drop';
  for (const pod of ['a', 'b', 'c']) tapped.cluster.exec(pod, 'nft', `${silence}; ${echoes}`);
}, patienceMs);
afterAll(() => tapped.stop());

const second = nodes[1];
const macs: Readonly<Record<string, Mac>> = {
  n1: gatewayMac,
  n2: second?.environment.gateway.mac ?? gatewayMac,
};

/** Destination MAC of frames between the two. */
function next(from: string, to: string): Mac {
  const node = (who: string): string => (who === 'c' || who === 'n2' ? 'n2' : 'n1');
  if (node(from) === node(to)) return macs[to] ?? macOf(to);
  return from.startsWith('n') ? parseMac('aa:bb:cc:dd:ee:ff') : (macs[node(from)] ?? gatewayMac);
}

function ipOf(who: string, family: Family): Ip {
  return who.startsWith('n') ? gatewayOf(who, family) : addressOf(who, family);
}

function link(from: string, to: string): Pick<Packet, 'ethSrc' | 'ethDst'> {
  return { ethSrc: macs[from] ?? macOf(from), ethDst: next(from, to) };
}

type Wire = keyof TappedCluster['wires'];
type Kind = 'udp' | 'tcp' | 'icmp' | 'sctp';
/** The kernel's tracker checks checksums of SCTP, which these frames do not have. */
const kinds: readonly Kind[] = ['udp', 'tcp', 'icmp', ...(datapath === 'system' ? [] : (['sctp'] as const))];
let serial = 20_000;

/** A new connection. */
function opened(family: Family, kind: Kind, from: string, to: string): { readonly there: Packet; readonly back: Packet } {
  const number = serial++;
  const ends = { ...link(from, to), payload: family, ipSrc: ipOf(from, family), ipDst: ipOf(to, family), ttl: 64 } as const;
  const reversed = { ...ends, ipSrc: ends.ipDst, ipDst: ends.ipSrc };
  if (kind === 'icmp') {
    const protocol = family === 'ipv4' ? 'icmp' : 'icmp6';
    const echo = { protocol, icmpCode: 0, icmpId: number } as const;
    return {
      there: { ...ends, ...echo, icmpType: echoRequest[protocol] },
      back: { ...reversed, ...echo, icmpType: echoReply[protocol] },
    };
  }
  const flags = (tcpFlags: 'syn' | 'syn-ack') => (kind === 'tcp' ? { tcpFlags } : {});
  return {
    there: { ...ends, protocol: kind, portSrc: number, portDst: port.closed, ...flags('syn') },
    back: { ...reversed, protocol: kind, portSrc: port.closed, portDst: number, ...flags('syn-ack') },
  };
}

function sendError(family: Family, from: Wire, to: Wire, quoted: Packet): Uint8Array {
  const mark = randomBytes(12);
  tapped.wires[from].send(encodeError({ ...link(from, to), ipSrc: ipOf(from, family), ipDst: ipOf(to, family) }, quoted, mark));
  return mark;
}

/** Sends an error, and waits until it arrives. */
async function arrives(family: Family, from: Wire, to: Wire, quoted: Packet): Promise<void> {
  await tapped.wires[to].hears(sendError(family, from, to, quoted));
}

/** Sends an error of a pod, and returns the receivers of its content after all sent frames have arrived or been dropped. */
async function error(family: Family, from: 'a' | 'b' | 'c', to: Wire, quoted: Packet): Promise<string[]> {
  const mark = sendError(family, from, to, quoted);
  await settled(family);
  return (['a', 'b', 'c', 'n1', 'n2'] as const).filter((who) => who !== from && tapped.wires[who].received(mark));
}

/** Each of these pods sends to all others and to the gateway of the first node; waits until all have arrived. */
async function settled(family: Family): Promise<void> {
  const waiting: Promise<void>[] = [];
  for (const from of ['a', 'b', 'c'] as const)
    for (const to of ['a', 'b', 'c', 'n1'] as const) {
      if (from === to) continue;
      const mark = randomBytes(12);
      const ports = { protocol: 'udp', portSrc: 4000, portDst: port.closed } as const;
      const ends = { payload: family, ipSrc: ipOf(from, family), ipDst: ipOf(to, family), ttl: 64 } as const;
      tapped.wires[from].send(encodeFrame({ ...link(from, to), ...ends, ...ports }, mark));
      waiting.push(tapped.wires[to].hears(mark));
    }
  await Promise.all(waiting);
}

describe.each(families)('over %s', { tags: 'hardening' }, (family) => {
  describe.each(kinds)('an error about %s', (kind) => {
    it('reaches a pod of another node from the end of the connection, and from no other pod', async () => {
      const { there } = opened(family, kind, 'c', 'b');
      tapped.wires.c.send(encodeFrame(there));
      await settled(family);
      expect(await error(family, 'a', 'c', there)).toEqual([]);
      await arrives(family, 'b', 'c', there);
    });

    it('reaches a neighbour from the end of the connection that opened it, and from no other pod', async () => {
      const { there } = opened(family, kind, 'b', 'c');
      tapped.wires.b.send(encodeFrame(there));
      await settled(family);
      expect(await error(family, 'a', 'b', there)).toEqual([]);
      await arrives(family, 'c', 'b', there);
    });

    it('is accepted from both ends on one node', async () => {
      const { there, back } = opened(family, kind, 'a', 'b');
      tapped.wires.a.send(encodeFrame(there));
      tapped.wires.b.send(encodeFrame(back));
      await settled(family);
      await arrives(family, 'b', 'a', there);
      // On the kernel's data path OVS does not learn which side opened the connection of an error from the opening side.
      if (datapath === 'system') expect(await error(family, 'a', 'b', back)).toEqual([]);
      else await arrives(family, 'a', 'b', back);
    });
  });

  it('an error of the other node about a connection to one of its pods reaches the pod that opened it', async () => {
    const { there } = opened(family, 'udp', 'a', 'c');
    tapped.wires.a.send(encodeFrame(there));
    await settled(family);
    await arrives(family, 'n2', 'a', there);
  });

  it('an error of an external router reaches a pod through the gateway, about a connection that came through it', async () => {
    const { there, back } = opened(family, 'udp', 'n1', 'a');
    tapped.wires.n1.send(encodeFrame(there));
    await settled(family);
    const mark = randomBytes(12);
    const ends = { ...link('n1', 'a'), ipSrc: outside.router[family], ipDst: addressOf('a', family) };
    tapped.wires.n1.send(encodeError(ends, back, mark));
    await tapped.wires.a.hears(mark);
  });

  it('an error from the tunnel about a connection between pods of this node does not arrive', async () => {
    const { there } = opened(family, 'udp', 'a', 'b');
    tapped.wires.a.send(encodeFrame(there));
    await settled(family);
    const network = second?.environment.podCidrs.find((cidr) => cidr.family === family);
    if (!network) throw new Error(`the second node has no network of ${family}`);
    const mark = randomBytes(12);
    const forged = (ipSrc: Ip, quoted: Packet, data: Uint8Array) =>
      encodeError(
        { ethSrc: parseMac('0e:00:00:00:02:01'), ethDst: parseMac('aa:bb:cc:dd:ee:ff'), ipSrc, ipDst: addressOf('a', family) },
        quoted,
        data,
      );
    const remote = opened(family, 'udp', 'a', 'c').there;
    tapped.wires.a.send(encodeFrame(remote));
    await settled(family);
    const honestly = randomBytes(12);
    for (const frame of [forged(cidrAddress(network, 99n), there, mark), forged(addressOf('c', family), remote, honestly)]) {
      const socket = await bindUdpIn(tapped.cluster.place('n2'), '0.0.0.0', 0);
      await new Promise<void>((resolve, reject) =>
        socket.send(encodeGeneve(frame), port.tunnel, addressOf('n1', 'ipv4').text, (fault) => (fault ? reject(fault) : resolve())),
      );
      socket.close();
    }
    await tapped.wires.a.hears(honestly);
    expect(tapped.wires.a.received(mark)).toBe(false);
  });

  it('an error about a connection through a Service reaches its client from the endpoint, and from no other pod', async () => {
    const byService = (service: 'twice' | 'twiceHere', from: Wire, endpoint: 'b' | 'c') => {
      const ends = { ...link(from, 'n1'), payload: family, ipSrc: ipOf(from, family), ttl: 64 } as const;
      const [protocol, portSrc] = ['udp', serial++] as const;
      const request = { ...ends, protocol, portSrc, ipDst: clusterIp(service, family), portDst: services[service].port } as const;
      const toBridge = from === 'n1' ? { ethDst: parseMac('aa:bb:cc:dd:ee:ff') } : {};
      tapped.wires[from].send(encodeFrame({ ...request, ...toBridge }));
      return { ...request, ipDst: ipOf(endpoint, family), portDst: port.datagrams };
    };
    const [local, remote, ofNode] = [byService('twiceHere', 'a', 'b'), byService('twice', 'a', 'c'), byService('twiceHere', 'n1', 'b')];
    await settled(family);
    await arrives(family, 'b', 'a', local);
    await arrives(family, 'c', 'a', remote);
    await arrives(family, 'n2', 'a', remote);
    expect(await error(family, 'a', 'n1', ofNode)).toEqual([]);
    await arrives(family, 'b', 'n1', ofNode);
  });
});
