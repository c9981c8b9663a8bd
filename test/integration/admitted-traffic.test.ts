import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Family, type Ip, parseIp } from '../../src/base/net/ip.ts';
import { macFromBytes } from '../../src/base/net/mac.ts';
import { zones } from '../../src/dataplane/pipeline/well-known.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import { addressOf, clusterIp, dnsCache, families, gatewayOf, macOf, port, services } from '../support/cluster-plan.ts';
import { encodeFrame, tcpSteps } from '../support/frame.ts';
import { gatewayMac, TappedCluster } from '../support/tapped-cluster.ts';
import { datapath, patienceMs } from '../support/test-cluster.ts';

/**
 * Two pods that may not communicate: `b` connects to a Service whose only endpoint is `a`. The connection is committed when its endpoint is
 * chosen, before policy decides about it, and `a` knows the answer without a request.
 *
 * Flows of the test decide in place of policy: opening packets between the two are dropped.
 */
let tapped: TappedCluster;
const [client, endpoint] = ['b', 'a'] as const;
const transports = ['tcp', 'udp'] as const;
type Transport = (typeof transports)[number];
/** The kernel's data path forwards other packets while one waits for an upcall, and a new one waits for up to four upcalls (ms). */
const upcallsMs = datapath === 'system' ? 1_500 : 0;
/** Source port, another one for each connection. */
let clientPort = 20_000;

beforeAll(async () => {
  tapped = await TappedCluster.start();
  // Their own kernels do not know these connections, and would reset them.
  for (const pod of [client, endpoint])
    tapped.cluster.exec(pod, 'nft', 'add table inet quiet; add chain inet quiet out { type filter hook output priority 0; policy drop; }');
}, patienceMs);
afterAll(() => tapped.stop());

/**
 * Flows that deny requests between the two, that is, everything but answers: nothing begins, and present connections are marked as not
 * admitted. A packet that conntrack calls invalid is denied, and marks nothing.
 */
function denials(family: Family, transport: Transport): (readonly [match: string, actions: string])[] {
  const payload = `${transport}${family === 'ipv6' ? '6' : ''}`;
  const to = (who: string) => `${family === 'ipv4' ? 'nw' : 'ipv6'}_dst=${addressOf(who, family).text}`;
  const asking = 'table=36,reg0=0/0x1c00';
  const ends = [
    `in_port=32785,${payload},${to(endpoint)},tp_dst=${port.server}`,
    `in_port=32784,${payload},${to(client)},tp_src=${port.server}`,
  ];
  const bar = `ct(commit,zone=${zones[family].main},exec(set_field:0x80/0x80->ct_mark))`;
  return ends.flatMap((end) => [
    [`${asking},priority=60001,ct_state=-new-inv+trk,ct_mark=0/0x80,${end}`, bar],
    [`${asking},priority=60000,${end}`, 'drop'],
  ]);
}

function deny(family: Family, transport: Transport): void {
  for (const [match, actions] of denials(family, transport)) ofctl('add-flow', 'br-int', `${match},actions=${actions}`);
  obeyed();
}

function allow(family: Family, transport: Transport): void {
  for (const [match] of denials(family, transport)) ofctl('--strict', 'del-flows', 'br-int', match);
  obeyed();
}

/** Clears the cached megaflows, which the data path would use for a while: ovs-vswitchd(8), revalidator/purge. */
function obeyed(): void {
  tapped.cluster.switchOf('n1').exec('ovs-appctl', 'revalidator/purge');
}

const ofPorts = { a: 32784, b: 32785 } as const;

/** Marks the pod as a subject of class `closed`. */
function close(who: 'a' | 'b'): void {
  const load = 'set_field:0x800/0x3ff800->reg13';
  ofctl('add-flow', 'br-int', `table=36,priority=200,in_port=${ofPorts[who]},actions=${load},goto_table:37`);
  ofctl('add-flow', 'br-int', `table=80,priority=200,reg1=${ofPorts[who]},actions=${load},goto_table:81`);
  obeyed();
}

