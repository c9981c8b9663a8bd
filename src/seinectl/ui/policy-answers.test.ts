import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FakeAgent, FakeFleet } from '../../../test/support/fake-fleet.ts';
import type { FlowLogState, FlowView } from '../../api/flow-log.ts';
import type { CellUse } from '../../ui/answers/cell-use.ts';
import type { EdgeFlows } from '../../ui/answers/edge-flows.ts';
import type { ClusterWhatIf } from '../../ui/answers/what-if.ts';
import { usersAccess } from '../fleet/kubeconfig.ts';
import { ClusterConnection } from './cluster-connection.ts';
import { actionsOf, routesOf } from './ui-routes.ts';
import { marksOf } from './what-if-answer.ts';

let folder: string;
let fleet: FakeFleet | undefined;
let connection: ClusterConnection | undefined;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'seine-answers-'))));
afterEach(async () => {
  connection?.close();
  await fleet?.close();
  rmSync(folder, { recursive: true, force: true });
});

const pod = (name: string, app: string, nodeName: string, ip: string) => ({
  metadata: { namespace: 'shop', name, labels: { app } },
  spec: { nodeName, containers: [{ name: 'c' }] },
  status: { phase: 'Running', podIPs: [{ ip }] },
});
const node = (name: string, cidr: string, address: string) => ({
  metadata: { name },
  spec: { podCIDRs: [cidr] },
  status: { addresses: [{ type: 'InternalIP', address }] },
});
const policy = (client: string) => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { namespace: 'shop', name: 'db-clients' },
  spec: {
    podSelector: { matchLabels: { app: 'db' } },
    policyTypes: ['Ingress'],
    ingress: [{ from: [{ podSelector: { matchLabels: { app: client } } }], ports: [{ protocol: 'TCP', port: 5432 }] }],
  },
});
const objects = {
  '/api/v1/nodes': [
    node('node-1', '10.10.0.0/22', '192.168.77.1'),
    node('node-2', '10.10.4.0/22', '192.168.77.2'),
    node('node-3', '10.10.8.0/22', '192.168.77.3'),
  ],
  '/api/v1/namespaces': [{ metadata: { name: 'shop' } }],
  '/api/v1/pods': [
    pod('web-0', 'web', 'node-1', '10.10.0.5'),
    pod('cache-0', 'cache', 'node-1', '10.10.0.9'),
    pod('db-0', 'db', 'node-2', '10.10.4.9'),
    pod('db-1', 'db', 'node-3', '10.10.8.9'),
  ],
  '/apis/networking.k8s.io/v1/networkpolicies': [policy('web')],
};

const state = (name: string, enabled: boolean): FlowLogState => ({
  ...{ node: name, enabled, sources: [], skipped: 0 },
  ...(enabled && { completeFrom: '2026-11-29T13:55:02.000Z' }),
  losses: { sampling: 0, meter: 1, rate: 0, queue: 0, denied: 1, names: 3, kernel: 1, disk: 2, ends: 5 },
});
const flow: FlowView = {
  ...{ node: 'node-1', number: 1, time: '2026-11-29T14:02:12.010Z', event: 'opened', verdict: 'allowed', reporter: 'source' },
  ...{ family: 'ipv4', protocol: 'TCP' },
  source: { address: '10.10.0.5', port: 40_000, kind: 'pod', namespace: 'shop', name: 'web-0', workload: 'web' },
  destination: { address: '10.10.4.9', port: 5432, kind: 'pod', namespace: 'shop', name: 'db-0', workload: 'db' },
  service: { address: '10.96.0.20', port: 80, namespace: 'shop', name: 'db' },
};
const received: FlowView = {
  ...{ ...flow, node: 'node-2', reporter: 'destination' },
  ingress: { verdict: 'allowed', by: ['shop/db-clients spec.ingress[0]'] },
};
const attempt: FlowView = {
  ...{ ...flow, node: 'node-2', number: 2, time: '2026-11-29T14:03:00.000Z', event: 'denied', verdict: 'denied', reporter: 'destination' },
  source: { address: '10.10.0.9', port: 40_001, kind: 'pod', namespace: 'shop', name: 'cache-0', workload: 'cache' },
  ingress: { verdict: 'denied', by: ['shop/db-clients'] },
  reason: 'shop/db-clients isolates shop/db-0',
  repeated: 3,
};
const { service: _, ...ended } = flow;
const closed: FlowView = {
  ...{ ...ended, number: 3, time: '2026-11-29T14:02:13.500Z', event: 'closed', reporter: 'both' },
  ...{ startedAt: '2026-11-29T14:02:12.010Z', endedAt: '2026-11-29T14:02:13.500Z', bytes: { out: '9007199254740993', in: '7' } },
};
const lines = (name: string, enabled: boolean, ...flows: readonly FlowView[]): string =>
  [{ state: state(name, enabled) }, ...flows.map((each) => ({ flow: each }))].map((line) => JSON.stringify(line)).join('\n');

