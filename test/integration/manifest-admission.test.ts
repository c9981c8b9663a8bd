import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { agentName } from '../../build/manifests/access.ts';
import { admissionPolicies } from '../../build/manifests/admission.ts';
import { permissions } from '../../build/manifests/grants.ts';
import { manifestParts } from '../../build/manifests/manifest.ts';
import { defaultOptions, namespace } from '../../build/manifests/options.ts';
import type { JsonRecord } from '../../lab/apiserver/object/json.ts';
import { run } from '../../lab/machine/process.ts';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { silentLog } from '../../src/base/log/log.ts';
import { loadKubeAccess } from '../../src/kubernetes/client/config.ts';
import { EventPoster, eventPacing, type KubeEvent } from '../../src/kubernetes/client/events.ts';
import { KubeHttp } from '../../src/kubernetes/client/http-client.ts';
import type { Node } from '../../src/kubernetes/resources/node.ts';
import { ownAnnotations, setNodeAnnotations } from '../../src/kubernetes/resources/node-annotations.ts';
import { keepNetworkCondition } from '../../src/nodes/local/network-condition.ts';
import { LoneApiServer } from '../support/lone-api-server.ts';

/*
 * The admission policies of the manifest, in force on an API server that evaluates them: writes of agents pass, others that their rights
 * would allow do not.
 */

let server: LoneApiServer;
let admin: KubeHttp;
/** Each with the token of the agent's pod on that node; the last with one that is bound to no pod. */
let agent1: KubeHttp;
let agent2: KubeHttp;
let unauthenticated: KubeHttp;

const limit = () => AbortSignal.timeout(10_000);
const kinds: Readonly<Record<string, string>> = {
  Namespace: '/api/v1/namespaces',
  ServiceAccount: `/api/v1/namespaces/${namespace}/serviceaccounts`,
  ClusterRole: '/apis/rbac.authorization.k8s.io/v1/clusterroles',
  ClusterRoleBinding: '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings',
  ValidatingAdmissionPolicy: '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies',
  ValidatingAdmissionPolicyBinding: '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings',
};

/** Status as kubelets write it, abbreviated. */
const status = {
  capacity: { cpu: '2', memory: '4Gi' },
  addresses: [{ type: 'InternalIP', address: '192.0.2.1' }],
  conditions: [
    { type: 'MemoryPressure', status: 'False', reason: 'Enough', message: '' },
    { type: 'NetworkUnavailable', status: 'True', reason: 'NoRoute', message: '' },
    { type: 'Ready', status: 'True', reason: 'KubeletReady', message: '' },
  ],
  images: [{ names: ['seine.invalid/agent:0.2.0'], sizeBytes: 42 }],
};

beforeAll(async () => {
  server = await LoneApiServer.start();
  admin = asUser(undefined);
  for (const { object } of manifestParts(defaultOptions)) {
    const path = kinds[object.kind ?? ''];
    if (path !== undefined) await admin.json({ method: 'POST', path, body: object }, limit());
  }
  for (const name of ['n1', 'n2']) {
    await admin.json({ method: 'POST', path: '/api/v1/nodes', body: { metadata: { name, labels: { zone: 'a' } }, status } }, limit());
    const pod = { metadata: { name: `seine-agent-${name}` }, spec: { nodeName: name, containers: [{ name: 'agent', image: 'none' }] } };
    await admin.json({ method: 'POST', path: `/api/v1/namespaces/${namespace}/pods`, body: pod }, limit());
  }
  agent1 = asUser(await tokenFor({ boundObjectRef: { kind: 'Pod', apiVersion: 'v1', name: 'seine-agent-n1' } }));
  const bound = ['--bound-object-kind', 'Pod', '--bound-object-name', 'seine-agent-n2'];
  const args = ['--kubeconfig', server.kubeconfig, '-n', namespace, 'create', 'token', agentName, ...bound];
  agent2 = asUser((await run('kubectl', args, {}, limit())).trim());
  unauthenticated = asUser(await tokenFor({}));
});
beforeEach(async () => {
  for (const name of ['n1', 'n2'])
    await admin.json(
      { method: 'PUT', path: `/api/v1/nodes/${name}/status`, body: { metadata: { name, labels: { zone: 'a' } }, status } },
      limit(),
    );
});
afterAll(async () => {
  for (const http of [admin, agent1, agent2, unauthenticated]) http?.close();
  await server.remove();
});