function free(who: 'a' | 'b'): void {
  ofctl('add-flow', 'br-int', `table=80,priority=200,reg1=${ofPorts[who]},actions=goto_table:100`);
  ofctl('add-flow', 'br-int', `table=36,priority=200,in_port=${ofPorts[who]},actions=goto_table:56`);
  obeyed();
}

/**
 * Sources that are received through the gateway: the node itself, external clients, and the other pod through a port of the node. The
 * node's own packet is the last: an earlier packet that is missing then never comes.
 */
async function receivedByGateway(who: 'a' | 'b', other: 'a' | 'b', family: Family): Promise<readonly string[]> {
  const sources = { external: parseIp(family === 'ipv4' ? '203.0.113.77' : '2001:db8:77::7'), pod: addressOf(other, family) };
  const ends = { ethSrc: gatewayMac, ethDst: macOf(who), ipDst: addressOf(who, family) };
  const send = (ipSrc: Ip): Uint8Array => {
    const mark = randomBytes(12);
    const packet: Packet = { ...ends, ipSrc, payload: family, protocol: 'udp', ttl: 64, portSrc: ++clientPort, portDst: port.server };
    tapped.wires.n1.send(encodeFrame(packet, mark));
    return mark;
  };
  const marks = Object.entries(sources).map(([name, ip]) => [name, send(ip)] as const);
  await tapped.wires[who].hears(send(gatewayOf('n1', family)));
  if (upcallsMs > 0) await Promise.allSettled(marks.map(([, mark]) => tapped.wires[who].hears(mark, upcallsMs)));
  return [...marks.filter(([, mark]) => tapped.wires[who].received(mark)).map(([name]) => name), 'node'];
}

function ofctl(...words: readonly string[]): void {
  tapped.cluster.switchOf('n1').exec('ovs-ofctl', '-O', 'OpenFlow15', ...words);
}

interface End {
  readonly ip: Ip;
  readonly port: number;
}

type Segment = keyof typeof tcpSteps;
type Ends = readonly ['a' | 'b', 'a' | 'b'];

/**
 * A client's connection to the Service, or to the endpoint itself, and the endpoint's packets; each reports whether the other end received
 * it.
 */
function connection(family: Family, transport: Transport, to: 'service' | 'endpoint' = 'service', [from, at] = [client, endpoint] as Ends) {
  const number = ++clientPort;
  const server =
    to === 'service' ? { ip: clusterIp('onlyA', family), port: services.onlyA.port } : { ip: addressOf(at, family), port: port.server };
  const link = { payload: family, protocol: transport, ttl: 64 } as const;
  const asked: Packet = {
    ...link,
    ethSrc: macOf(from),
    ethDst: gatewayMac,
    ipSrc: addressOf(from, family),
    ipDst: server.ip,
    portSrc: number,
    portDst: server.port,
  };
  const answered: Packet = {
    ...link,
    ethSrc: macOf(at),
    ethDst: gatewayMac,
    ipSrc: addressOf(at, family),
    ipDst: addressOf(from, family),
    portSrc: port.server,
    portDst: number,
  };
  const transmit = async (packet: Packet, step: Segment, ports: readonly number[], [speaker, hearer]: Ends): Promise<boolean> => {
    const mark = randomBytes(12);
    tapped.wires[hearer].frames.length = 0;
    tapped.wires[speaker].send(encodeFrame({ ...packet, ...(transport === 'tcp' && { tcpFlags: step }) }, mark));
    await settled(speaker);
    const bytes = transport === 'udp' ? mark : segment(ports, step);
    return tapped.wires[hearer].hears(bytes, upcallsMs).then(
      () => true,
      () => false,
    );
  };
  return {
    asks: (step: Segment) => transmit(asked, step, [number, port.server], [from, at]),
    answers: (step: Segment) => transmit(answered, step, [server.port, number], [at, from]),
  };
}

