import { randomBytes, randomInt } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Family, hostCidr } from '../../src/base/net/ip.ts';
import { macFromBytes, macToBytes } from '../../src/base/net/mac.ts';
import { compileSubject } from '../../src/dataplane/compile/compile-entry.ts';
import { compileOpenings, openingsOwner } from '../../src/dataplane/compile/compile-openings.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import type { Flow, MatchProtocol } from '../../src/dataplane/pipeline/flow.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import { addressFlow, directionTables, identityOf, otherwiseFlow, rangeFlows, relationFlow } from '../../src/policy/flows/rows.ts';
import type { DecidedRange, PolicyOutcome } from '../../src/policy/matrix/matrix.ts';
import { addressOf, clusterIp, families, macOf, nodes, port, services } from '../support/cluster-plan.ts';
import { encodeFrame } from '../support/frame.ts';
import { fragmentsOf } from '../support/frame-fragments.ts';
import { gatewayMac, TappedCluster } from '../support/tapped-cluster.ts';
import { datapath, patienceMs } from '../support/test-cluster.ts';
import { slowness } from '../support/test-datapath.ts';
import { Unixctl } from '../support/unixctl.ts';

/*
 * Packets with fewer fields than others: rules decide by ports and none is present. `b` is isolated in egress, and may send to one port;
 * `a` is free.
 */
let tapped: TappedCluster;

beforeAll(async () => {
  tapped = await TappedCluster.start();
  // Their own kernels do not know these connections, and would answer.
  for (const pod of ['a', 'b'] as const)
    tapped.cluster.exec(pod, 'nft', 'add table inet quiet; add chain inet quiet out { type filter hook output priority 0; policy drop; }');
}, patienceMs);
afterAll(() => tapped.stop());

type Speaker = 'a' | 'b';
const intents = new Map(nodes.flatMap(({ pods }) => pods.map(({ name, intent }) => [name, intent] as const)));
/** Time for which a denied pod sends. */
const floodMs = 1_000 * Number(process.env['SEINE_TEST_POLICY_FLOOD_S'] ?? 1);
/** Lifetime of an unanswered entry, with the tracker's sweep (s). */
const lifeS = 30 + 10;
const subjectClass = 5;
const decision = 9;
const allow: PolicyOutcome = { verdict: 'allow', by: ['test/one spec.egress[0]'] };
const deny: PolicyOutcome = { verdict: 'deny', by: ['test/one'] };

/** State of `b`: it is free, everything is allowed or denied alike, or its ports decide. */
async function hold(
  what: 'free' | 'allow' | 'deny' | readonly DecidedRange['protocol'][],
  direction: 'egress' | 'ingress' = 'egress',
): Promise<void> {
  const { ofPort, addresses } = intents.get('b') ?? { ofPort: 0, addresses: [] };
  const tables = directionTables[direction];
  const rows = (): readonly Flow[] => {
    if (what === 'free') return [];
    if (typeof what === 'string') return [relationFlow(tables, subjectClass, {}, { verdict: what })];
    const ranges = what.map((protocol): DecidedRange => ({ protocol, first: port.server, last: port.server, outcome: allow }));
    return [
      relationFlow(tables, subjectClass, {}, { decision }),
      ...ranges.flatMap((range) => rangeFlows(tables, decision, range, families)),
      otherwiseFlow(tables, decision, deny),
    ];
  };
  const subject = compileSubject({ ofPort, addresses, ...(what === 'free' ? {} : { [direction]: subjectClass }) });
  const owner = ownerOf('policy', direction, 'test');
  if (what !== 'free') await tapped.cluster.hold('n1', owner, { ...nothing, flows: rows() });
  await tapped.cluster.hold('n1', ownerOf('subject', `${ofPort}`), { ...nothing, flows: subject });
  if (what === 'free') await tapped.cluster.hold('n1', owner, nothing);
}