const agents: readonly FakeAgent[] = [
  { node: 'node-1', reply: { answer: '{}' } },
  { node: 'node-2', reply: { answer: '{}' } },
  { node: 'node-3', reply: 'exit' },
];
const logs = {
  'node-1 /v1/flow-log': lines('node-1', true, flow, closed),
  'node-2 /v1/flow-log': lines('node-2', true, received, attempt),
};

async function connect(more: Partial<ConstructorParameters<typeof FakeFleet>[0]> = {}): Promise<ClusterConnection> {
  fleet = new FakeFleet({ agents, objects, paths: { '/v1/policy/counters': '{"items":[]}' }, pathsOfNode: logs, ...more });
  const kubeconfig = join(folder, 'kubeconfig');
  const server = `http://127.0.0.1:${await fleet.listen()}`;
  const config = { clusters: [{ name: 'c', cluster: { server } }], contexts: [{ name: 'c', context: { cluster: 'c' } }] };
  writeFileSync(kubeconfig, JSON.stringify({ ...config, 'current-context': 'c' }));
  const access = usersAccess({ kubeconfig }, {});
  connection = new ClusterConnection({ name: 'c', access, kubeconfig, agentNamespace: 'seine-system', env: {} });
  return connection;
}

type Query = Readonly<Record<string, string>>;
const signal = new AbortController().signal;

function routeOf(routes: ReturnType<typeof routesOf>, name: string) {
  const route = routes[name];
  if (!route) throw new Error(`there is no route ${name}`);
  return route;
}

async function get<T>(name: string, query: Query, more: Parameters<typeof connect>[0] = {}): Promise<T> {
  const routes = routesOf(await connect(more));
  const { answer } = (await routeOf(routes, name)(new URLSearchParams(query), signal, '')) as { readonly answer: T };
  return answer;
}

async function whatIf(query: Query, text: string, more: Parameters<typeof connect>[0] = {}): Promise<ClusterWhatIf> {
  const actions = actionsOf(await connect(more));
  const { answer } = (await routeOf(actions, 'whatif')(new URLSearchParams(query), signal, text)) as { readonly answer: ClusterWhatIf };
  return answer;
}

