import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type FakeAgent, FakeFleet } from '../../../test/support/fake-fleet.ts';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import type { NodeTrace, TraceOutcome } from '../../api/trace.ts';
import { traceCluster } from './trace-cluster.ts';

let folder: string;
let fleet: FakeFleet | undefined;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-trace-'));
});
afterEach(async () => {
  await fleet?.close();
  rmSync(folder, { recursive: true, force: true });
});

const packet = { protocol: 'TCP', source: '10.0.0.5', sourcePort: 40_000, destination: '10.0.1.5', destinationPort: 80, ttl: 64 };
const toNode2: TraceOutcome = { what: 'tunnel', to: 'node-2', packet };
const encrypted: TraceOutcome = {
  ...{ what: 'node', to: 'the node, through its gateway', packet },
  onward: { node: 'node-2', mode: 'wireguard', device: 'antrea-wg0' },
};
const delivered: TraceOutcome = { what: 'pod', to: 'pod shop/db-0', packet };

function answer(node: string, bridge: TraceOutcome): string {
  const path = { endpoints: [], hops: [{ table: 'classify', text: 'arrives', flow: null, owner: null }], bridge, desired: bridge };
  const ends = { from: 'shop/web-0', to: 'shop/db-0', connection: 'new' } as const;
  const trace: NodeTrace = { node, traces: [{ family: 'ipv4', packet, ...ends, paths: [path], moreEndpoints: 0, milliseconds: 1 }] };
  return JSON.stringify(trace);
}

const pod = (name: string, app: string, ip: string, nodeName: string): object => ({
  metadata: { namespace: 'shop', name, labels: { app } },
  spec: { nodeName, containers: [{ name: 'c' }] },
  status: { phase: 'Running', podIPs: [{ ip }] },
});

const onHost = {
  ...pod('exporter', 'exporter', '192.168.77.1', 'node-1'),
  spec: { nodeName: 'node-1', hostNetwork: true, containers: [{ name: 'c' }] },
};

const node = (name: string, cidr: string): object => ({
  metadata: { name, labels: { 'kubernetes.io/os': 'linux' } },
  spec: { podCIDRs: [cidr] },
  status: { addresses: [] },
});

const denyAll: object = {
  metadata: { namespace: 'shop', name: 'deny-all' },
  spec: { podSelector: {}, policyTypes: ['Ingress'] },
};

async function trace(agents: readonly FakeAgent[], policies: readonly object[] = [], from = 'shop/web-0') {
  fleet = new FakeFleet({
    agents,
    objects: {
      '/api/v1/pods': [pod('web-0', 'web', '10.0.0.5', 'node-1'), pod('db-0', 'db', '10.0.1.5', 'node-2'), onHost],
      '/api/v1/namespaces': [{ metadata: { name: 'shop' } }],
      '/api/v1/nodes': [node('node-1', '10.0.0.0/24'), node('node-2', '10.0.1.0/24')],
      '/apis/networking.k8s.io/v1/networkpolicies': policies,
    },
  });
  const server = `http://127.0.0.1:${await fleet.listen()}`;
  const kubeconfig = join(folder, 'kubeconfig');
  const here = { clusters: [{ name: 'here', cluster: { server } }], users: [{ name: 'me', user: { token: 'secret' } }] };
  const contexts = [{ name: 'here', context: { cluster: 'here', user: 'me' } }];
  writeFileSync(kubeconfig, JSON.stringify({ ...here, contexts, 'current-context': 'here' }));
  const { terminal, out, err } = recordingTerminal();
  const flags = { kubeconfig, namespace: 'seine-system', output: 'table' } as const;
  const code = await traceCluster({ from, to: 'shop/db-0', port: '80' }, flags, terminal, {});
  return { code, out: out.join('\n'), err: err.join('\n'), commands: fleet.commands, requests: fleet.requests };
}

const both: readonly FakeAgent[] = [
  { node: 'node-1', reply: { answer: answer('node-1', toNode2) } },
  { node: 'node-2', reply: { answer: answer('node-2', delivered) } },
];

it('asks the node of the sender, then the next one, and compares with the objects', async () => {
  const { code, out, requests } = await trace(both);
  expect(requests.map((path) => decodeURIComponent(path))).toEqual([
    '/v1/trace?from=shop/web-0&to=shop/db-0&port=80',
    '/v1/trace?from=tunnel:node-1/10.0.0.5&to=10.0.1.5&family=ipv4&port=80/TCP&source-port=40000',
  ]);
  expect(out).toContain('ALLOWED  shop/web-0 (10.0.0.5, node-1) -> shop/db-0 10.0.1.5 80/TCP');
  expect(out).toContain('Delivered to pod shop/db-0 on node-2.');
  expect(out).toContain('meaning allowed (no policy isolates an end)');
  expect(code).toBe(0);
});

