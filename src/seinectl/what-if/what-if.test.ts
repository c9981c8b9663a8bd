import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, afterEach, expect, it } from 'vitest';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import { run } from '../program.ts';

const folder = mkdtempSync(join(tmpdir(), 'seinectl-whatif-'));
const servers: Server[] = [];
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

const write = (name: string, value: unknown): string => {
  const path = join(folder, name);
  writeFileSync(path, typeof value === 'string' ? value : JSON.stringify(value));
  return path;
};
const pod = (name: string, app: string, node: string, ip: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'shop', name, labels: { app } },
  spec: { nodeName: node, containers: [{ name: 'c' }] },
  status: { phase: 'Running', podIPs: [{ ip }] },
});
const node = (name: string, cidr: string, ip: string) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name },
  spec: { podCIDRs: [cidr] },
  status: { addresses: [{ type: 'InternalIP', address: ip }] },
});
const service = (port: number, more: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { namespace: 'shop', name: 'db' },
  spec: { clusterIP: '10.96.0.20', clusterIPs: ['10.96.0.20'], selector: { app: 'db' }, ports: [{ port, targetPort: 5432 }], ...more },
});
const policy = (client: string) => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { namespace: 'shop', name: 'db-clients' },
  spec: {
    podSelector: { matchLabels: { app: 'db' } },
    ingress: [{ from: [{ podSelector: { matchLabels: { app: client } } }], ports: [{ port: 5432 }] }],
  },
});
const slice = {
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { namespace: 'shop', name: 'db-1', labels: { 'kubernetes.io/service-name': 'db' } },
  addressType: 'IPv4',
  endpoints: [{ addresses: ['10.10.4.9'], nodeName: 'node-2', conditions: { ready: true } }],
  ports: [{ name: '', protocol: 'TCP', port: 5432 }],
};
const cluster = {
  nodes: [node('node-1', '10.10.0.0/22', '192.168.77.1'), node('node-2', '10.10.4.0/22', '192.168.77.2')],
  namespaces: [{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop' } }],
  pods: [
    pod('web-0', 'web', 'node-1', '10.10.0.5'),
    pod('web-1', 'web', 'node-2', '10.10.4.5'),
    pod('db-0', 'db', 'node-2', '10.10.4.9'),
    pod('cache-0', 'cache', 'node-1', '10.10.0.9'),
  ],
  services: [service(5432)],
  endpointslices: [slice],
  networkpolicies: [policy('web')],
  clusternetworkpolicies: [] as object[],
};
const objects = write('cluster.json', { apiVersion: 'v1', kind: 'List', items: Object.values(cluster).flat() });

async function seinectl(...args: readonly string[]) {
  const { terminal, out, err } = recordingTerminal();
  const code = await run(['whatif', ...args], terminal, Readable.from(['']));
  return { code, out: out.map((line) => (line.startsWith('{') ? line : line.replace(/ {2,}/g, ' | '))), err: err.join('\n') };
}
const offline = (proposal: unknown, ...args: readonly string[]) =>
  seinectl('--objects', objects, '-f', write('proposal.json', proposal), ...args);

it('names what a policy breaks and opens, with the rules: exit 1', async () => {
  const { code, out, err } = await offline(policy('cache'));
  expect([code, ...out]).toEqual([
    1,
    'BREAKS | shop/web (2 pods) -> shop/db TCP 5432 | allowed today by shop/db-clients spec.ingress[0]; then denied by shop/db-clients',
    'OPENS | shop/cache -> shop/db TCP 5432 | denied today by shop/db-clients; then allowed by shop/db-clients spec.ingress[0]',
  ]);
  expect(err).toContain('confirmed by the reference');
});

it('follows labels of pods: policies that select them, and Services whose endpoints they become', async () => {
  const relabelled = { apiVersion: 'v1', kind: 'Pod', metadata: { namespace: 'shop', name: 'web-1', labels: { app: 'db' } } };
  const { out } = await offline(relabelled);
  expect(out).toContain(
    'MOVES | shop/web (web-0) -> service shop/db IPv4 5432/TCP | today 1 endpoint: 10.10.4.9:5432; then 2 endpoints: 10.10.4.5:5432, 10.10.4.9:5432',
  );
  expect(out.find((line) => line.startsWith('BREAKS') && line.includes('-> shop/web (web-1) all'))).toContain(
    'then denied by shop/db-clients',
  );
});

it('compares ports and addresses of Services, and finds conflicts', async () => {
  const ports = await offline(service(5433));
  expect([ports.code, ports.out[0]]).toEqual([
    1,
    'BREAKS | shop/web (2 pods) -> service shop/db IPv4 5432/TCP | today 1 endpoint: 10.10.4.9:5432; then the Service has no such port',
  ]);
  const moved = await offline(service(5432, { clusterIP: '10.96.0.21', clusterIPs: ['10.96.0.21'] }));
  expect(moved.out[0]).toBe('BREAKS | clients of the address 10.96.0.20 -> service shop/db all ports | today served; then no such address');
  const other = { ...service(80), metadata: { namespace: 'shop', name: 'copy' } };
  expect((await offline(other)).out).toContain(
    'CONFLICT | 10.96.0.20 is claimed by the Services shop/copy, shop/db: the oldest of them is served',
  );
});

it('names what local endpoints mean for external clients, by node', async () => {
  const local = service(5432, {
    type: 'NodePort',
    externalTrafficPolicy: 'Local',
    ports: [{ port: 5432, targetPort: 5432, nodePort: 30_020 }],
  });
  expect((await offline(local)).out).toEqual([
    'OPENS | external clients at node port 30020 on node-2 -> service shop/db IPv4 5432/TCP | today no such address; then 10.10.4.9 port 5432',
  ]);
});

it('prints JSON, and 0 if nothing breaks', async () => {
  const { code, out } = await seinectl('--objects', objects, '--delete', 'networkpolicy/shop/db-clients', '-o', 'json');
  const { connections, notConfirmed, used } = JSON.parse(out.join('\n'));
  expect([code, notConfirmed, used.openConnections]).toEqual([0, 0, null]);
  expect(connections).toContainEqual(expect.objectContaining({ from: 'shop/cache', to: 'shop/db', change: 'opened' }));
});

it.each([
  ['no proposal', ['--objects', objects], 'nothing is proposed'],
  ['a kind that cannot be deleted', ['--objects', objects, '--delete', 'pod/shop/web-0'], 'is not KIND/NAMESPACE/NAME'],
  ['an object that does not exist', ['--objects', objects, '--delete', 'service/shop/x'], 'there is no "service/shop/x"'],
  ['a document without a kind', ['--objects', objects, '-f', write('bad.yaml', 'metadata: {name: x}')], 'bad.yaml: apiVersion'],
  ['a port that is none', ['--objects', objects, '-f', write('port.json', service(70_000))], 'spec.ports[0].port'],
  ['a missing file', ['--objects', objects, '-f', join(folder, 'none.yaml')], 'none.yaml: no such file'],
])('refuses %s: exit 2', async (_, args, message) => {
  const { code, err } = await seinectl(...args);
  expect([code, err]).toEqual([2, expect.stringContaining(message)]);
});

it('counts kinds that it does not compare', async () => {
  const { code, err } = await offline({ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'web', namespace: 'shop' } });
  expect([code, err]).toEqual([0, expect.stringContaining('1 Deployment: not compared')]);
});

type Answer = readonly [status: number, body: unknown];

/** API server with the objects of the cluster; other requests are answered by `answer`. */
async function apiServer(
  answer: (request: string, body: unknown) => Answer,
): Promise<{ readonly args: readonly string[]; readonly asked: string[] }> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = chunks.length > 0 ? JSON.parse(Buffer.concat(chunks).toString()) : undefined;
      const text = `${request.method} ${url.pathname}${url.searchParams.get('dryRun') ? '?dryRun' : ''}`;
      if (text.includes('dryRun') || request.method !== 'GET') asked.push(text);
      const list = /^\/apis?\/(?:[^/]+\/)?v[^/]+\/([a-z]+)$/.exec(url.pathname)?.[1] as keyof typeof cluster | undefined;
      const group = { versions: [{ version: 'v1beta1' }] };
      const known: Answer | undefined = url.pathname.endsWith('/policy.networking.k8s.io')
        ? [200, group]
        : list !== undefined && Object.hasOwn(cluster, list)
          ? [200, { kind: 'List', metadata: {}, items: cluster[list] }]
          : undefined;
      const special = answer(text, body);
      const [status, value] = special[0] === 0 ? (known ?? [404, { kind: 'Status', reason: 'NotFound', message: 'not found' }]) : special;
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const kubeconfig = write('kubeconfig', {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'test',
    clusters: [{ name: 'test', cluster: { server: `http://127.0.0.1:${port}` } }],
    users: [{ name: 'test', user: {} }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
  });
  return { args: ['--kubeconfig', kubeconfig, '--no-used'], asked };
}

const status = (code: number, reason: string, message: string): Answer => [code, { kind: 'Status', reason, message }];
const policyPath = '/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies/db-clients';
const proposal = () => write('online.json', policy('cache'));

it('lets the API server run the proposal first, and takes its answer', async () => {
  const { args, asked } = await apiServer((request, body) => {
    if (request === `GET ${policyPath}`)
      return [200, { ...policy('web'), metadata: { name: 'db-clients', namespace: 'shop', resourceVersion: '7' } }];
    if (request !== `PUT ${policyPath}?dryRun`) return [0, null];
    expect(body).toMatchObject({ metadata: { resourceVersion: '7' } });
    // Admission adds the client that the proposal removes.
    return [200, policy('web')];
  });
  expect(await seinectl(...args, '-f', proposal())).toMatchObject({ code: 0, out: [] });
  expect(asked).toEqual([`PUT ${policyPath}?dryRun`]);
});

it('removes a label of the proposal, though the answer of the dry run has only the labels that stay', async () => {
  const web1 = '/api/v1/namespaces/shop/pods/web-1';
  const { args } = await apiServer((request) => {
    if (request === `GET ${web1}`) return [200, cluster.pods[1]];
    return request === `PATCH ${web1}?dryRun` ? [200, { ...cluster.pods[1], metadata: { namespace: 'shop', name: 'web-1' } }] : [0, null];
  });
  const labels = { app: null };
  const relabelled = { apiVersion: 'v1', kind: 'Pod', metadata: { namespace: 'shop', name: 'web-1', labels } };
  const { code, out } = await seinectl(...args, '-f', write('online.json', relabelled));
  expect([code, out[0]]).toEqual([1, expect.stringContaining('BREAKS | shop/web (web-1) -> shop/db TCP 5432')]);
});

it('names the dry run that the user may not make, and an object that the server rejects', async () => {
  const forbidden = await apiServer((request) => (request.includes(policyPath) ? status(403, 'Forbidden', 'no') : [0, null]));
  const { code, err } = await seinectl(...forbidden.args, '-f', proposal());
  expect([code, err]).toEqual([
    1,
    expect.stringContaining('no dry run of NetworkPolicy shop/db-clients, which needs the right to write it'),
  ]);
  const invalid = await apiServer((request) => (request.includes('dryRun') ? status(422, 'Invalid', 'spec.x: wrong') : [0, null]));
  const refused = await seinectl(...invalid.args, '-f', proposal());
  expect([refused.code, refused.err]).toEqual([2, expect.stringContaining('spec.x: wrong')]);
});

it('names lists that the user may not read: exit 3', async () => {
  const services = await apiServer((request) =>
    request === 'GET /api/v1/services' ? status(403, 'Forbidden', 'services is forbidden') : [0, null],
  );
  const partial = await seinectl(...services.args, '--no-dry-run', '--delete', 'networkpolicy/shop/db-clients');
  expect([partial.code, partial.err]).toEqual([3, expect.stringContaining('services could not be listed')]);
  const pods = await apiServer((request) => (request === 'GET /api/v1/pods' ? status(403, 'Forbidden', 'pods is forbidden') : [0, null]));
  const nothing = await seinectl(...pods.args, '--no-dry-run', '-f', proposal());
  expect([nothing.code, nothing.err]).toEqual([3, expect.stringContaining('pods is forbidden')]);
});