describe('the use of a cell', () => {
  it('counts connections of an allowed row and attempts of a denied one, and names nodes that do not answer', async () => {
    const use = await get<CellUse>('used', { source: 'shop/web', destination: 'shop/db' });
    expect(use.rows).toEqual([
      {
        ...{ ports: 'TCP 5432', verdict: 'allow', recorded: 1 },
        last: { time: flow.time, from: 'shop/web-0', to: 'shop/db-0' },
      },
      { ports: 'all others', verdict: 'deny', recorded: 0, last: null },
    ]);
    expect([use.logged, use.completeFrom, use.lost]).toEqual([2, '2026-11-29T13:55:02.000Z', 4]);
    expect(use.unknown.map(({ nodes }) => nodes)).toEqual([['node-3']]);
  });

  it('counts denied attempts with those that one record stands for', async () => {
    const use = await get<CellUse>('used', { source: 'shop/cache', destination: 'shop/db' });
    expect(use.rows.map(({ recorded }) => recorded)).toEqual([4]);
  });

  it('is unknown, not zero, where the flow log is off', async () => {
    const off = { 'node-1 /v1/flow-log': lines('node-1', false), 'node-2 /v1/flow-log': lines('node-2', false) };
    const use = await get<CellUse>('used', { source: 'shop/web', destination: 'shop/db' }, { pathsOfNode: off });
    expect(use.rows.map(({ recorded }) => recorded)).toEqual([null, null]);
    expect(use.unknown[0]).toEqual({ text: 'The flow log is off.', count: 2, nodes: ['node-1', 'node-2'] });
  });

  it('names a node that has pods and no agent', async () => {
    const pods = [...objects['/api/v1/pods'], pod('db-2', 'db', 'node-4', '10.10.12.9')];
    const nodes = [...objects['/api/v1/nodes'], node('node-4', '10.10.12.0/22', '192.168.77.4')];
    const more = { objects: { ...objects, '/api/v1/pods': pods, '/api/v1/nodes': nodes } };
    const use = await get<CellUse>('used', { source: 'shop/web', destination: 'shop/db' }, more);
    expect(use.unknown).toContainEqual({ text: "There is no agent's pod.", count: 1, nodes: ['node-4'] });
  });

  it('asks for the records of a workload with many pods, not for all records of their nodes', async () => {
    const many = Array.from({ length: 20 }, (_, at) => pod(`db-${at}`, 'db', 'node-2', `10.10.4.${at + 9}`));
    const web = objects['/api/v1/pods'].slice(0, 1);
    const use = await get<CellUse>(
      'used',
      { source: 'shop/web', destination: 'shop/db' },
      { objects: { ...objects, '/api/v1/pods': [...web, ...many] } },
    );
    expect(use.rows.map(({ recorded }) => recorded)).toEqual([1, 0]);
    const asked = fleet?.requests.filter((path) => path.startsWith('/v1/flow-log?')).map((path) => new URLSearchParams(path.split('?')[1]));
    expect(asked?.map((query) => query.get('pod'))).toEqual(['shop/web-0,shop/db', 'shop/web-0,shop/db']);
  });

  it('rejects a name that the cluster does not have', async () => {
    await expect(get('used', { source: 'shop/x', destination: 'shop/db' })).rejects.toThrow('source: "shop/x"');
  });
});

