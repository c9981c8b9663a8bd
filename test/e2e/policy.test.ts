import { createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { nodePaths } from '../../lab/plan/names.ts';
import { connectTcpIn, listenTcpIn } from '../../lab/probe/sockets.ts';
import type { DeniedLogView, WouldDenyView } from '../../src/api/denied-log.ts';
import type { ConnectionPolicyView, NodePolicyView, OnePolicyView, PodPolicyView, RuleCounters } from '../../src/api/policy.ts';
import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { nodeMeters } from '../../src/dataplane/pipeline/well-known.ts';
import { AgentClient } from '../../src/seinectl/agent-client.ts';
import { LoneServer } from '../support/lone-server.ts';
import { PolicyLab } from '../support/policy-lab.ts';
import { SctpConversation, sctpEcho, sctpEchoPort } from '../support/sctp-stack.ts';
import { eventually, families, ServiceLab, silent } from '../support/service-lab.ts';
import { slowness, testDatapath } from '../support/test-datapath.ts';

/** NetworkPolicy with real packets. */
let lab: ServiceLab;
let policies: PolicyLab;

/** Port of `web-1`, with a connection that is open when a policy is created. */
const silentPort = 7_007;
/** A stack of SCTP without answers retransmits with growing intervals: after 1, 2, 4, 8 … s. */
const retransmittedWithin = 60_000 * slowness;
const patience = () => AbortSignal.timeout(20_000 * slowness);

beforeAll(async () => {
  lab = await ServiceLab.start();
  policies = new PolicyLab(lab);
}, 180_000 * slowness);
afterAll(async () => {
  await lab?.remove();
});

async function isExplained(): Promise<void> {
  const pod = await policies.asked<PodPolicyView>('pod', 'demo/web-1');
  expect(pod).toMatchObject({
    code: 0,
    view: { ingress: { state: 'isolated', isolatedBy: ['demo/clients', 'demo/default-deny'] }, egress: { state: 'free' } },
  });
  expect(pod.view.ingress.rules.map(({ name }) => name)).toEqual(['demo/clients spec.ingress[0]']);
  const { view: list } = await policies.asked<{ readonly items: readonly NodePolicyView[] }>('list');
  expect(list.items.map(({ name, notUnderstood }) => [name, notUnderstood])).toEqual([
    ['demo/clients', []],
    ['demo/default-deny', []],
  ]);
  const { code, view: shown } = await policies.asked<OnePolicyView>('show', 'demo/clients');
  expect([code, shown.pods, shown.egress]).toMatchObject([0, [{ name: 'demo/web-1', state: 'policed' }], undefined]);
  expect(shown.ingress?.rules).toMatchObject([{ path: 'spec.ingress[0]' }]);
  const rule = { direction: 'ingress', verdict: 'allow', by: ['demo/clients spec.ingress[0]'] };
  const { view: counted } = await policies.asked<{ readonly items: readonly RuleCounters[] }>('top', '--for', '1s');
  expect(Number(counted.items.find(({ by }) => by.join() === rule.by.join())?.packets)).toBeGreaterThan(0);
  const { body } = await new AgentClient(nodePaths(lab.lab.plan.dir, lab.lab.node(1).name).apiSocket).get('/metrics');
  const packets = /^seine_agent_policy_packets_total\{direction="ingress",verdict="(allow|deny)"\} [1-9]/gm;
  expect(body.match(packets)).toHaveLength(2);
  const allowed = await policies.asked<ConnectionPolicyView>('explain', 'demo/client-1', 'demo/web-1', '80');
  expect(allowed).toMatchObject({ code: 0, view: { verdict: 'allow', ends: expect.arrayContaining([expect.objectContaining(rule)]) } });
  const denied = await policies.asked<ConnectionPolicyView>('explain', '198.51.100.7', 'demo/web-1', '80');
  expect(denied).toMatchObject({ code: 1, view: { verdict: 'deny', ends: [{ by: ['demo/clients', 'demo/default-deny'] }] } });
}

/** The bridge enforces the policies, and the name of a flow added by another process is reported. */
async function isProven(): Promise<void> {
  const good = await policies.verified();
  expect(good).toMatchObject({ code: 0, view: { leftOut: [], differences: [], problems: [] } });
  expect(Math.min(good.view.pods, good.view.allowed, good.view.denied)).toBeGreaterThan(0);
  const flow = 'table=90,priority=300,reg0=0xc00/0x1c00,ip';
  await policies.seinectl('pause', '--for', '5m');
  try {
    await lab.lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'add-flow', 'br-int', `cookie=0xbad,${flow},actions=goto_table:100`);
    const { code, view } = await policies.verified();
    expect(code).toBe(1);
    const found = view.differences.find(({ pod }) => pod === 'demo/web-1');
    expect(found).toMatchObject({ direction: 'ingress', bridge: 'allow', policies: 'deny', by: ['demo/clients', 'demo/default-deny'] });
    expect(found?.flows.at(-1)?.text).toContain('cookie=0xbad, table=ingressVerdict, priority=300,');
  } finally {
    await policies.seinectl('resume');
  }
  await eventually(async () => expect((await policies.verified()).code).toBe(0));
}

