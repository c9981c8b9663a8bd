import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { pingStream } from '../../lab/demo/ping-stream.ts';
import { ask } from '../../lab/probe/probe.ts';
import { type LabInTest, raiseLab, until } from './lab-in-test.ts';

/** Actions of operators and accidents on a node, and its recovery without intervention. */
let lab: LabInTest;

beforeAll(async () => {
  lab = await raiseLab(2);
}, 180_000);
afterAll(async () => {
  await lab?.remove();
});

const dumpFlows = async (node: string) =>
  (await lab.ovs(node, 'ovs-ofctl', '-O', 'OpenFlow15', '--no-stats', 'dump-flows', 'br-int'))
    .split('\n')
    .filter((line) => line.includes('actions='))
    .toSorted();

async function reaches(from: string, to: string): Promise<boolean> {
  const [client, server] = [await lab.pod(from), await lab.pod(to)];
  const outcomes = await Promise.all(
    server.ips.map((address) => ask({ from: client.netns, protocol: 'tcp', address, port: 80, timeoutMs: 1_000 })),
  );
  return outcomes.every(({ is }) => is === 'OK');
}

async function allReach(): Promise<boolean> {
  const pairs = [
    ['client-1', 'web-1'],
    ['client-1', 'web-2'],
    ['client-2', 'web-1'],
  ] as const;
  for (const [from, to] of pairs) if (!(await reaches(from, to))) return false;
  return true;
}

it('restores deleted flows, within a second', async () => {
  const before = await dumpFlows('node-1');
  await lab.ovs('node-1', 'ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int');
  const tookMs = await until('the flows', 3_000, async () => (await dumpFlows('node-1')).length >= before.length);
  expect(tookMs).toBeLessThan(1_000);
  expect(await dumpFlows('node-1')).toEqual(before);
  await until('pods to reach each other', 5_000, allReach);
});

it('removes a foreign flow, and nothing else', async () => {
  const before = await dumpFlows('node-1');
  await lab.ovs('node-1', 'ovs-ofctl', '-O', 'OpenFlow15', 'add-flow', 'br-int', 'table=0,priority=65000,udp,tp_dst=9,actions=drop');
  await until('the foreign flow to go', 5_000, async () => (await dumpFlows('node-1')).length === before.length);
  expect(await dumpFlows('node-1')).toEqual(before);
});

it('keeps traffic of pods while its agent is dead, and loses nothing when it restarts', async () => {
  const [client, near, far] = await Promise.all(['client-1', 'web-1', 'web-2'].map((name) => lab.pod(name)));
  const before = await dumpFlows('node-1');
  const stop = new AbortController();
  const streams = [near, far].flatMap((pod) => pod?.ips ?? []).map((ip) => pingStream(client?.netns ?? '', ip, 1000, stop.signal));
  await lab.lever('/agents/node-1/kill');
  await sleep(500);
  await lab.lever('/agents/node-1/start');
  await lab.agentReady('node-1');
  // Losses count up to the last answer, so there must be answers until the end.
  await until('pods to reach each other', 5_000, allReach);
  await sleep(500);
  stop.abort();
  for (const { sent, lost } of await Promise.all(streams)) {
    expect(lost).toBe(0);
    // A thousand a second, and a quarter of that on a busy host.
    expect(sent).toBeGreaterThan(100);
  }
  expect(await dumpFlows('node-1')).toEqual(before);
});

it.each(['all', 'ovs-vswitchd', 'ovsdb-server'])('recovers by itself when %s of Open vSwitch died', async (daemons) => {
  const before = await dumpFlows('node-2');
  await lab.lever(`/ovs/node-2/kill/${daemons}`);
  await lab.lever('/ovs/node-2/start');
  await until('pods to reach each other', 20_000, allReach);
  await lab.agentReady('node-2');
  await until('the same flows', 5_000, async () => (await dumpFlows('node-2')).length === before.length);
  expect(await dumpFlows('node-2')).toEqual(before);
  const other = await lab.ovs('node-2', 'ovs-vsctl', '--if-exists', 'get', 'Open_vSwitch', '.', 'other_config:flow-restore-wait');
  expect(other.trim()).toMatch(/^(|"?false"?)$/);
});

it('forwards nothing between the start of Open vSwitch and the return of its flows', async () => {
  await lab.lever('/agents/node-2/stop');
  await lab.lever('/ovs/node-2/kill/ovs-vswitchd');
  await lab.lever('/ovs/node-2/start');
  expect(await reaches('client-1', 'web-2')).toBe(false);
  await lab.lever('/agents/node-2/start');
  await lab.agentReady('node-2');
  await until('pods to reach each other', 5_000, allReach);
});

it('starts and ends pods after all that', async () => {
  const { api } = lab;
  const signal = AbortSignal.timeout(20_000);
  const spec = {
    nodeName: 'node-2',
    terminationGracePeriodSeconds: 0,
    containers: [{ name: 'c', image: 'none', ports: [{ containerPort: 80 }] }],
  };
  const body = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'late' }, spec };
  await api.send({ method: 'POST', path: '/api/v1/namespaces/demo/pods', body }, signal);
  await until('the pod', 10_000, () => reaches('client-1', 'late').catch(() => false));
  await api.send({ method: 'DELETE', path: '/api/v1/namespaces/demo/pods/late' }, signal);
  await until('the pod to go', 10_000, async () =>
    lab.pod('late').then(
      () => false,
      () => true,
    ),
  );
});