describe('a proposal', () => {
  it('breaks and opens connections, marks their cells, and reports what of them was used', async () => {
    const effect = await whatIf({ namespace: 'shop' }, JSON.stringify(policy('cache')));
    const rows = effect.rows.map((row) => [row.effect, row.from, row.to, row.ports, row.used?.split(' since ')[0]]);
    expect(rows).toEqual([
      ['breaks', 'shop/web', 'shop/db', 'TCP 5432', '1 connection'],
      ['opens', 'shop/cache', 'shop/db', 'TCP 5432', '4 denied attempts'],
    ]);
    expect(effect.marks.toSorted((a, b) => a.from.localeCompare(b.from))).toEqual([
      { from: 'shop/cache', to: 'shop/db', effect: 'opens' },
      { from: 'shop/web', to: 'shop/db', effect: 'breaks' },
    ]);
    expect(effect.contradicted).toBe(0);
    expect(effect.evidence.join(' ')).toContain('Used: from the flow log');
    expect(effect.remarks).toEqual([]);
  });

  it('may be a deletion alone', async () => {
    const effect = await whatIf({ namespace: 'shop', delete: 'networkpolicy/shop/db-clients' }, '');
    expect(effect.changed).toEqual(['networkpolicy shop/db-clients']);
    expect(effect.rows.every((row) => row.effect === 'opens')).toBe(true);
  });

  it.each([
    ['', {}, 'nothing is proposed'],
    ['a: [', {}, 'proposal: '],
    ['kind: Secret', {}, 'proposal'],
    ['', { delete: 'networkpolicy/shop/none' }, 'none'],
  ])('is rejected with the reason: %j %j', async (text, query, reason) => {
    await expect(whatIf({ namespace: 'shop', ...query }, text)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      rawMessage: expect.stringContaining(reason) as unknown,
    });
  });

  it('names the nodes whose use is not known', async () => {
    const effect = await whatIf({ namespace: 'shop' }, JSON.stringify(policy('cache')), {
      agents: agents.map((agent) => ({ ...agent, reply: 'exit' })),
    });
    expect(effect.rows.map(({ used }) => used)).toEqual([undefined, undefined]);
    expect(effect.evidence.join(' ')).toMatch(/Use is not known: 3 nodes: node-1, node-2, node-3: /);
  });

  it('marks a pair once, and no pair of other namespaces', () => {
    const change = { ports: 'TCP 80', ranges: [], family: undefined, before: {}, after: {} };
    const rows = [
      { ...change, from: 'a/x', to: 'b/y', change: 'closed' },
      { ...change, from: 'a/x', to: 'b/y', change: 'opened' },
      { ...change, from: 'c/x', to: 'd/y', change: 'closed' },
      { ...change, from: 'a/x', to: 'a/z', change: 'other rule' },
    ] as unknown as Parameters<typeof marksOf>[0];
    expect(marksOf(rows, 'b')).toEqual([{ from: 'a/x', to: 'b/y', effect: 'both' }]);
  });
});

describe('the connections of a row of Traffic', () => {
  const edge = { source: 'shop/web', destination: 'shop/db', for: '10m' };

  it('are those of both nodes, joined, the newest first, with rules, Service and bytes', async () => {
    const found = await get<EdgeFlows>('flows', edge);
    expect(found.flows).toEqual([
      expect.objectContaining({ event: 'closed', bytes: '9007199254741000', seconds: 1.49, nodes: ['node-1'] }),
      {
        ...{ time: flow.time, event: 'opened', verdict: 'allowed', protocol: 'TCP', repeated: 0 },
        ...{ source: 'shop/web-0:40000', destination: 'shop/db-0:5432', service: 'shop/db' },
        decisions: ['ingress allowed by shop/db-clients spec.ingress[0]'],
        nodes: ['node-1', 'node-2'],
      },
    ]);
    expect([found.asked, found.answered]).toEqual([3, 2]);
    expect(fleet?.requests).toContain('/v1/flow-log?from-pod=shop%2Fweb&to-pod=shop%2Fdb&since=600&last=200');
  });

  it('name the policy of a denial', async () => {
    const found = await get<EdgeFlows>('flows', { ...edge, source: 'shop/cache', verdict: 'denied', port: '5432', protocol: 'TCP' });
    expect(found.flows).toMatchObject([
      { verdict: 'denied', decisions: ['ingress denied by shop/db-clients'], reason: 'shop/db-clients isolates shop/db-0', repeated: 3 },
    ]);
  });

  it('do not contain other ports, verdicts or workloads', async () => {
    for (const other of [{ port: '80' }, { verdict: 'refused' }, { source: 'shop/we' }, { protocol: 'UDP' }, { destination: 'outside' }])
      expect((await get<EdgeFlows>('flows', { ...edge, ...other })).flows, JSON.stringify(other)).toEqual([]);
  });

  it.each([
    [{ ...edge, source: '' }, 'source: a name is required'],
    [{ ...edge, port: 'x' }, 'port: "x" is not a port'],
  ])('are not asked for by %j', async (query, reason) => {
    await expect(get('flows', query)).rejects.toThrow(reason);
  });
});