/** Denied packets in the log of node 1's agent. */
async function denials(): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const { body } = await new AgentClient(nodePaths(lab.lab.plan.dir, lab.lab.node(1).name).apiSocket).get('/v1/logs');
  const lines = body.split('\n').filter((line) => line.includes('"NetworkPolicy denied"'));
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Meters of the flows that copy denied packets to the agent; those of refusals are in a table of their own, always. */
async function copies(): Promise<readonly string[]> {
  const flows = await lab.lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int');
  const others = flows.split('\n').filter((line) => !line.includes(`table=${tables.refusals.id},`));
  const meters = others.flatMap((line) => line.match(/meter_id=\d+/g) ?? []);
  return meters.filter((meter) => meter !== `meter_id=${nodeMeters.probes}`);
}

describe('packets denied by a NetworkPolicy', () => {
  it('are logged while an operator observes them, and listed by pairs', { timeout: 90_000 * slowness }, async () => {
    const aim = { ...policies.client(1, 'web-1'), ...silent };
    const [web, asking] = [lab.lab.pod('web-1'), lab.lab.pod('client-1')];
    const silentServer = createServer((accepted) => void accepted.on('error', () => accepted.destroy())).listen({
      fd: listenTcpIn(web.netns, lab.ip('web-1', 'ipv4'), silentPort),
    });
    // The next packet of one that carries data is reported as denied, and no more is logged about it.
    const living = await connectTcpIn(asking.netns, lab.ip('web-1', 'ipv4'), silentPort, patience());
    await policies.create('default-deny', { podSelector: {}, policyTypes: ['Ingress'] });
    try {
      await lab.sees(aim, { pods: [], failures: ['TIMEOUT'] });
      expect([await denials(), await copies()]).toEqual([[], []]);
      expect(await policies.asked<DeniedLogView>('log', '--for', '10m', '--pod', 'demo/web-1')).toMatchObject({
        code: 0,
        view: { setting: 'annotated', requests: [{ namespace: 'demo', pod: 'web-1' }] },
      });
      const line = { verdict: 'denied', direction: 'ingress', policies: ['demo/default-deny'], pod: 'demo/web-1', peer: 'demo/client-1' };
      await eventually(async () => {
        await lab.look(aim);
        expect(await denials()).toContainEqual(expect.objectContaining({ ...line, protocol: 'TCP', port: 80 }));
      });
      expect(new Set(await copies()).size).toBe(1);
      await eventually(async () => expect((await policies.verified()).code).toBe(0));
      await eventually(async () => {
        const { code, view } = await whileAsking(policies.asked<WouldDenyView>('would-deny', '--for', '2s'), () => lab.look(aim));
        expect([code, view.mode, view.pairs.find(({ peer }) => peer === line.peer)]).toMatchObject([1, 'enforce', line]);
        const own = view.living?.filter(({ port }) => port === silentPort);
        expect(own).toEqual(
          testDatapath === 'netdev' ? undefined : [expect.objectContaining({ ...line, protocol: 'TCP', connections: 1 })],
        );
      });
      expect(await policies.asked<DeniedLogView>('log', '--off')).toMatchObject({ code: 0, view: { requests: [] } });
      await eventually(async () => expect(await copies()).toEqual([]));
    } finally {
      living.destroy();
      silentServer.close();
      await policies.withdraw('default-deny');
    }
    await lab.sees(policies.client(1, 'web-1'), { failures: [] });
  });
});

