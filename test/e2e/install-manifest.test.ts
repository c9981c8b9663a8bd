import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { appendFileSync, copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { request } from 'node:https';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { agentName } from '../../build/manifests/access.ts';
import { asked as askedFor } from '../../build/manifests/asked.ts';
import { permissions, reviewPermissions } from '../../build/manifests/grants.ts';
import { manifestParts } from '../../build/manifests/manifest.ts';
import { defaultOptions, namespace } from '../../build/manifests/options.ts';
import type { AccessLine } from '../../lab/apiserver/access/access-log.ts';
import { clusterPolicyCrd, crdPath } from '../../lab/kube/cluster-policies.ts';
import { kubeconfigText, readKubeconfig } from '../../lab/kube/kubeconfig.ts';
import { createNetns, deleteNetns, inNetns } from '../../lab/machine/netns.ts';
import { run, runAnyway } from '../../lab/machine/process.ts';
import { agentReadiness } from '../../lab/node/agent.ts';
import { labPaths, netnsPath, nodePaths } from '../../lab/plan/names.ts';
import { listenTcpIn } from '../../lab/probe/sockets.ts';
import { install } from '../../src/install/install.ts';
import { agentToken } from '../support/agent-token.ts';
import { ConvergeLab } from '../support/converge-lab.ts';

const execute = promisify(execFile);
const manifest = join(import.meta.dirname, '../../build/manifests/seine.yaml');
const plugin = join(import.meta.dirname, '../../dist/bin/seine');
const anyMoment = { timeout: 90_000, interval: 200 };
const deadline = () => AbortSignal.timeout(60_000);

const olderPort = 6_444;

let lab: ConvergeLab;
/** The agent's token, and the API server's address for this process. */
let token: { readonly server: string; readonly text: string; readonly caPem: string | undefined };
const after: (() => Promise<void>)[] = [];
/** Namespaces of the two pods. */
const netns = { elsewhere: `seine-im-${randomBytes(3).toString('hex')}`, leaving: `seine-im-${randomBytes(3).toString('hex')}` };

beforeAll(async () => {
  lab = await ConvergeLab.start(1);
  await lab.api.send({ method: 'POST', path: crdPath, body: clusterPolicyCrd }, deadline());
});
afterAll(async () => {
  for (const end of after) await end();
  for (const name of Object.values(netns)) await deleteNetns(name, deadline());
  await lab.remove();
});

async function kubectl(...args: readonly string[]): Promise<string> {
  const { stdout } = await execute('kubectl', ['--kubeconfig', labPaths(lab.plan.dir).kubeconfig, ...args]);
  return stdout;
}

it('is accepted by the API server, field by field, and changes nothing when applied again', async () => {
  const applied = await kubectl('apply', '--validate=strict', '-f', manifest);
  expect(applied.trim().split('\n').length).toBe(manifestParts(defaultOptions).length);
  const again = await kubectl('apply', '--validate=strict', '-f', manifest);
  expect(again.split('\n').filter((line) => line !== '' && !line.endsWith(' unchanged'))).toEqual([]);
});

it('grants the agents what they use, and nothing more', async () => {
  await runWithGrantedRights();
  await runAgainstOlderServer();
  await kubectl('create', '-f', writeObject(policy));
  // On another node: the agent's watch does not have it, so it has to request this one.
  await addPod('elsewhere');
  await vi.waitFor(() => expect(asked(true)).toEqual(lines(permissions)), anyMoment);
  expect(asked(false)).toEqual([]);
  expect(await kubectl('get', 'node', 'node-1', '-o', `jsonpath={.status.conditions[?(@.type=="NetworkUnavailable")].status}`)).toBe(
    'False',
  );
});

it('serves metrics over TLS to clients that RBAC permits, by two further rights that come with the key', async () => {
  const chosen = askedFor(['--set', `metricsTLSAddress=${metricsAddress}`, '--pod-monitor']);
  const objects = (chosen?.parts(chosen.options) ?? []).map(({ object }) => object);
  const rights = objects.filter(({ kind }) => kind !== 'DaemonSet' && kind !== 'PodMonitor');
  await kubectl('apply', '--validate=strict', '-f', writeObject({ apiVersion: 'v1', kind: 'List', items: rights }));
  const { agentConfig, apiSocket } = nodePaths(lab.plan.dir, 'node-1');
  await lab.agent(1, 'stop');
  appendFileSync(agentConfig, `metricsTLSAddress: ${metricsAddress}\n`);
  await lab.agent(1, 'start');
  const scraper = await kubectl('-n', namespace, 'create', 'token', 'seine-metrics');
  await vi.waitFor(async () => expect(await metricsByTls(scraper)).toContain('\nseine_agent_ready 1\n'), anyMoment);
  expect(await metricsByTls(undefined)).toBe('401');
  expect(await metricsByTls('unheard-of')).toBe('401');
  // Known to the API server, and not bound to the role.
  expect(await metricsByTls(token.text)).toBe('403');
  expect(asked(true)).toEqual(lines([...permissions, ...reviewPermissions]));
  expect(await agentReadiness(apiSocket)).toMatchObject({ ready: true });
});

const metricsAddress = '127.0.0.1:10352';

/** The metrics, or the status code if it is not 200. */
async function metricsByTls(bearer: string | undefined): Promise<string> {
  const header = bearer === undefined ? [] : ['-H', `Authorization: Bearer ${bearer.trim()}`];
  const url = `https://${metricsAddress}/metrics`;
  const reported = await lab.exec(1, 'curl', '-sk', '-m', '10', '-w', '%{http_code}', ...header, url);
  return reported.endsWith('200') ? reported.slice(0, -3) : reported.slice(-3);
}

function lines(granted: typeof permissions): string[] {
  const all = granted.flatMap(({ rule: { apiGroups = [], resources = [], verbs } }) =>
    apiGroups.flatMap((group) => resources.flatMap((resource) => verbs.map((verb) => `${verb} ${resource} ${group}`))),
  );
  return all.toSorted();
}

it('is removed from the node again: shown first, not under a running agent, not while pods use it, and then completely', async () => {
  const paths = nodePaths(lab.plan.dir, 'node-1');
  const folders = { bin: join(lab.plan.dir, 'cni-bin'), conf: join(lab.plan.dir, 'cni-conf'), state: paths.stateDir };
  const conflist = join(lab.plan.dir, 'wanted.conflist');
  writeFileSync(conflist, JSON.stringify({ cniVersion: '1.0.0', name: 'seine', plugins: [{ type: 'seine' }, { type: 'portmap' }] }));
  mkdirSync(join(lab.plan.dir, 'source'));
  for (const [from, name] of [
    [dirname(plugin), 'seine'],
    ['/usr/lib/cni', 'portmap'],
    ['/usr/lib/cni', 'loopback'],
  ] as const)
    copyFileSync(join(from, name), join(lab.plan.dir, 'source', name));
  install({ ...folders, source: join(lab.plan.dir, 'source'), conflist }, () => undefined);
  const flags = ['--cni-bin-dir', folders.bin, '--cni-conf-dir', folders.conf, '--state-dir', folders.state];
  const elsewhere = [...flags, '--run-dir', paths.run, '--ovs-run-dir', paths.dir];
  await addPod('leaving');
  const before = await nodeHolds();
  expect(before).toEqual(['br-int', 'br-phy', 'nft', 'routes', 'veth']);
  // The host has other folders under the usual names, and another network namespace.
  expect(await cleanup(['--run-dir', paths.run])).toMatchObject({
    code: 2,
    out: '',
    err: expect.stringContaining('specify its --cni-bin-dir, --cni-conf-dir'),
  });
  expect(await runAnyway(process.execPath, [seinectl, 'node', 'cleanup', ...elsewhere], {}, deadline())).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('in another network namespace than this command'),
  });
  const shown = await cleanup(elsewhere);
  expect(shown).toMatchObject({
    code: 0,
    err: expect.stringMatching(/an agent answers[\s\S]*attached pods lose their network \(2\): default\/elsewhere, default\/leaving/),
  });
  expect(shown.out).toMatch(/would remove {2}file .*10-seine.conflist\n(.*\n)*would remove {2}nftables table inet seine\n/);
  expect(await cleanup([...elsewhere, '--yes'])).toMatchObject({ code: 1, out: '' });
  await lab.agent(1, 'stop');
  expect(await cleanup([...elsewhere, '--yes'])).toMatchObject({ code: 1, out: '', err: expect.not.stringContaining('an agent answers') });
  expect(await nodeHolds()).toEqual(before);
  // The agent gets no event of it, so OVSDB still has its port.
  await callPlugin('DEL', 'leaving', '');
  await deleteNetns(netns.leaving, deadline());
  // The kernel removes the interfaces of a deleted namespace later.
  await expect
    .poll(async () => (await cleanup([...elsewhere, '--yes'])).err, { timeout: 20_000 })
    .toContain('attached pods lose their network (1): default/elsewhere;');
  expect(await cleanup([...elsewhere, '--yes', '--force'])).toMatchObject({ code: 0, err: expect.not.stringContaining('stays:') });
  expect(await nodeHolds()).toEqual(['br-phy']);
  expect([folders.bin, folders.conf, folders.state].flatMap((folder) => readdirSync(folder))).toEqual([]);
  expect(readdirSync(paths.run)).not.toContain('netns');
  expect(await cleanup(elsewhere)).toMatchObject({ out: '', err: expect.stringContaining('nothing of Seine is on this node') });
});

