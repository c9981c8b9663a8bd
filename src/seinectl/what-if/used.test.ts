import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { FakeFleet } from '../../../test/support/fake-fleet.ts';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import type { FlowLogState, FlowView } from '../../api/flow-log.ts';
import type { OpenConnectionsView } from '../../api/open-connections.ts';
import { run } from '../program.ts';

let folder: string;
let fleet: FakeFleet | undefined;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'seine-used-'))));
afterEach(async () => {
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
  metadata: { namespace: 'shop', name: 'db-clients' },
  spec: {
    podSelector: { matchLabels: { app: 'db' } },
    ingress: [{ from: [{ podSelector: { matchLabels: { app: client } } }], ports: [{ port: 5432 }] }],
  },
});
const service = {
  metadata: { namespace: 'shop', name: 'db' },
  spec: { clusterIP: '10.96.0.20', clusterIPs: ['10.96.0.20'], selector: { app: 'db' }, ports: [{ port: 80, targetPort: 5432 }] },
};
const slice = {
  metadata: { namespace: 'shop', name: 'db-1', labels: { 'kubernetes.io/service-name': 'db' } },
  addressType: 'IPv4',
  endpoints: [{ addresses: ['10.10.4.9'], nodeName: 'node-2', conditions: { ready: true } }],
  ports: [{ name: '', protocol: 'TCP', port: 5432 }],
};
const objects = {
  '/api/v1/nodes': [node('node-1', '10.10.0.0/22', '192.168.77.1'), node('node-2', '10.10.4.0/22', '192.168.77.2')],
  '/api/v1/namespaces': [{ metadata: { name: 'shop' } }],
  '/api/v1/pods': [
    pod('web-0', 'web', 'node-1', '10.10.0.5'),
    pod('cache-0', 'cache', 'node-1', '10.10.0.9'),
    pod('db-0', 'db', 'node-2', '10.10.4.9'),
  ],
  '/api/v1/services': [service],
  '/apis/discovery.k8s.io/v1/endpointslices': [slice],
  '/apis/networking.k8s.io/v1/networkpolicies': [policy('web')],
};

const state = (name: string, enabled: boolean): FlowLogState => ({
  ...{ node: name, enabled, sources: [], skipped: 0 },
  ...(enabled && { completeFrom: name === 'node-1' ? '2026-11-29T13:00:00.000Z' : '2026-11-29T13:55:02.000Z' }),
  losses: { sampling: 0, meter: 2, rate: 0, queue: 0, ends: 0, denied: 0, names: 0, kernel: 0, disk: 0 },
});
const flow: FlowView = {
  ...{ node: 'node-1', number: 1, time: '2026-11-29T14:02:12.010Z', event: 'opened', verdict: 'allowed', reporter: 'source' },
  ...{ family: 'ipv4', protocol: 'TCP' },
  source: { address: '10.10.0.5', port: 40_000, kind: 'pod', namespace: 'shop', name: 'web-0' },
  destination: { address: '10.10.4.9', port: 5432, kind: 'pod', namespace: 'shop', name: 'db-0' },
  service: { address: '10.96.0.20', port: 80, namespace: 'shop', name: 'db' },
};
const received: FlowView = { ...flow, node: 'node-2', reporter: 'destination', repeated: 2 };
const attempt: FlowView = {
  ...{ ...flow, node: 'node-2', number: 2, time: '2026-11-29T14:03:00.000Z', event: 'denied', verdict: 'denied', reporter: 'destination' },
  source: { address: '10.10.0.9', port: 40_001, kind: 'pod', namespace: 'shop', name: 'cache-0' },
  repeated: 3,
};
const lines = (name: string, enabled: boolean, ...flows: readonly FlowView[]): string =>
  [{ state: state(name, enabled) }, ...flows.map((each) => ({ flow: each })), { state: state(name, enabled) }]
    .map((line) => JSON.stringify(line))
    .join('\n');
const open = (name: string, tracker: OpenConnectionsView['tracker']): string => {
  const item = { protocol: 'TCP', source: '10.10.0.5', destination: '10.10.4.9', port: 5432, connections: 3 };
  const other = { ...item, port: 9999 };
  return JSON.stringify({ node: name, tracker, items: tracker === 'kernel' ? [item, other] : [], others: 0 } satisfies OpenConnectionsView);
};
const counters = JSON.stringify({ items: [{ verdict: 'allow', by: ['shop/db-clients spec.ingress[0]'], packets: '12' }] });

/** Records of the second node. */
let further: readonly FlowView[] = [];
beforeEach(() => void (further = [received, attempt]));