/** Output of an observer who watches continuous traffic for a while. */
async function whileAsking<T>(asked: Promise<T>, goOn: () => Promise<unknown>): Promise<T> {
  let isAnswered = false;
  const answer = asked.finally(() => (isAnswered = true));
  while (!isAnswered) await goOn();
  return await answer;
}

describe('a NetworkPolicy', () => {
  it('denies all that it selects, admits peers by labels, and connections recover when it is deleted', async () => {
    const aims = [policies.client(1, 'web-1'), policies.client(1, 'web-2')];
    for (const aim of aims) await lab.sees(aim, { failures: [] });
    await policies.create('default-deny', { podSelector: {}, policyTypes: ['Ingress'] });
    try {
      for (const aim of aims) await lab.sees({ ...aim, ...silent }, { pods: [], failures: ['TIMEOUT'] });
      await policies.create('clients', {
        podSelector: { matchLabels: { app: 'web' } },
        ingress: [{ from: [{ podSelector: { matchLabels: { app: 'client' } } }] }],
      });
      for (const aim of aims) await lab.sees(aim, { failures: [] });
      await isExplained();
      await isProven();
      await policies.withdraw('clients');
      for (const aim of aims) await lab.sees({ ...aim, ...silent }, { pods: [] });
      await eventually(async () => expect((await lab.look({ ...policies.client(1, 'web-1'), from: 'node-1' })).failures).toEqual([]));
    } finally {
      await policies.withdraw('default-deny');
    }
    for (const aim of aims) await lab.sees(aim, { failures: [] });
  });

  it('admits one port of SCTP to a real stack at each end, ends an association that it denies, and it recovers', {
    timeout: 240_000 * slowness,
  }, async () => {
    const web = lab.lab.pod('web-1');
    const only = (port: number) => ({
      podSelector: { matchLabels: { app: 'web' } },
      ingress: [{ from: [{ podSelector: { matchLabels: { app: 'client' } } }], ports: [{ protocol: 'SCTP', port }] }],
    });
    const endEcho = sctpEcho(web.netns);
    await policies.create('sctp', only(sctpEchoPort));
    const conversations = families.map(
      (family, at) => new SctpConversation(lab.lab.pod(`client-${at + 1}`).netns, lab.ip('web-1', family)),
    );
    const all = (is: 'isReceived' | 'isSilent') =>
      eventually(async () => expect(conversations.filter((conversation) => !conversation[is])).toHaveLength(0), retransmittedWithin);
    try {
      await all('isReceived');
      await policies.create('sctp-other', only(sctpEchoPort + 1));
      await policies.withdraw('sctp');
      await all('isSilent');
      await policies.create('sctp', only(sctpEchoPort));
      await all('isReceived');
    } finally {
      for (const conversation of conversations) conversation.close();
      endEcho();
      await policies.withdraw('sctp-other');
      await policies.withdraw('sctp');
    }
  });

  it('ends a stream whose server sends alone, at either end, until its client sends again and may', async () => {
    const pods = [lab.lab.pod('web-1'), lab.lab.pod('web-2')];
    const client = lab.lab.pod('client-1');
    const streams = await Promise.all(pods.flatMap((server) => families.map((family) => LoneServer.start(server, client, family))));
    const all = (is: 'isReceived' | 'isSilent') => eventually(async () => expect(streams.filter((stream) => !stream[is])).toHaveLength(0));
    const labels = (app: string) => ({ podSelector: { matchLabels: { app } } });
    const ends: readonly (readonly [string, object])[] = [
      ['servers', { ...labels('web'), ingress: [{ from: [labels('unused')], ports: [{ protocol: 'UDP', port: 5005 }] }] }],
      ['clients', { ...labels('client'), policyTypes: ['Egress'], egress: [{ ports: [{ protocol: 'UDP', port: 53 }] }] }],
    ];
    try {
      await all('isReceived');
      for (const [name, spec] of ends) {
        await policies.create(name, spec);
        await all('isSilent');
        await policies.withdraw(name);
        // A cut connection stays cut until its client is admitted again.
        await eventually(async () => {
          for (const stream of streams) stream.ask();
          expect(streams.filter((stream) => !stream.isReceived)).toHaveLength(0);
        });
      }
    } finally {
      for (const stream of streams) stream.close();
    }
  });
});
