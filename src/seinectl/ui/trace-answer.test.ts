import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { FakeFleet, type FakeFleetOptions } from '../../../test/support/fake-fleet.ts';
import { recordedElsewhere, recordedLines, recordedMs } from '../../../test/support/recorded-inputs.ts';
import type { TraceView } from '../../ui/answers/trace-view.ts';
import { usersAccess } from '../fleet/kubeconfig.ts';
import { traceAnswer } from './trace-answer.ts';

let folder = '';
let fleet: FakeFleet | undefined;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'seine-trace-answer-'))));
afterEach(async () => {
  await fleet?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function answer(query: Readonly<Record<string, string>>, options: FakeFleetOptions): Promise<TraceView> {
  fleet = new FakeFleet(options);
  const kubeconfig = join(folder, 'kubeconfig');
  const server = `http://127.0.0.1:${await fleet.listen()}`;
  const config = { clusters: [{ name: 'c', cluster: { server } }], contexts: [{ name: 'c', context: { cluster: 'c' } }] };
  writeFileSync(kubeconfig, JSON.stringify({ ...config, 'current-context': 'c' }));
  const access = usersAccess({ kubeconfig }, {});
  return await traceAnswer(new URLSearchParams(query), { name: 'c', access, kubeconfig, agentNamespace: 'seine-system', env: {} });
}

const packet = { protocol: 'TCP', source: '10.0.0.5', sourcePort: 40_000, destination: '10.0.0.6', destinationPort: 80, ttl: 64 };
const delivered = { what: 'pod', to: 'pod shop/db-0', packet };
const path = {
  endpoints: [],
  hops: [{ table: 'classify', text: 'arrives', flow: null, owner: null }],
  bridge: delivered,
  desired: delivered,
};
const ends = { from: 'shop/web-0', to: 'shop/db-0', connection: 'new', family: 'ipv4', packet, moreEndpoints: 0, milliseconds: 1 };
const pod = (name: string, ip: string) => ({
  metadata: { namespace: 'shop', name, labels: {} },
  spec: { nodeName: 'node-1', containers: [{ name: 'c' }] },
  status: { phase: 'Running', podIPs: [{ ip }] },
});
const drop = { table: 'output', name: 'policy.ingress', message: 'denied', cause: 'c', remedy: 'r', packets: null };

function oneNode(end: object, notes: readonly string[] = []): FakeFleetOptions {
  const probe = { family: 'ipv4', number: 1, packet, end, notes, milliseconds: 1 };
  return {
    agents: [{ node: 'node-1', reply: { answer: '{}' } }],
    paths: {
      '/v1/trace': JSON.stringify({ node: 'node-1', traces: [{ ...ends, paths: [path] }] }),
      '/v1/probe': JSON.stringify({ node: 'node-1', probes: [probe] }),
    },
    objects: {
      '/api/v1/pods': [pod('web-0', '10.0.0.5'), pod('db-0', '10.0.0.6')],
      '/api/v1/namespaces': [{ metadata: { name: 'shop' } }],
      '/api/v1/nodes': [{ metadata: { name: 'node-1' }, spec: { podCIDRs: ['10.0.0.0/24'] }, status: { addresses: [] } }],
    },
  };
}
const question = { from: 'shop/web-0', to: 'shop/db-0', port: '80' };

it('sends a probe only if it is asked for, and has its verdict beside those of objects, agents and Open vSwitch', async () => {
  const without = await answer(question, oneNode({ ...delivered, table: 'output' }));
  expect(without.traces[0]?.paths[0]?.verdicts.map(({ of }) => of)).toEqual(['meaning', 'desired', 'bridge']);
  expect(fleet?.requests.filter((each) => each.startsWith('/v1/probe'))).toEqual([]);
  await fleet?.close();
  const { exitCode, traces } = await answer({ ...question, probe: 'true' }, oneNode({ ...delivered, table: 'output' }, ['a note']));
  expect(exitCode).toBe(0);
  expect(traces[0]?.paths[0]?.verdicts.at(-1)).toEqual({
    of: 'packet',
    verdict: 'allowed',
    why: 'node-1: reached the output to pod shop/db-0',
  });
  expect(traces[0]?.probe?.notes).toEqual(['a note']);
});

it('reports a probe that does not end as the flows say', async () => {
  const { exitCode, traces } = await answer(
    { ...question, probe: 'true' },
    oneNode({ what: 'dropped', to: 'policy.ingress', packet, drop, table: 'output' }),
  );
  expect([exitCode, traces[0]?.probe?.verdict]).toEqual([4, 'denied']);
  expect(traces[0]?.paths[0]?.verdicts.at(-1)).toMatchObject({ of: 'packet', verdict: 'denied' });
});

it('traces at a time in the past, of which only the verdict of the agents is known', async () => {
  const isComplete = (line: string): boolean => line.includes('"complete"');
  const text = (lines: readonly string[]): string => `${lines.slice(0, lines.findIndex(isComplete) + 1).join('\n')}\n`;
  const { traces } = await answer(
    { from: 'shop/web-0', to: 'far/api-0', port: '80', at: new Date(recordedMs.first + 30_000).toISOString() },
    {
      agents: ['n1', 'n2'].map((node) => ({ node, reply: { answer: '{}' } })),
      single: {
        '/api/v1/namespaces/shop/pods/web-0': { spec: { nodeName: 'n1' } },
        '/api/v1/namespaces/far/pods/api-0': { spec: { nodeName: 'n2' } },
      },
      pathsOfNode: { 'n1 /v1/history/inputs': text(recordedLines()), 'n2 /v1/history/inputs': text(recordedElsewhere()) },
    },
  );
  expect(traces[0]?.at?.records.map(({ node }) => node)).toEqual(['n1', 'n2']);
  expect(traces[0]?.paths[0]).toMatchObject({ verdict: 'allowed', verdicts: [{ of: 'desired', verdict: 'allowed' }] });
  expect(traces[0]?.paths[0]?.stages.map(({ node }) => node)).toEqual(['n1', 'n2']);
});

it.each([
  [{ ...question, at: 'noon' }, 'at: "noon" is neither'],
  [{ ...question, at: '2999-01-01T00:00:00Z' }, 'at: "2999-01-01T00:00:00Z" is neither'],
  [{ ...question, at: '5m', probe: 'true' }, 'probe: a packet cannot be sent at a time in the past'],
  [{ ...question, probe: '1' }, 'probe: '],
])('refuses %j', async (query, reason) => {
  await expect(answer(query, oneNode({}))).rejects.toThrow(reason);
});
