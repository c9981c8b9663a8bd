import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { silentLog } from '../../src/base/log/log.ts';
import type { Family, Ip } from '../../src/base/net/ip.ts';
import { compileSubject } from '../../src/dataplane/compile/compile-entry.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { PacketInbox } from '../../src/dataplane/packet-io/packet-inbox.ts';
import { ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { networkPolicies } from '../../src/kubernetes/resources/network-policy.ts';
import { readMeteredRefusals } from '../../src/operations/diagnose/entries/refusal-meters.ts';
import { PolicyEngine } from '../../src/policy/engine/policy-engine.ts';
import { directionTables, relationFlow } from '../../src/policy/flows/rows.ts';
import { type PolicyDirection, type PolicyOutcome, policyDirections } from '../../src/policy/matrix/matrix.ts';
import { PolicyRefusals } from '../../src/policy/refusals/policy-refusals.ts';
import { type AttemptEnd, attempt as attemptOne, attempts } from '../support/attempts.ts';
import { addressOf, clusterIp, families, nodes, outside, type PlannedNode, pods, port } from '../support/cluster-plan.ts';
import { TappedCluster } from '../support/tapped-cluster.ts';
import { patienceMs } from '../support/test-cluster.ts';
import { slowness } from '../support/test-datapath.ts';

interface AnsweringAgent {
  readonly refusals: PolicyRefusals;
  readonly openflow: PacketInbox['connection'];
  readonly end: AbortController;
  isRecent: boolean;
}

/** Pods `a` and `b` are neighbours, `c` is on the other node. */
let tapped: TappedCluster;
const stop = new AbortController();
/** Agents, as far as they answer denied packets. */
const agents = new Map<string, AnsweringAgent>();

const subjectClass = 5;
/** Error of a datagram's socket: EHOSTUNREACH for ICMP 3/13, EACCES for ICMPv6 1/1. */
const prohibited = { ipv4: 'EHOSTUNREACH', ipv6: 'EACCES' } as const;
/** Seconds for which a refusal may take, and for which one must not come. */
const [patience, silence] = [5 * slowness, 1];

beforeAll(async () => {
  tapped = await TappedCluster.start();
  for (const node of nodes) await startAgent(node);
  for (const family of families) await tapped.settled(family);
}, patienceMs);
afterAll(async () => {
  stop.abort();
  await tapped.stop();
});

/** Starts the part of an agent that answers, with policies that deny everything. */
async function startAgent({ name }: PlannedNode): Promise<void> {
  const end = new AbortController();
  const packets = new PacketInbox(`unix:${tapped.cluster.switchOf(name).runDir}/br-int.mgmt`, AbortSignal.any([stop.signal, end.signal]));
  const engine = denyingEngine(name);
  const own = nodes.find((each) => each.name === name)?.pods ?? [];
  const agent = {
    end,
    openflow: packets.connection,
    isRecent: false,
    refusals: new PolicyRefusals({
      packets,
      policy: {
        matrix: engine.matrix,
        podAt: (ofPort) => own.filter(({ intent }) => intent.ofPort === ofPort).map((pod) => `test/${pod.name}`)[0],
        holderOf: (ip) => engine.holderOf(ip),
        isInPodNetwork: (ip) => engine.isInPodNetwork(ip),
        isRecent: (): boolean => agent.isRecent,
      },
      log: silentLog,
    }),
  };
  agents.set(name, agent);
  void packets.run().catch(() => undefined);
  await packets.connection.untilUp(stop.signal);
}

function denyingEngine(nodeName: string): PolicyEngine {
  const engine = new PolicyEngine(nodeName);
  engine.putNamespace('test', {});
  for (const { name, environment, pods: own } of nodes) {
    engine.putNode({
      name,
      podCidrs: environment.podCidrs.map(({ text }) => text),
      addresses: environment.transport.map(({ text }) => text),
    });
    for (const { name: pod, intent } of own)
      engine.putPod({
        namespace: 'test',
        name: pod,
        nodeName: name,
        podIps: intent.addresses.map(({ text }) => text),
        labels: {},
        ports: {},
      });
  }
  const policy = networkPolicies.project({
    metadata: { namespace: 'test', name: 'deny-all', uid: 'u', generation: 1 },
    spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'] },
  });
  if (policy) engine.putPolicy(policy);
  engine.update();
  return engine;
}

/** Denies everything to or from a pod. */
async function deny(name: string, direction: PolicyDirection, denial?: PolicyOutcome['denial']): Promise<void> {
  const { node, ofPort, addresses } = placeOf(name);
  const row = relationFlow(directionTables[direction], subjectClass, {}, { verdict: 'deny', ...(denial && { denial }) });
  await tapped.cluster.hold(node, ownerOf('policy', direction, 'test'), { ...nothing, flows: [row] });
  const flows = compileSubject({ ofPort, addresses, [direction]: subjectClass });
  await tapped.cluster.hold(node, ownerOf('subject', `${ofPort}`), { ...nothing, flows });
  forgetMegaflows(node);
}

async function free(name: string): Promise<void> {
  const { node, ofPort, addresses } = placeOf(name);
  await tapped.cluster.hold(node, ownerOf('subject', `${ofPort}`), { ...nothing, flows: compileSubject({ ofPort, addresses }) });
  for (const direction of policyDirections) await tapped.cluster.hold(node, ownerOf('policy', direction, 'test'), nothing);
  forgetMegaflows(node);
}

/** Agents do so with Open vSwitch 3.1, which may keep an old decision for a while after a change. */
function forgetMegaflows(node: string): void {
  tapped.cluster.switchOf(node).exec('ovs-appctl', 'revalidator/purge');
}

function placeOf(name: string) {
  const pod = pods.find((each) => each.name === name);
  const node = nodes.find((each) => each.pods.some((own) => own.name === name));
  if (!pod || !node) throw new Error(`there is no pod ${name}`);
  return { node: node.name, ...pod.intent };
}

const attempt = async (who: string, protocol: 'tcp' | 'udp', to: Ip, toPort: number, seconds = patience): Promise<string> =>
  await attemptOne(tapped.cluster.place(who), { protocol, address: to.text, port: toPort, seconds });

/** Returns how a ping ended: with the text of the error, or without an answer. */
async function ping(who: string, to: Ip, seconds = patience): Promise<string> {
  const command = ['ping', '-n', '-c', '1', '-W', `${seconds}`, to.text];
  const { stdout } = await promisify(execFile)('nsenter', [`--net=/run/netns/${tapped.cluster.place(who)}`, ...command]).catch(
    (error: { readonly stdout?: string }) => ({ stdout: error.stdout ?? '' }),
  );
  if (/bytes from/.test(stdout)) return 'answered';
  return /icmp_seq=1 (.+)/.exec(stdout)?.[1] ?? 'silent';
}

/** Packets that the flows passed to the agent of a node, and what it did about them. */
const counted = (node: string) => ({ ...agents.get(node)?.refusals.counters });
const answered = (node: string): number => agents.get(node)?.refusals.counters.answered ?? 0;

describe.each(families)('a denied pod over %s', { tags: 'hardening' }, (family: Family) => {
  const [a, b, c] = ['a', 'b', 'c'].map((name) => addressOf(name, family)) as [Ip, Ip, Ip];
  const filtered = { ipv4: 'Packet filtered', ipv6: 'Destination unreachable: Administratively prohibited' }[family];

  afterEach(async () => {
    for (const pod of ['a', 'b', 'c']) await free(pod);
    for (const agent of agents.values()) agent.isRecent = false;
  });

  /** Ends of a connection, a datagram and a ping. */
  const ends = async (who: string, to: Ip, seconds = patience) =>
    await Promise.all([
      attempt(who, 'tcp', to, port.server, seconds),
      attempt(who, 'udp', to, port.datagrams, seconds),
      ping(who, to, seconds),
    ]);
  const refused = ['ECONNREFUSED', prohibited[family], expect.stringContaining(filtered)];
  const silent = ['silent', 'silent', 'silent'];

  it('that may not send is refused by its own node, whatever its destination', async () => {
    await deny('a', 'egress', 'reject');
    expect(await ends('a', b)).toEqual(refused);
    expect(await ends('a', c)).toEqual(refused);
    expect(await ends('a', outside.far[family])).toEqual(refused);
  });

  it('is refused by the node of its destination: the same one, and another one', async () => {
    await deny('b', 'ingress', 'reject');
    await deny('c', 'ingress', 'reject');
    expect(await ends('a', b)).toEqual(refused);
    expect(await ends('a', c)).toEqual(refused);
  });

  it('of a Service is refused in the name of the Service: by its own node, and by that of the endpoint', async () => {
    const viaService = async (who: string, service: 'onlyA' | 'onlyC') =>
      await Promise.all((['tcp', 'udp'] as const).map((protocol) => attempt(who, protocol, clusterIp(service, family), 80)));
    const both = ['ECONNREFUSED', prohibited[family]];
    await deny('b', 'egress', 'reject');
    expect([await viaService('b', 'onlyA'), await viaService('b', 'onlyC')]).toEqual([both, both]);
    await free('b');
    await deny('a', 'ingress', 'reject');
    await deny('c', 'ingress', 'reject');
    expect(await viaService('b', 'onlyA')).toEqual(both);
    expect(await viaService('b', 'onlyC')).toEqual(both);
    expect(await viaService('c', 'onlyA')).toEqual(both);
  });

  it('gets no answer where the rule drops, or states nothing and the node does not refuse', async () => {
    for (const denial of ['drop', undefined] as const) {
      await deny('c', 'ingress', denial);
      await deny('a', 'egress', denial);
      expect(await ends('a', c, silence)).toEqual(silent);
      await free('a');
      expect(await ends('a', c, silence)).toEqual(silent);
    }
  });

  it('gets no answer to what does not open a connection: an established one ends silently', async () => {
    const before = answered('n2');
    await deny('c', 'ingress', 'reject');
    expect(await attempt('n1', 'tcp', c, port.server, silence)).toBe('silent');
    expect(answered('n2')).toBe(before);
  });

  it('is counted where the rate of its share is exceeded', async () => {
    await deny('a', 'egress', 'reject');
    const openflow = agents.get('n1')?.openflow;
    if (!openflow) throw new Error('the node has no agent');
    const before = [await readMeteredRefusals(openflow, stop.signal), counted('n1').answered ?? 0] as const;
    const sent = 500;
    const flood = ['ping', '-n', '-q', '-l', `${sent}`, '-c', `${sent}`, '-W', '1', b.text];
    // Its exit code is that of a ping without an answer.
    await promisify(execFile)('nsenter', [`--net=/run/netns/${tapped.cluster.place('a')}`, ...flood]).catch(() => undefined);
    const counts = async () => [(await readMeteredRefusals(openflow, stop.signal)) - before[0], (counted('n1').answered ?? 0) - before[1]];
    // A burst may end before the flows: what is counted is at most what was sent.
    await expect.poll(async () => Math.min(...(await counts()))).toBeGreaterThan(50);
    expect((await counts()).reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(sent);
  });

  it('gets no answer if it became known a moment ago', async () => {
    await deny('c', 'ingress', 'reject');
    for (const agent of agents.values()) agent.isRecent = true;
    const before = counted('n2');
    expect(await attempt('a', 'tcp', c, port.server, silence)).toBe('silent');
    expect(counted('n2').too_new).toBeGreaterThan(before.too_new ?? 0);
    expect(counted('n2').answered).toBe(before.answered);
  });

  it('gets one answer to each packet if both ends refuse', async () => {
    await deny('c', 'ingress', 'reject');
    await deny('a', 'ingress', 'reject');
    const before = [answered('n1'), answered('n2')];
    const count = 20;
    const made = await attempts(tapped.cluster.place('a'), { protocol: 'udp', address: c.text, port: port.datagrams, count });
    const back = await attempts(tapped.cluster.place('c'), { protocol: 'tcp', address: a.text, port: port.server, count });
    const named = (all: readonly AttemptEnd[]) => new Set(all.map(([end]) => end));
    expect([named(made), named(back)]).toEqual([new Set([prohibited[family]]), new Set(['ECONNREFUSED'])]);
    // A late answer would be counted by the end of this; its frames are admitted.
    await Promise.all([free('a'), free('c')]);
    await tapped.settled(family);
    expect([answered('n1'), answered('n2')]).toEqual(before.map((each) => each + count));
  });

  it('is dropped while the agent is away', async () => {
    const [first] = nodes as readonly [PlannedNode, ...PlannedNode[]];
    await deny('a', 'egress', 'reject');
    expect(await attempt('a', 'tcp', c, port.server)).toBe('ECONNREFUSED');
    agents.get('n1')?.end.abort();
    await expect.poll(() => attempt('a', 'tcp', c, port.server, silence)).toBe('silent');
    await startAgent(first);
    expect(await attempt('a', 'tcp', c, port.server)).toBe('ECONNREFUSED');
  });
});
