import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { silentLog } from '../../src/base/log/log.ts';
import type { Family, Ip } from '../../src/base/net/ip.ts';
import { compileSubject } from '../../src/dataplane/compile/compile-entry.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { PacketInbox } from '../../src/dataplane/packet-io/packet-inbox.ts';
import { ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import { TimeExceededResponder } from '../../src/nodes/packet-in/time-exceeded.ts';
import { addressOf, clusterIp, families, gatewayOf, macOf, nodes, outside, pods, port } from '../support/cluster-plan.ts';
import { encodeError, encodeFrame } from '../support/frame.ts';
import { type Hop, timeExceeded, traceHops } from '../support/hops.ts';
import { gatewayMac, TappedCluster } from '../support/tapped-cluster.ts';
import { patienceMs } from '../support/test-cluster.ts';
import { slowness } from '../support/test-datapath.ts';

/** Pods `a` and `b` are neighbours, `c` is on the other node. */
let tapped: TappedCluster;
const stop = new AbortController();
const responders = new Map<string, TimeExceededResponder>();

beforeAll(async () => {
  tapped = await TappedCluster.start();
  for (const { name, environment } of nodes) {
    const packets = new PacketInbox(`unix:${tapped.cluster.switchOf(name).runDir}/br-int.mgmt`, stop.signal);
    responders.set(name, new TimeExceededResponder({ packets, environment: () => environment, log: silentLog }));
    void packets.run();
    await packets.connection.untilUp(stop.signal);
  }
  for (const family of families) await tapped.settled(family);
}, patienceMs);
afterAll(async () => {
  stop.abort();
  await tapped.stop();
});

const portUnreachable = { ipv4: { type: 3, code: 3 }, ipv6: { type: 1, code: 4 } } as const;
/** Seconds for which a probe waits for an answer, and for one that must not come. */
const [patience, silence] = [5 * slowness, 1];

/** Runs a program without blocking the responders, which live in this process. */
async function exec(who: string, ...command: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)('nsenter', [`--net=/run/netns/${tapped.cluster.place(who)}`, ...command]);
  return stdout;
}

const trace = (who: string, protocol: 'udp' | 'tcp', to: Ip, toPort: number, last = 5, seconds = patience) =>
  traceHops(tapped.cluster.place(who), { protocol, address: to.text, port: toPort, last, seconds });

const hop = (node: string, family: Family): Hop => ({ from: gatewayOf(node, family).text, ...timeExceeded[family] });
const answered = (name: string): number => responders.get(name)?.counters.answered ?? 0;

/** Installs the entry flows of a pod with these policy classes. */
async function subject(name: string, classes: { readonly ingress?: 'closed'; readonly egress?: 'closed' }): Promise<void> {
  const pod = pods.find((each) => each.name === name);
  const node = nodes.find((each) => each.pods.some((own) => own.name === name));
  if (!pod || !node) throw new Error(`there is no pod ${name}`);
  const { ofPort, addresses } = pod.intent;
  await tapped.cluster.hold(node.name, ownerOf('subject', `${ofPort}`), {
    ...nothing,
    flows: compileSubject({ ofPort, addresses, ...classes }),
  });
}