/** Beginning of a TCP header: ports and sequence number. */
function segment([src = 0, dst = 0]: readonly number[], step: Segment): Uint8Array {
  const head = Buffer.alloc(8);
  head.writeUInt16BE(src, 0);
  head.writeUInt16BE(dst, 2);
  head.writeUInt32BE(tcpSteps[step].seq, 4);
  return head;
}

/** Waits until a packet of this pod that was sent before and has not arrived never will. ARP is always allowed. */
async function settled(who: 'a' | 'b'): Promise<void> {
  const other = who === 'a' ? 'b' : 'a';
  for (const [to, ethDst, arpTpa] of [
    ['n1', gatewayMac, gatewayOf('n1', 'ipv4')],
    [other, macOf(other), addressOf(other, 'ipv4')],
  ] as const) {
    const mark = randomBytes(6);
    const own = { ethSrc: macOf(who), arpSha: macOf(who), arpSpa: addressOf(who, 'ipv4') };
    tapped.wires[who].send(encodeFrame({ ...own, ethDst, payload: 'arp', arpOp: 'reply', arpTha: macFromBytes(mark), arpTpa }));
    await tapped.wires[to].hears(mark);
  }
}

describe.each(families)('over %s', (family) => {
  it('a pod without its flow in an entry table sends nothing, or receives nothing: no answers either', async () => {
    const entries = { sends: 'table=36,priority=200,in_port=32785', receives: 'table=80,priority=200,reg1=0x8011' };
    const { asks, answers } = connection(family, 'udp', 'endpoint');
    const { asks: asked, answers: answered } = connection(family, 'udp', 'endpoint', [endpoint, client]);
    const talk = async () => [await asks('syn'), await answers('syn-ack'), await asked('syn'), await answered('syn-ack')];
    expect(await talk()).toEqual([true, true, true, true]);
    ofctl('--strict', 'del-flows', 'br-int', entries.sends);
    await expect.poll(talk).toEqual([false, true, true, false]);
    ofctl('--strict', 'del-flows', 'br-int', entries.receives);
    await expect.poll(talk).toEqual([false, false, false, false]);
    ofctl('add-flow', 'br-int', `${entries.receives},actions=goto_table:100`);
    ofctl('add-flow', 'br-int', `${entries.sends},actions=goto_table:56`);
    await expect.poll(talk).toEqual([true, true, true, true]);
  });

  describe.each(transports)('%s', (transport) => {
    it('is received by both, if both are allowed', async () => {
      const { asks, answers } = connection(family, transport);
      expect([await asks('syn'), await answers('syn-ack'), await asks('ack'), await answers('ack-back')]).toEqual([true, true, true, true]);
    });

    it('is not answered by an endpoint without a request, if it was not admitted', async () => {
      const { asks, answers } = connection(family, transport);
      deny(family, transport);
      try {
        const begun = [await asks('syn'), await answers('syn-ack')];
        const goesOn = [await asks('ack'), await answers('ack-back'), await asks('syn'), await answers('rst')];
        expect([...begun, ...goesOn]).toEqual([false, false, false, false, false, false]);
      } finally {
        allow(family, transport);
      }
    });

    it('continues with the client’s next packet, once it is allowed', async () => {
      const { asks, answers } = connection(family, transport);
      deny(family, transport);
      expect([await asks('syn'), await asks('syn')]).toEqual([false, false]);
      allow(family, transport);
      await expect.poll(() => asks('syn')).toBe(true);
      expect([await answers('syn-ack'), await asks('ack'), await answers('ack-back')]).toEqual([true, true, true]);
    });
  });

  it.each(['service', 'endpoint'] as const)(
    'an admitted connection to the %s ends when it is denied, and continues when it is allowed',
    async (to) => {
      const { asks, answers } = connection(family, 'tcp', to);
      expect([await asks('syn'), await answers('syn-ack'), await asks('ack'), await answers('ack-back')]).toEqual([true, true, true, true]);
      deny(family, 'tcp');
      try {
        await expect.poll(() => asks('ack')).toBe(false);
        await expect.poll(() => answers('ack-back')).toBe(false);
      } finally {
        allow(family, 'tcp');
      }
      await expect.poll(() => asks('ack')).toBe(true);
      await expect.poll(() => answers('ack-back')).toBe(true);
    },
  );

  it('a pod blocked pending policy is marked as not admitted for others and received again once it is free; its node reaches it', async () => {
    const { asks, answers } = connection(family, 'tcp', 'endpoint');
    const fromOther = connection(family, 'udp', 'endpoint', [endpoint, client]);
    expect([await asks('syn'), await answers('syn-ack'), await asks('ack'), await answers('ack-back')]).toEqual([true, true, true, true]);
    expect(await receivedByGateway(client, endpoint, family)).toEqual(['external', 'pod', 'node']);
    close(client);
    try {
      await expect.poll(() => asks('ack')).toBe(false);
      expect([await answers('ack-back'), await asks('syn'), await fromOther.asks('syn')]).toEqual([false, false, false]);
      expect(await receivedByGateway(client, endpoint, family)).toEqual(['node']);
    } finally {
      free(client);
    }
    await expect.poll(() => asks('ack')).toBe(true);
    expect([await answers('ack-back'), await fromOther.asks('syn')]).toEqual([true, true]);
  });

  it.each(['itself', 'the Service'] as const)(
    'a pod blocked pending policy reaches its node’s DNS cache, by the address of %s',
    async (whose) => {
      const ip = dnsCache[family][whose === 'itself' ? 0 : 1] ?? gatewayOf('n1', family);
      const ends = { asking: { ip: addressOf(client, family), port: ++clientPort }, cache: { ip, port: 53 } };
      const transmit = async (speaker: typeof client | 'n1', src: End, dst: End): Promise<void> => {
        const [ethSrc, ethDst] = speaker === 'n1' ? [gatewayMac, macOf(client)] : [macOf(client), gatewayMac];
        const packet: Packet = {
          ethSrc,
          ethDst,
          payload: family,
          protocol: 'udp',
          ttl: 64,
          ipSrc: src.ip,
          ipDst: dst.ip,
          portSrc: src.port,
          portDst: dst.port,
        };
        const mark = randomBytes(12);
        tapped.wires[speaker].send(encodeFrame(packet, mark));
        await tapped.wires[speaker === 'n1' ? client : 'n1'].hears(mark);
      };
      close(client);
      try {
        await transmit(client, ends.asking, ends.cache);
        await transmit('n1', ends.cache, ends.asking);
        // Nothing begins with the address of a Service.
        if (whose === 'itself') await transmit('n1', ends.cache, { ...ends.asking, port: ++clientPort });
      } finally {
        free(client);
      }
    },
  );

  it.each([
    ['a flow denies', () => deny(family, 'tcp'), () => allow(family, 'tcp')],
    ['policy denies', () => close(client), () => free(client)],
  ])('two endpoints whose segments are all out of window stop when %s it', async (_, end, begin) => {
    const { asks, answers } = connection(family, 'tcp', 'endpoint');
    expect([await asks('syn'), await answers('syn-ack'), await asks('ack')]).toEqual([true, true, true]);
    expect([await asks('far-off'), await answers('far-off')]).toEqual([true, true]);
    end();
    try {
      await expect.poll(async () => [await asks('far-off'), await answers('far-off')]).toEqual([false, false]);
      // On the userspace data path this has marked nothing: an invalid packet has no direction there. The kernel's calls no out-of-window
      // packet invalid, since Linux 5.12. The next packet with a direction marks.
      expect(await answers('ack-back')).toBe(datapath === 'netdev');
      expect([await asks('ack'), await answers('ack-back'), await answers('far-off')]).toEqual([false, false, false]);
    } finally {
      begin();
    }
  });
});