/** State of `b`: it may not send, and opens this number of connections to Services a second. */
async function limited(openings: number): Promise<void> {
  const intent = { ofPort: intents.get('b')?.ofPort ?? 0, addresses: [], egress: subjectClass, openings };
  await tapped.cluster.hold('n1', openingsOwner(ownerOf('subject', 'b')), compileOpenings(intent));
}

async function tracked(): Promise<number> {
  const control = await Unixctl.open(tapped.cluster.switchOf('n1').runDir);
  try {
    return Number(await control.run('dpctl/ct-get-nconns'));
  } finally {
    control.close();
  }
}

/**
 * State of `a`: a class of the Admin tier, which denies or passes what comes from its own address or goes there, and allows the rest. Its
 * NetworkPolicies allow nothing.
 */
async function holdOfTiers(direction: 'egress' | 'ingress', toItself: 'deny' | 'next' | 'free'): Promise<void> {
  const { ofPort, addresses } = intents.get('a') ?? { ofPort: 0, addresses: [] };
  const tables = directionTables[direction];
  const own = { coarse: 3, fine: 0 };
  const rows = (verdict: 'deny' | 'next'): readonly Flow[] => [
    ...addresses.map((ip) => addressFlow(tables, hostCidr(ip), identityOf(tables, own))),
    relationFlow(tables, subjectClass, { coarse: own.coarse }, { verdict }, 'admin'),
    relationFlow(tables, subjectClass, {}, { verdict: 'allow' }, 'admin'),
    relationFlow(tables, subjectClass, {}, { verdict: 'deny' }),
  ];
  const classes = toItself === 'free' ? {} : { [direction]: subjectClass, cluster: { [direction]: { admin: subjectClass } } };
  const owner = ownerOf('policy', direction, 'tiers');
  if (toItself !== 'free') await tapped.cluster.hold('n1', owner, { ...nothing, flows: rows(toItself) });
  await tapped.cluster.hold('n1', ownerOf('subject', `${ofPort}`), {
    ...nothing,
    flows: compileSubject({ ofPort, addresses, ...classes }),
  });
  if (toItself === 'free') await tapped.cluster.hold('n1', owner, nothing);
}

/** Reports whether a datagram of `a` to a Service arrives, whose endpoint is `a`. */
async function reachesItself(family: Family, portSrc: number): Promise<boolean> {
  const mark = randomBytes(12);
  const ends = { ethSrc: macOf('a'), ethDst: gatewayMac, ipSrc: addressOf('a', family), ipDst: clusterIp('onlyADatagrams', family) };
  const ports = { portSrc, portDst: services.onlyADatagrams.port };
  tapped.wires.a.send(encodeFrame({ ...ends, payload: family, protocol: 'udp', ttl: 64, ...ports }, mark));
  await settled('a');
  return tapped.wires.a.received(mark);
}

/** A SYN to a Service of one endpoint. */
function opening(family: Family, from: Speaker, service: 'onlyA' | 'onlyC', portSrc: number): Uint8Array {
  const ends = { ethSrc: macOf(from), ethDst: gatewayMac, ipSrc: addressOf(from, family), ipDst: clusterIp(service, family) };
  return encodeFrame({ ...ends, payload: family, protocol: 'tcp', ttl: 64, portSrc, portDst: services[service].port, tcpFlags: 'syn' });
}

/** Ports unused by earlier tests, whose connections conntrack still has. */
let clientPort = 30_000;

interface Conversation {
  readonly from: Speaker;
  readonly protocol: MatchProtocol;
  readonly portSrc: number;
  readonly portDst: number;
}

/** Maximum time by which packets may be reordered (ms), in an emulated host. */
const overtakenMs = 3_000;

