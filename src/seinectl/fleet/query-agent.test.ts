import { afterEach, expect, it } from 'vitest';
import { type FakeAgent, FakeFleet, fakeStatus } from '../../../test/support/fake-fleet.ts';
import type { KubeAccess } from '../../kubernetes/client/config.ts';
import { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { PodExec } from '../../kubernetes/client/pod-exec.ts';
import { relayTo } from './agent-relay.ts';
import { type AgentPod, findAgents } from './agents.ts';
import { askAgents } from './query-agent.ts';

const fleets: FakeFleet[] = [];
afterEach(async () => {
  for (const fleet of fleets.splice(0)) await fleet.close();
});

const signal = new AbortController().signal;
const well = (node: string, more: Partial<FakeAgent> = {}): FakeAgent => ({ node, reply: { answer: fakeStatus(node) }, ...more });

async function connect(agents: readonly FakeAgent[]): Promise<{ fleet: FakeFleet; exec: PodExec; pods: readonly AgentPod[] }> {
  const fleet = new FakeFleet({ agents });
  fleets.push(fleet);
  const port = await fleet.listen();
  const access: KubeAccess = {
    server: new URL(`http://127.0.0.1:${port}`),
    credentials: () => Promise.resolve({ headers: {}, tls: {} }),
    invalidate: () => undefined,
  };
  const http = new KubeHttp(access, 'test');
  const { pods } = await findAgents(http, 'seine-system', undefined, signal);
  http.close();
  return { fleet, exec: new PodExec(access, 'test'), pods };
}

function question(more: { readonly timeoutMs?: number; readonly parallel?: number } = {}) {
  return {
    request: { path: '/v1/status' },
    command: ['seinectl', 'status', '-o', 'json'],
    understand: (text: string) => (JSON.parse(text) as { node: string }).node,
    timeoutMs: 5_000,
    parallel: 10,
    progress: () => undefined,
    ...more,
  };
}

it('queries agents by the relay, and agents of images without it by running seinectl', async () => {
  const { fleet, exec, pods } = await connect([well('node-1'), well('node-2', { isOld: true }), well('node-3', { reply: 'exit' })]);
  const replies = await askAgents(exec, pods, question({ parallel: 1 }), signal);
  expect(replies.map((reply) => ('answer' in reply ? reply.answer : reply.failure))).toEqual([
    'node-1',
    'node-2',
    'no agent answers on /run/seine/agent.sock: No such file or directory',
  ]);
  expect(fleet.commands.map((command) => command.slice(0, 2).join(' '))).toEqual([
    '/opt/seine/cni/seine --join',
    '/opt/seine/cni/seine --join',
    // The second one is slow, so the third one does not wait for it.
    '/opt/seine/cni/seine --join',
    'seinectl status',
  ]);
});

it('carries many requests over one exec', async () => {
  const { fleet, exec, pods } = await connect([well('node-1')]);
  const [pod] = pods;
  if (!pod) throw new Error('no agent');
  const relay = relayTo(exec, pod);
  for (const path of ['/v1/status', '/v1/drops', '/v1/pods']) expect(await relay.client.json(path)).toMatchObject({ node: 'node-1' });
  relay.close();
  expect(fleet.requests).toEqual(['/v1/status', '/v1/drops', '/v1/pods']);
  expect(fleet.commands).toEqual([['/opt/seine/cni/seine', '--join', '/run/seine/agent.sock']]);
});

it('starts another exec if the agent has closed the connection meanwhile', async () => {
  const { fleet, exec, pods } = await connect([well('node-1')]);
  const [pod] = pods;
  if (!pod) throw new Error('no agent');
  const relay = relayTo(exec, pod);
  await relay.client.json('/v1/status');
  fleet.endExecs();
  expect(await relay.client.json('/v1/status')).toMatchObject({ node: 'node-1' });
  relay.close();
  expect(fleet.commands).toHaveLength(2);
});

it('names the right that a user without exec lacks', async () => {
  const { exec, pods } = await connect([well('node-1', { reply: 'refused' })]);
  const [reply] = await askAgents(exec, pods, question(), signal);
  expect(reply).toMatchObject({
    failure: expect.stringContaining('the user needs the rights to create and get pods/exec in namespace seine-system'),
  });
});

it('is not delayed by agents that do not answer', async () => {
  const silent = Array.from({ length: 20 }, (_, at): FakeAgent => ({ node: `silent-${at}`, reply: 'silent' }));
  const { exec, pods } = await connect([...silent, ...Array.from({ length: 100 }, (_, at) => well(`well-${at}`))]);
  const all = new AbortController();
  let answered = 0;
  const progress = (asked: number, failures: number): void => {
    answered = asked - failures;
    if (answered === 100) all.abort();
  };
  // More silent agents than parallel queries: waiting for one of them would take a minute.
  const asking = askAgents(exec, pods, { ...question({ timeoutMs: 60_000, parallel: 10 }), progress }, all.signal);
  await expect(asking).rejects.toThrow(/CANCELLED/);
  expect(answered).toBe(100);
});