it('asks about the node in place of a pod in its network', async () => {
  const { requests } = await trace(both, [], 'shop/exporter');
  expect(decodeURIComponent(requests[0] ?? '')).toBe('/v1/trace?from=node:node-1&to=shop/db-0&port=80');
});

it('runs seinectl on the nodes of agents without a relay', async () => {
  const { code, commands } = await trace(both.map((agent) => ({ ...agent, isOld: true })));
  expect(commands.filter(([program]) => program === 'seinectl')).toEqual([
    ['seinectl', 'trace', '--raw', '--', 'shop/web-0', 'shop/db-0', '80'],
    ['seinectl', 'trace', '--raw', '--family', 'ipv4', '--source-port', '40000', '--', 'tunnel:node-1/10.0.0.5', '10.0.1.5', '80/TCP'],
  ]);
  expect(code).toBe(0);
});

it('follows a packet that the kernel sends to the next node', async () => {
  const [, second] = both;
  if (!second) throw new Error('no agent');
  const { code, out, requests } = await trace([{ node: 'node-1', reply: { answer: answer('node-1', encrypted) } }, second]);
  expect(decodeURIComponent(requests[1] ?? '')).toContain('direct:node-1/10.0.0.5');
  expect(out).toContain('The kernel of node-1 sends it by antrea-wg0, encrypted, to node-2.');
  expect(out).toContain('Delivered to pod shop/db-0 on node-2.');
  expect(out).toContain('bridge allowed (wireguard to node-2, then pod shop/db-0)');
  expect(code).toBe(0);
});

it('reports a packet that may not leave without encryption', async () => {
  const blocked: TraceOutcome = { ...encrypted, onward: { node: 'node-2', mode: 'blocked' } };
  const { code, out } = await trace([{ node: 'node-1', reply: { answer: answer('node-1', blocked) } }]);
  expect(out).toContain('DENIED');
  expect(out).toContain('The kernel of node-1 drops it: there is no encrypted way to node-2 yet');
  expect(code).toBe(1); // objects do not decide about encryption
});

it('reports that the objects deny what the nodes let pass', async () => {
  const { code, out } = await trace(both, [denyAll]);
  expect(out).toContain('meaning denied (ingress: no rule allows it: shop/deny-all)');
  expect(out).toContain('The objects in the API server specify something else');
  expect(out).toContain('`seinectl status` on node-1 shows the age of its copies');
  expect(code).toBe(4);
});

it('names a node that does not answer, with the rest of the path', async () => {
  const [first] = both;
  if (!first) throw new Error('no agent');
  const { code, out } = await trace([first, { node: 'node-2', reply: 'exit' }]);
  expect(out).toContain('UNKNOWN');
  expect(out).toContain('The part of node-2 is unknown: no agent answers on /run/seine/agent.sock');
  expect(code).toBe(3);
});

it('names the first node if it does not answer', async () => {
  const { code, err } = await trace([{ node: 'node-1', reply: 'exit' }, ...both.slice(1)]);
  expect(err).toBe('seinectl: node-1 does not answer: no agent answers on /run/seine/agent.sock: No such file or directory');
  expect(code).toBe(3);
});

it('asks a node that does not answer once, not for each family', async () => {
  const { traces } = JSON.parse(answer('node-1', toNode2)) as NodeTrace;
  const twice = JSON.stringify({ node: 'node-1', traces: [...traces, ...traces.map((each) => ({ ...each, family: 'ipv6' }))] });
  const { out, commands } = await trace([
    { node: 'node-1', reply: { answer: twice } },
    { node: 'node-2', reply: 'exit' },
  ]);
  expect(out.match(/The part of node-2 is unknown: no agent answers/g)).toHaveLength(2);
  expect(commands).toHaveLength(2);
});

it('names the right that a user lacks', async () => {
  const { code, err } = await trace([{ node: 'node-1', reply: 'refused' }]);
  expect(err).toContain('node-1 does not answer: the API server answered 403 Forbidden');
  expect(err).toContain('the user needs the rights to create and get pods/exec in namespace seine-system');
  expect(code).toBe(3);
});

it('an answer that is no trace is that of an older agent', async () => {
  const { code, err } = await trace([{ node: 'node-1', reply: { answer: '{"node":"node-1"}' } }]);
  expect(err).toContain('the agent may be older than this seinectl');
  expect(code).toBe(3);
});