const seinectl = join(import.meta.dirname, '../../src/seinectl/main.ts');

/** Seine's remaining objects on the node, in short. */
async function nodeHolds(): Promise<string[]> {
  const [bridges, tables, routes, routes6, veths] = await Promise.all(
    [
      lab.exec(1, 'ovs-vsctl', 'list-br'),
      lab.exec(1, 'nft', 'list', 'tables'),
      lab.exec(1, 'ip', '-4', 'route', 'show', 'table', 'all', 'proto', '94'),
      lab.exec(1, 'ip', '-6', 'route', 'show', 'table', 'all', 'proto', '94'),
      lab.exec(1, 'ip', 'link', 'show', 'type', 'veth'),
    ].map(async (work) => await work.catch(() => '')),
  );
  return [
    ...(bridges ?? '').split('\n').filter((line) => line !== ''),
    ...(tables?.includes('table inet seine') ? ['nft'] : []),
    ...(`${routes}${routes6}`.trim() === '' ? [] : ['routes']),
    ...(/default\/elsewhere| sp-\d+@/.test(veths ?? '') ? ['veth'] : []),
  ].toSorted();
}

async function cleanup(flags: readonly string[]): Promise<{ code: number; out: string; err: string }> {
  const inside = inNetns(lab.node(1).netns, process.execPath, [seinectl, 'node', 'cleanup', ...flags]);
  const { code, stdout, stderr } = await runAnyway(inside.command, inside.args, {}, deadline());
  return { code, out: stdout, err: stderr };
}