describe.each(families)('a path over %s', { tags: 'hardening' }, (family) => {
  const c = addressOf('c', family);

  it('shows both nodes between pods, to a datagram, a connection and a ping', async () => {
    const both = [hop('n1', family), hop('n2', family)];
    expect(await trace('a', 'udp', c, port.closed)).toEqual([...both, { from: c.text, ...portUnreachable[family] }]);
    expect(await trace('a', 'tcp', c, port.closed)).toEqual([...both, { reply: 'ECONNREFUSED' }]);
    expect([await pinged('a', c, 1), await pinged('a', c, 2)]).toEqual(['n1', 'n2'].map((node) => gatewayOf(node, family).text));
  });

  it('to a neighbour has no hop', async () => {
    const b = addressOf('b', family);
    expect(await trace('a', 'udp', b, port.closed)).toEqual([{ from: b.text, ...portUnreachable[family] }]);
  });

  it('to a Service shows the nodes, and errors that quote the address of the Service', async () => {
    const service = clusterIp('closed', family);
    const both = [hop('n1', family), hop('n2', family)];
    expect(await trace('a', 'tcp', service, 80)).toEqual([...both, { reply: 'ECONNREFUSED' }]);
    expect(await trace('a', 'udp', service, 80)).toEqual([...both, { from: service.text, ...portUnreachable[family] }]);
  });

  it('to a Service with an endpoint on the same node shows that node', async () => {
    expect(await trace('a', 'udp', clusterIp('twiceHere', family), 53, 1)).toEqual([hop('n1', family)]);
  });

  it('to the pod itself through a Service shows its node', async () => {
    expect(await trace('a', 'tcp', clusterIp('onlyA', family), 80, 1)).toEqual([hop('n1', family)]);
  });

  it('to an address outside shows the node and the routers', async () => {
    expect(await trace('a', 'tcp', outside.far[family], port.closed)).toEqual([hop('n1', family), { reply: 'ECONNREFUSED' }]);
  });

  it('from a node shows the other node', async () => {
    expect(await trace('n1', 'tcp', c, port.closed)).toEqual([hop('n2', family), { reply: 'ECONNREFUSED' }]);
  });

  it('from a node to a Service shows the other node', async () => {
    expect(await trace('n1', 'tcp', clusterIp('closed', family), 80)).toEqual([hop('n2', family), { reply: 'ECONNREFUSED' }]);
  });

  describe('that policy denies', () => {
    afterEach(async () => {
      await subject('a', {});
      await subject('c', {});
    });

    it('at its beginning shows no hop', async () => {
      await subject('a', { egress: 'closed' });
      expect(await trace('a', 'udp', c, port.closed, 2, silence)).toEqual([{ silent: true }, { silent: true }]);
      expect(await trace('a', 'tcp', clusterIp('closed', family), 80, 1, silence)).toEqual([{ silent: true }]);
    });

    it('at its end shows no hop of the node that denies', async () => {
      await subject('c', { ingress: 'closed' });
      // Open vSwitch may forward by the flows of a moment ago for half a second.
      const hops = () => trace('a', 'udp', c, port.closed, 2, silence);
      await expect.poll(hops, { timeout: patience * 1_000 }).toEqual([hop('n1', family), { silent: true }]);
    });
  });

  it('is answered for a TTL of 0, once', async () => {
    const before = answered('n1');
    tapped.wires.a.send(encodeFrame({ ...ends(family), ttl: 0 }));
    await expect.poll(() => answered('n1'), { timeout: patience * 1_000 }).toBe(before + 1);
  });

  it('is not answered about an error', async () => {
    const { ethSrc, ethDst, ipSrc, ipDst } = ends(family);
    const opening = {
      ...ends(family),
      ethSrc: macOf('c'),
      ethDst: nodes[1]?.environment.gateway.mac ?? gatewayMac,
      ipSrc: ipDst,
      ipDst: ipSrc,
    };
    tapped.wires.c.send(encodeFrame(opening));
    await tapped.settled(family);
    const before = answered('n1');
    const error = Buffer.from(encodeError({ ethSrc, ethDst, ipSrc, ipDst }, opening, new Uint8Array(2)));
    tapped.wires.a.send(lastHop(family, error));
    await expect.poll(() => toAgent('n1'), { timeout: patience * 1_000 }).toBeGreaterThan(0);
    await tapped.settled(family);
    expect(answered('n1')).toBe(before);
  });
});

/** A datagram of `a` to `c`. */
function ends(family: Family): Packet & Required<Pick<Packet, 'ethSrc' | 'ethDst' | 'ipSrc' | 'ipDst'>> {
  const addresses = { ipSrc: addressOf('a', family), ipDst: addressOf('c', family) };
  return { ethSrc: macOf('a'), ethDst: gatewayMac, payload: family, ...addresses, ttl: 64, protocol: 'udp', portSrc: 4_321, portDst: 9 };
}

function lastHop(family: Family, frame: Buffer): Buffer {
  if (family === 'ipv6') {
    frame.writeUInt8(1, 21);
    return frame;
  }
  // RFC 1624: the sum of TTL and protocol as one word.
  const sum = frame.readUInt16BE(24) + ((frame.readUInt8(22) - 1) << 8);
  frame.writeUInt8(1, 22);
  frame.writeUInt16BE((sum & 0xffff) + (sum >>> 16), 24);
  return frame;
}

/** Packets that flows of table `timeExceeded` sent to the agent. */
function toAgent(node: string): number {
  const flows = tapped.cluster.switchOf(node).exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', 'table=112');
  return Array.from(flows.matchAll(/n_packets=(\d+).*priority=200/g), ([, count]) => Number(count)).reduce((sum, count) => sum + count, 0);
}

/** @returns the address that a ping says its TTL was exceeded at */
async function pinged(who: string, to: Ip, ttl: number): Promise<string | undefined> {
  try {
    return await exec(who, 'ping', '-n', '-c', '1', '-W', `${patience}`, '-t', `${ttl}`, to.text);
  } catch (error) {
    const { stdout = '' } = error as { readonly stdout?: string };
    return /From (\S+) icmp_seq=1 Time (?:to live )?exceeded/.exec(stdout)?.[1];
  }
}