async function whatIf(isOn: boolean, tracker: OpenConnectionsView['tracker'], proposal: object, ...args: readonly string[]) {
  const paths = { '/v1/policy/counters': counters };
  const pathsOfNode = {
    'node-1 /v1/flow-log': lines('node-1', isOn, flow),
    'node-2 /v1/flow-log': lines('node-2', isOn, ...further),
    'node-1 /v1/open-connections': open('node-1', tracker),
    'node-2 /v1/open-connections': open('node-2', tracker),
  };
  const agents = ['node-1', 'node-2'].map((name) => ({ node: name, reply: { answer: '{}' } }));
  fleet = new FakeFleet({ agents, objects, paths, pathsOfNode });
  const server = `http://127.0.0.1:${await fleet.listen()}`;
  const kubeconfig = join(folder, 'kubeconfig');
  const here = { clusters: [{ name: 'here', cluster: { server } }], users: [{ name: 'me', user: { token: 'secret' } }] };
  const contexts = [{ name: 'here', context: { cluster: 'here', user: 'me' } }];
  writeFileSync(kubeconfig, JSON.stringify({ ...here, contexts, 'current-context': 'here' }));
  const file = join(folder, 'proposal.json');
  writeFileSync(file, JSON.stringify(proposal));
  const { terminal, out, err } = recordingTerminal();
  const code = await run(['whatif', '-f', file, '--no-dry-run', '--kubeconfig', kubeconfig, ...args], terminal, Readable.from([]));
  const used = out.filter((line) => line.includes('used:')).map((line) => line.trim());
  return { code, out, used, err: err.join('\n'), requests: fleet.requests };
}

const proposed = { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', ...policy('cache') };

it('counts the connections of the flow log, each once, and those that are open', async () => {
  const { used, err, requests } = await whatIf(true, 'kernel', proposed, '--since', '2h');
  expect(used).toEqual([
    'used: 1 connection since 2026-11-29 13:55:02, last at 14:02:12 (shop/web-0 -> shop/db-0); 3 open now',
    'used: 4 denied attempts since 2026-11-29 13:55:02, last at 14:03:00 (shop/cache-0 -> shop/db-0)',
  ]);
  expect(err).toContain('Used: from the flow log (UTC) of 2 nodes; 4 connections not recorded.');
  expect(err).toContain('Open now: from the trackers of 2 nodes.');
  const log = requests.find((path) => path.startsWith('/v1/flow-log')) ?? '';
  expect([...new URL(log, 'http://agent').searchParams]).toEqual([
    ['since', '7200'],
    ['last', '20000'],
    ['event', 'opened,denied,refused'],
    ['pod', 'shop/cache-0,shop/db-0,shop/web-0'],
  ]);
});

it('does not date a denial from before a restart of the agent after it', async () => {
  further = [received, { ...attempt, time: '2026-11-29T13:10:00.000Z' }];
  const { used } = await whatIf(true, 'kernel', proposed);
  expect(used[1]).toBe('used: 4 denied attempts, last at 13:10:00 (shop/cache-0 -> shop/db-0); all are recorded since 2026-11-29 13:55:02');
});

it('uses the counters of rules where the log is off, and names what the userspace data path does not know', async () => {
  const { used, err } = await whatIf(false, 'not listed', proposed);
  expect(used[0]).toBe('used: packets that these rules allowed, of all peers, on 2 nodes: shop/db-clients spec.ingress[0] 24');
  expect(err).toContain('Used: from the counters of rules; the flow log is off, which counts connections.');
  expect(err).toContain('Connections open now: not known; not listed on the userspace data path.');
});

it('finds the clients of a Service by the address that they requested', async () => {
  const other = { ...service.spec, ports: [{ port: 81, targetPort: 5432 }] };
  const { used } = await whatIf(true, 'kernel', { apiVersion: 'v1', kind: 'Service', ...service, spec: other });
  // Only the node of the clients is asked.
  expect(used[0]).toBe('used: 1 connection since 2026-11-29 13:00:00, last at 14:02:12 (shop/web-0 -> shop/db-0); 0 open now');
});

it('has the source, and the use of each line, in JSON', async () => {
  const { out } = await whatIf(true, 'kernel', proposed, '-o', 'json');
  const { used } = JSON.parse(out.join('\n'));
  expect(used).toMatchObject({
    source: 'flow log',
    flowLog: { nodes: ['node-1', 'node-2'], completeFrom: '2026-11-29T13:55:02.000Z', notRecorded: 4 },
    openConnections: 3,
  });
  expect(used.lines).toContainEqual(expect.objectContaining({ from: ['shop/web'], to: ['shop/db'], recorded: 1, openNow: 3 }));
});