/** Sends a datagram, in fragments if `size` is more than one frame takes. @returns whether its first and its last bytes arrived */
async function received(family: Family, { from, ...ports }: Conversation, size = 24): Promise<readonly boolean[]> {
  const to = from === 'a' ? 'b' : 'a';
  const packet: Packet = {
    ethSrc: macOf(from),
    ethDst: macOf(to),
    payload: family,
    ttl: 64,
    ipSrc: addressOf(from, family),
    ipDst: addressOf(to, family),
    ...ports,
  };
  const marks = [randomBytes(12), randomBytes(12)] as const;
  const frame = encodeFrame(packet, Buffer.concat([marks[0], Buffer.alloc(size - 24), marks[1]]));
  for (const each of size > 1_400 ? fragmentsOf(frame, randomInt(2 ** 16)) : [frame]) tapped.wires[from].send(each);
  await settled(from);
  const arrived = () => marks.map((mark) => tapped.wires[to].received(mark));
  // A packet in an upcall is overtaken by packets of known flows.
  if (datapath === 'system')
    await expect
      .poll(arrived, { timeout: overtakenMs })
      .not.toContain(false)
      .catch(() => undefined);
  return arrived();
}

function answerTo({ from, portSrc, portDst, ...rest }: Conversation): Conversation {
  return { ...rest, from: from === 'a' ? 'b' : 'a', portSrc: portDst, portDst: portSrc };
}

/** Waits until a packet that was sent before and has not arrived never will. ARP is always allowed. */
async function settled(from: Speaker): Promise<void> {
  const to = from === 'a' ? 'b' : 'a';
  const mark = macFromBytes(randomBytes(6));
  const own = { ethSrc: macOf(from), arpSha: macOf(from), arpSpa: addressOf(from, 'ipv4') };
  const answer: Packet = { ...own, ethDst: macOf(to), payload: 'arp', arpOp: 'reply', arpTha: mark, arpTpa: addressOf(to, 'ipv4') };
  tapped.wires[from].send(encodeFrame(answer));
  await tapped.wires[to].hears(macToBytes(mark));
}

const yes = [true, true];
const no = [false, false];

/** Gives a TCP packet another source port, with the checksum (RFC 1624): faster than a new packet. */
function renumber(frame: Uint8Array, family: Family, portSrc: number): Uint8Array {
  const view = new DataView(frame.buffer, frame.byteOffset + 14 + (family === 'ipv4' ? 20 : 40));
  const sum = (~view.getUint16(16) & 0xffff) + (~view.getUint16(0) & 0xffff) + portSrc;
  const folded = (sum & 0xffff) + (sum >>> 16);
  view.setUint16(0, portSrc);
  view.setUint16(16, ~((folded & 0xffff) + (folded >>> 16)) & 0xffff);
  return frame;
}

/** Source port of a frame that opens a TCP connection to this port; undefined for another frame. */
function openedFrom(frame: Buffer, portDst: number): number | undefined {
  const start = 14 + (frame[12] === 0x08 ? 20 : 40);
  const opens = frame.length > start + 13 && frame.readUInt16BE(start + 2) === portDst && frame[start + 13] === 0x02;
  return opens ? frame.readUInt16BE(start) : undefined;
}

/** Source ports of received opening packets for one port. */
class Opened {
  readonly #portDst: number;
  readonly #ports = new Set<number>();
  #looked = 0;

  constructor(portDst: number) {
    this.#portDst = portDst;
  }