/** From here on the agent has only the service account of the manifest. */
async function runWithGrantedRights(): Promise<void> {
  const paths = nodePaths(lab.plan.dir, 'node-1');
  await lab.agent(1, 'stop');
  // The lab's agent has set it already, as administrator.
  const none = { status: { conditions: [{ type: 'NetworkUnavailable', status: 'True', reason: 'Test', message: '' }] } };
  await kubectl('patch', 'node', 'node-1', '--subresource=status', '--type=strategic', '-p', JSON.stringify(none));
  const text = await agentToken(labPaths(lab.plan.dir).kubeconfig, 'node-1', deadline());
  const { server, caPem } = await readKubeconfig(paths.kubeconfig);
  token = { server: (await readKubeconfig(labPaths(lab.plan.dir).kubeconfig)).server, text, caPem };
  writeFileSync(paths.kubeconfig, kubeconfigText({ server, caPem, token: text }, 'agent'), { mode: 0o600 });
  await lab.agent(1, 'start');
  await vi.waitFor(async () => expect(await agentReadiness(paths.apiSocket)).toMatchObject({ ready: true }), anyMoment);
}

/**
 * An API server without streaming lists, like Kubernetes before WatchList: it is listed and then watched. The agent has no stored state.
 */
async function runAgainstOlderServer(): Promise<void> {
  const { netns: managementNetns, ip: managementIp } = lab.plan.management;
  const apiServer = new URL(token.server);
  const older = createServer((inner, answer) => {
    if (inner.url?.includes('sendInitialEvents=true')) {
      const forbidden = { kind: 'Status', status: 'Failure', reason: 'Invalid', code: 422, message: 'sendInitialEvents is forbidden' };
      answer.writeHead(422, { 'content-type': 'application/json' }).end(JSON.stringify(forbidden));
      return;
    }
    const headers = { ...inner.headers, host: apiServer.host, authorization: `Bearer ${token.text}` };
    const asked = request(new URL(inner.url ?? '/', apiServer), { method: inner.method, headers, ca: token.caPem }, (outer) => {
      answer.writeHead(outer.statusCode ?? 500, outer.headers);
      outer.on('error', () => answer.destroy()).pipe(answer);
    });
    answer.on('close', () => asked.destroy());
    inner.pipe(asked.on('error', () => answer.destroy()));
  });
  older.listen({ fd: listenTcpIn(managementNetns, managementIp, olderPort) });
  after.push(async () => {
    older.closeAllConnections();
    older.close();
  });
  const paths = nodePaths(lab.plan.dir, 'node-1');
  await lab.agent(1, 'stop');
  rmSync(join(paths.stateDir, 'kube'), { recursive: true });
  writeFileSync(paths.kubeconfig, kubeconfigText({ server: `http://${managementIp}:${olderPort}` }, 'agent'), { mode: 0o600 });
  await lab.agent(1, 'start');
  await vi.waitFor(async () => expect(await agentReadiness(paths.apiSocket)).toMatchObject({ ready: true }), anyMoment);
}