function asUser(token: string | undefined): KubeHttp {
  const access = loadKubeAccess({ from: 'file', path: server.kubeconfig });
  if (token === undefined) return new KubeHttp(access, 'seine-test');
  const credentials = async () => ({ ...(await access.credentials()), headers: { authorization: `Bearer ${token}` } });
  return new KubeHttp({ ...access, credentials }, 'seine-test');
}

async function tokenFor(spec: JsonRecord): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${agentName}/token`;
  const answer = (await admin.json({ method: 'POST', path, body: { spec } }, limit())) as { readonly status: { readonly token: string } };
  return answer.status.token;
}

/** Error message; `''` on success. */
async function refusal(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return '';
  } catch (thrown) {
    const { context, message } = SeineError.from(thrown, 'test');
    return `${String(context['status'])} ${message}`;
  }
}

function patchStatus(
  http: KubeHttp,
  name: string,
  body: JsonRecord,
  contentType = 'application/strategic-merge-patch+json',
): Promise<string> {
  return refusal(http.json({ method: 'PATCH', path: `/api/v1/nodes/${name}/status`, contentType, body }, limit()));
}

/** Runs the agent's own program, until it has reported its node's network. */
async function saysSo(http: KubeHttp, nodeName: string): Promise<string> {
  const stop = new AbortController();
  let failed = '';
  const node: Node = { name: nodeName, uid: 'u', podCidrs: [], internalIps: [], deleting: false };
  const log = {
    ...silentLog,
    info: () => stop.abort(),
    warn: (_text: string, fields?: Readonly<Record<string, unknown>>) => {
      failed = String(fields?.['cause']);
      stop.abort();
    },
  };
  const nodes = { get: () => node, subscribe: () => () => undefined, whenSynced: () => Promise.resolve() };
  await keepNetworkCondition({ nodeName, nodes, http, log, readiness: { whenReady: () => Promise.resolve() } }, stop.signal);
  return failed;
}

it('lets an agent set the condition of its node, also for the first time', async () => {
  expect(await saysSo(agent1, 'n1')).toBe('');
  const unsaid = { ...status, conditions: status.conditions.filter(({ type }) => type !== 'NetworkUnavailable') };
  await admin.json({ method: 'PUT', path: '/api/v1/nodes/n2/status', body: { metadata: { name: 'n2' }, status: unsaid } }, limit());
  expect(await saysSo(agent2, 'n2')).toBe('');
  await admin.json({ method: 'POST', path: '/api/v1/nodes', body: { metadata: { name: 'n3' } } }, limit());
  const agent3 = asUser(await tokenFor({ boundObjectRef: { kind: 'Node', apiVersion: 'v1', name: 'n3' } }));
  expect(await saysSo(agent3, 'n3')).toBe('');
  agent3.close();
});

it('lets no agent write to another node', async () => {
  expect(await saysSo(agent1, 'n2')).toMatch(/policy 'seine-agent-nodes'.*denied request: the agent of node n1 may not write to node n2/i);
  expect(await patchStatus(agent1, 'n2', { status: { addresses: [{ type: 'InternalIP', address: '203.0.113.1' }] } })).toMatch(
    /^403 .*node n2/,
  );
});

it('rejects writes with a token that is bound to no pod', async () => {
  expect(await saysSo(unauthenticated, 'n1')).toMatch(/this token names no node/);
});

for (const [what, change, why] of [
  ['an address', { addresses: [{ type: 'InternalIP', address: '203.0.113.1' }] }, 'nothing of a status'],
  ['a further address', { addresses: [{ type: 'ExternalIP', address: '203.0.113.1' }] }, 'nothing of a status'],
  ['no addresses', { addresses: null }, 'nothing of a status'],
  ['capacity', { capacity: { cpu: '64' } }, 'nothing of a status'],
  ['what there was not before', { volumesInUse: ['v'] }, 'nothing of a status'],
  ['another condition', { conditions: [{ type: 'Ready', status: 'False' }] }, 'no condition but'],
  ['a condition more', { conditions: [{ type: 'DiskPressure', status: 'True' }] }, 'no condition but'],
  ['one less', { conditions: [{ type: 'Ready', $patch: 'delete' }] }, 'no condition but'],
  ['no conditions', { conditions: null }, 'no condition but'],
] as const)
  it(`lets an agent change only the condition in its own node’s status: ${what}`, async () => {
    expect(await patchStatus(agent1, 'n1', { status: change })).toMatch(new RegExp(`^403 .*denied request: an agent changes ${why}`));
  });

for (const [what, metadata] of [
  ['a label', { labels: { zone: 'b' } }],
  ['a further label', { labels: { 'node-role.kubernetes.io/control-plane': '' } }],
  ['no labels', { labels: null }],
  ['a finalizer', { finalizers: ['example.com/x'] }],
  ['an owner', { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'p', uid: 'u' }] }],
] as const)
  it(`lets an agent change nothing of its own node’s metadata: ${what}`, async () => {
    expect(await patchStatus(agent1, 'n1', { metadata })).toMatch(/^403 .*denied request: an agent changes no labels/);
  });

it('lets an agent set and remove its own annotations of its own node', async () => {
  const annotations = Object.fromEntries(ownAnnotations.map((key) => [key, 'value']));
  const removed = Object.fromEntries(ownAnnotations.map((key) => [key, null]));
  await setNodeAnnotations(admin, 'n1', { 'example.com/other': 'kept' }, limit());
  expect(await refusal(setNodeAnnotations(agent1, 'n1', annotations, limit()))).toBe('');
  expect(await refusal(setNodeAnnotations(agent1, 'n1', { ...annotations, [ownAnnotations[0] ?? '']: 'changed' }, limit()))).toBe('');
  expect(await refusal(setNodeAnnotations(agent1, 'n1', removed, limit()))).toBe('');
  const { metadata } = (await admin.json({ method: 'GET', path: '/api/v1/nodes/n1' }, limit())) as { readonly metadata: JsonRecord };
  expect(metadata['annotations']).toEqual({ 'example.com/other': 'kept' });
});

it('does not let an agent change annotations of another node, or others of its own', async () => {
  const own = { [ownAnnotations[0] ?? '']: 'forged' };
  expect(await refusal(setNodeAnnotations(agent1, 'n2', own, limit()))).toMatch(/^403 .*may not write to node n2/);
  for (const annotations of [{ 'antrea.io/x': 'y' }, { ...own, 'seine.dev/policy-mode': 'off' }])
    expect(await refusal(setNodeAnnotations(agent1, 'n1', annotations, limit()))).toMatch(/^403 .*changes no annotations of a node but/);
  await setNodeAnnotations(admin, 'n1', { 'seine.dev/policy-mode': 'enforce' }, limit());
  for (const value of ['off', null])
    expect(await refusal(setNodeAnnotations(agent1, 'n1', { 'seine.dev/policy-mode': value }, limit()))).toMatch(
      /^403 .*changes no annotations of a node but/,
    );
});

it('is the same for other kinds of patches', async () => {
  const address = { status: { addresses: [{ type: 'InternalIP', address: '203.0.113.1' }] } };
  expect(await patchStatus(agent1, 'n1', address, 'application/merge-patch+json')).toMatch(/^403 .*nothing of a status/);
  const operations = [{ op: 'replace', path: '/status/addresses/0/address', value: '203.0.113.1' }];
  const patch = { method: 'PATCH', path: '/api/v1/nodes/n1/status', contentType: 'application/json-patch+json', body: operations } as const;
  expect(await refusal(agent1.json(patch, limit()))).toMatch(/^403 .*nothing of a status/);
});

it('applies to agents only', async () => {
  expect(await patchStatus(admin, 'n2', { metadata: { labels: { zone: 'b' } }, status: { capacity: { cpu: '4' } } })).toBe('');
});

const about = (kind: string, name: string): KubeEvent['about'] => ({
  apiVersion: 'v1',
  kind,
  namespace: kind === 'Node' ? '' : 'default',
  name,
  uid: 'u',
});

let posted = 0;

/** Runs the agent's own program. @returns reason of the rejection */
async function posts(
  http: KubeHttp,
  more: { readonly instance?: string; readonly component?: string; readonly about?: KubeEvent['about'] },
): Promise<string> {
  const { instance = 'n1', component = agentName } = more;
  const stop = new AbortController();
  let failed = '';
  const poster = new EventPoster({
    http,
    component,
    instance,
    onFailure: (error) => {
      failed = error.message;
    },
    pacing: { ...eventPacing, everyMs: 0 },
  });
  posted++;
  poster.post({ type: 'Warning', reason: 'Test', message: `the ${posted}th`, about: more.about ?? about('Service', 'web') });
  const running = poster.run(stop.signal);
  await expect.poll(() => poster.waiting).toBe(0);
  stop.abort();
  await running;
  return failed;
}

it('lets an agent post events of objects and of its own node, in its own name', async () => {
  expect(await posts(agent1, {})).toBe('');
  expect(await posts(agent1, { about: about('Node', 'n1') })).toBe('');
  expect(await posts(agent2, { instance: 'n2', about: { ...about('NetworkPolicy', 'p'), apiVersion: 'networking.k8s.io/v1' } })).toBe('');
});

it('rejects events in another agent’s name, or of another node', async () => {
  const denied = /policy 'seine-agent-events' with binding 'seine-agent-events' denied request: /i;
  expect(await posts(agent2, { instance: 'n1' })).toMatch(denied);
  expect(await posts(agent1, { component: 'kubelet' })).toMatch(denied);
  expect(await posts(agent1, { about: about('Node', 'n2') })).toMatch(/of its own node only/);
  expect(await posts(unauthenticated, {})).toMatch(/this token names no node/);
});

for (const [what, change] of [
  ['the node', { reportingInstance: 'n2' }],
  ['the host', { source: { component: agentName, host: 'n2' } }],
  ['no host', { source: { component: agentName } }],
  ['the program', { reportingComponent: 'kubelet' }],
  ['the source', { source: { component: 'kubelet', host: 'n1' } }],
  ['no source', { source: undefined }],
] as const)
  it(`rejects an event with another signature in one place: ${what}`, async () => {
    const signed = { source: { component: agentName, host: 'n1' }, reportingComponent: agentName, reportingInstance: 'n1' };
    const involvedObject = { kind: 'Service', namespace: 'default', name: 'web' };
    const post = (more: object) => {
      const body = { metadata: { generateName: 'e-' }, involvedObject, reason: 'Test', type: 'Normal', ...signed, ...more };
      return refusal(agent1.json({ method: 'POST', path: '/api/v1/namespaces/default/events', body }, limit()));
    };
    expect(await post({})).toBe('');
    expect(await post(change)).toMatch(/^403 .*'seine-agent-events' denied request: an event/);
  });

it('has a policy for every write permission', () => {
  const operations: Readonly<Record<string, string>> = { create: 'CREATE', patch: 'UPDATE', update: 'UPDATE', delete: 'DELETE' };
  const written = permissions.flatMap(({ rule: { resources = [], verbs } }) =>
    verbs.filter((verb) => !['get', 'list', 'watch'].includes(verb)).map((verb) => `${operations[verb] ?? verb} ${resources.join()}`),
  );
  const judged = admissionPolicies().flatMap(({ object }) => {
    const { matchConstraints } = (
      object as { spec: { matchConstraints?: { resourceRules: { operations: string[]; resources: string[] }[] } } }
    ).spec;
    return (matchConstraints?.resourceRules ?? []).map((rule) => `${rule.operations.join()} ${rule.resources.join()}`);
  });
  expect(judged.toSorted()).toEqual(written.toSorted());
});