  /** Their present number. */
  size(): number {
    const { frames } = tapped.wires.c;
    for (; this.#looked < frames.length; this.#looked++) {
      const from = openedFrom(frames[this.#looked] as Buffer, this.#portDst);
      if (from !== undefined) this.#ports.add(from);
    }
    return this.#ports.size;
  }
}

describe.each(families)('over %s', (family) => {
  afterEach(async () => {
    await hold('free');
    await hold('free', 'ingress');
  });

  // The kernel's data path reassembles datagrams before output.
  it('a fragmented datagram opens nothing where ports decide, and continues a connection opened by a whole one', async () => {
    const asks = { from: 'b', protocol: 'udp', portSrc: ++clientPort, portDst: port.server } as const;
    await hold(['UDP']);
    expect(await received(family, asks, 2_000)).toEqual(datapath === 'system' ? yes : no);
    expect(await received(family, asks)).toEqual(yes);
    expect(await received(family, answerTo(asks))).toEqual(yes);
    expect([await received(family, asks, 2_000), await received(family, answerTo(asks), 2_000)]).toEqual([yes, yes]);
    const other = { ...asks, portDst: port.closed };
    expect([await received(family, other), await received(family, other, 2_000)]).toEqual([no, no]);
  });

  it('a fragmented datagram opens what any port may open, and ends with it', async () => {
    let asks: Conversation = { from: 'b', protocol: 'udp', portSrc: clientPort, portDst: port.server };
    await hold('allow');
    // The data path may still have its decision about the earlier fragments; another port each time, so that the fragments open.
    await expect.poll(() => received(family, (asks = { ...asks, portSrc: ++clientPort }), 2_000)).toEqual(yes);
    await hold('deny');
    await expect.poll(() => received(family, asks, 2_000)).toEqual(no);
  });

  it('a pod that reaches itself through a Service is denied by cluster policies, at either end, and not by NetworkPolicies', async () => {
    for (const direction of ['egress', 'ingress'] as const) {
      const living = ++clientPort;
      await holdOfTiers(direction, 'next');
      await expect.poll(() => reachesItself(family, living), { timeout: overtakenMs }).toBe(true);
      await holdOfTiers(direction, 'deny');
      await expect.poll(() => reachesItself(family, living)).toBe(false);
      // The data path may still have its decision about connections that open.
      const opened = async () => [await reachesItself(family, ++clientPort), await reachesItself(family, ++clientPort)];
      await expect.poll(opened, { timeout: overtakenMs }).toEqual([false, false]);
      expect(await opened()).toEqual([false, false]);
      await holdOfTiers(direction, 'next');
      await expect.poll(() => reachesItself(family, living), { timeout: overtakenMs }).toBe(true);
      await holdOfTiers(direction, 'free');
    }
  });

  // The kernel's data path reports the number of tracked connections elsewhere.
  it.runIf(datapath === 'netdev')(
    'a denied pod that keeps sending to Services does not fill conntrack, and costs others no connection',
    { timeout: 60_000 + floodMs },
    async () => {
      // No more allowed packets are in flight than OVS's socket buffers while a busy host keeps OVS from it.
      const [openings, batch, firstPort, portCount, underWay] = [500, 100, 1_024, 64_000, 64];
      await hold('deny');
      await limited(openings);
      tapped.wires.c.frames.length = 0;
      const opened = new Opened(port.datagrams);
      const before = await tracked();
      const [ofDenied, ofAllowed] = [opening(family, 'b', 'onlyA', 0), opening(family, 'a', 'onlyC', 0)];
      const [startedMs, asked] = [performance.now(), { denied: 0, allowed: 0 }];
      while (performance.now() - startedMs < floodMs) {
        for (let at = 0; at < batch; at++) tapped.wires.b.send(renumber(ofDenied, family, firstPort + (asked.denied++ % portCount)));
        // Once from each port: a repeated port is replaced by another, while conntrack has the first.
        if (asked.allowed < portCount && asked.allowed - opened.size() < underWay)
          tapped.wires.a.send(renumber(ofAllowed, family, firstPort + asked.allowed++));
        await nextTurn();
      }
      const tookS = (performance.now() - startedMs) / 1_000;
      await expect.poll(() => opened.size(), { timeout: 10_000 * slowness }).toBe(asked.allowed);
      const held = (await tracked()) - before - asked.allowed;
      process.stdout.write(
        `${Math.round(asked.denied / tookS)} denied and ${Math.round(asked.allowed / tookS)} allowed a second, ${held} tracked\n`,
      );
      expect(held).toBeLessThanOrEqual(openings * (2 + Math.min(lifeS, (performance.now() - startedMs) / 1_000)));
    },
  );
});