async function addPod(name: keyof typeof netns): Promise<void> {
  await kubectl('create', '-f', writeObject(podElsewhere(name)));
  await createNetns(netns[name], deadline());
  await callPlugin('ADD', name, await kubectl('get', 'pod', name, '-o', 'jsonpath={.metadata.uid}'));
}

async function callPlugin(command: 'ADD' | 'DEL', name: keyof typeof netns, uid: string): Promise<void> {
  const paths = nodePaths(lab.plan.dir, 'node-1');
  const folders = { agentSocket: paths.cniSocket, stateDir: paths.stateDir };
  // Without an agent a DEL is recorded after its deadline.
  const conf = { cniVersion: '1.0.0', name: 'seine', type: 'seine', ...folders, ...(command === 'DEL' ? { deadline: 1 } : {}) };
  const env = {
    CNI_COMMAND: command,
    CNI_CONTAINERID: netns[name],
    CNI_NETNS: netnsPath(netns[name]),
    CNI_IFNAME: 'eth0',
    CNI_PATH: '/usr/lib/cni',
    CNI_ARGS: `K8S_POD_NAMESPACE=default;K8S_POD_NAME=${name};K8S_POD_UID=${uid};K8S_POD_INFRA_CONTAINER_ID=${netns[name]}`,
  };
  const inside = inNetns(lab.node(1).netns, plugin, []);
  await run(inside.command, inside.args, { env, input: JSON.stringify(conf) }, deadline());
}

/** The requests of the service account to the API server. */
function asked(allowed: boolean): string[] {
  const lines = readFileSync(join(labPaths(lab.plan.dir).apiServer, 'access.log'), 'utf8')
    .trim()
    .split('\n');
  return lines
    .map((line) => JSON.parse(line) as AccessLine)
    .filter((line) => line.user === `system:serviceaccount:${namespace}:${agentName}` && line.allowed === allowed)
    .map(({ verb, resource, group }) => `${verb} ${resource} ${group}`)
    .toSorted();
}

function writeObject(object: object): string {
  const path = join(lab.plan.dir, 'object.json');
  writeFileSync(path, JSON.stringify(object));
  return path;
}

const policy = {
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name: 'none', namespace: 'default' },
  // A network that this version cannot use: its owner gets an event.
  spec: { podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: '::ffff:10.0.0.0/104' } }] }] },
};

const podElsewhere = (name: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'default' },
  spec: { nodeName: 'node-9', containers: [{ name: 'c', image: 'none' }] },
});
