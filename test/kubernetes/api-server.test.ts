import { join } from 'node:path';
import type { ClusterRole } from 'kubernetes-types/rbac/v1.d.ts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { labFolderOf } from '../../build/test-run/lab-folder.mjs';
import { KubeApi } from '../../lab/kube/kube-api.ts';
import { labProgram, packageRoot } from '../../lab/machine/installation.ts';
import { runAnyway } from '../../lab/machine/process.ts';
import { Certificates } from '../../lab/real-kubernetes/certificates.ts';
import { askedByAgents, grantsOf } from './audit.ts';
import { print as printLine } from './cluster.ts';
import { FollowedSources } from './followed-sources.ts';
import { LoneControlPlane, signServer } from './lone-control-plane.ts';
import { ServerGate } from './server-gate.ts';

/*
 * A real API server of the requested version: its own validation of the manifest, its permissions, and its failures as seen by clients that
 * follow it. The client here is the agent's reader, with the permissions of an agent's account.
 */

const version = process.env['SEINE_TEST_CONTROL_PLANE'] ?? '';
const programs = process.env['SEINE_TEST_CONTROL_PLANE_PROGRAMS'] ?? '';
/** Other servers run concurrently. */
const print = (text: string) => printLine(`${version}: ${text}`);
const limit = AbortSignal.timeout(3_000_000);
const soon = { timeout: 120_000, interval: 100 };
const system = ['-n', 'seine-system'] as const;
const [own, other] = ['node-a', 'node-b'];

let plane: LoneControlPlane;
let gate: ServerGate;
let agent: FollowedSources;
let made = 0;

beforeAll(async () => {
  plane = await LoneControlPlane.start(limit, programs);
  gate = await ServerGate.open(plane.netns);
  gate.leadTo(plane.port(1));
  print('the control plane of Kubernetes is up');
}, 300_000);
afterAll(async () => {
  await agent?.close();
  gate?.close();
  await plane?.remove(AbortSignal.timeout(60_000));
}, 120_000);

describe('the manifest', () => {
  it('is accepted without a warning', { timeout: 180_000 }, async () => {
    const options = '--api-server https://192.0.2.1:6443 --agent-image localhost/seine/agent:test --ovs-image localhost/seine/ovs:test';
    await plane.type(`npm run render -- ${options} -o ${plane.dir}/seine.yaml`, [], limit);
    const output = await plane.type('kubectl apply --server-side --validate=strict -f seine.yaml 2>&1', [], limit);
    expect(output).not.toMatch(/warning/i);
    const warnings =
      'jsonpath={range .items[*]}{.metadata.name} {.status.observedGeneration} {.status.typeChecking.expressionWarnings}{"\\n"}{end}';
    const policies = ['get', 'validatingadmissionpolicies', '-l', 'app.kubernetes.io/part-of=seine', '-o', warnings];
    await expect.poll(() => plane.kubectl(policies, limit), soon).toMatch(/^(seine-agent-\w+ \d+ \n){2}$/);
  });

  it('lets an agent write to its own node, and to no other', { timeout: 120_000 }, async () => {
    await plane.apply([node(own), node(other), agentPod('agent-1', own)], limit);
    const api = new KubeApi({ server: gate.url, caPem: plane.certificates.pem('ca', 'crt'), token: await tokenOf('agent-1') });
    const refusalOf = async (method: 'GET' | 'PATCH', path: string, body?: object) =>
      await api.send({ method, path, ...(body && { body, contentType: 'application/strategic-merge-patch+json' }) }, limit).then(
        () => 'done',
        (thrown: unknown) => String(thrown),
      );
    const patch = async (name: string, status: object) => await refusalOf('PATCH', `/api/v1/nodes/${name}/status`, { status });
    const condition = { type: 'NetworkUnavailable', status: 'False', reason: 'SeineIsUp', message: 'tried by a test' };
    await expect
      .poll(() => patch(other, { conditions: [condition] }), soon)
      .toContain(`the agent of node ${own} may not write to node ${other}`);
    expect(await patch(own, { conditions: [condition] })).toBe('done');
    expect(await patch(own, { capacity: { cpu: '99' } })).toContain('an agent changes nothing of a status but its condition');
    expect(await refusalOf('GET', '/api/v1/secrets')).toMatch(/cannot list resource .*secrets/);
    api.close();
  });
});

describe('resources that an agent follows', () => {
  it('are synced with an agent’s rights', { timeout: 180_000 }, async () => {
    await makeService();
    agent = new FollowedSources(own, gate.url, await tokenOf('agent-1'), plane.certificates.pem('ca', 'crt'));
    await followed();
  });

  it('continue from a compacted version', { timeout: 300_000 }, async () => {
    const gone = await makeService();
    await followed();
    gate.leadTo();
    gate.cut();
    await plane.kubectl(['delete', 'service', gone], limit);
    await makeService();
    await plane.compact(limit);
    await plane.stopServer(1);
    await plane.startServer(1, limit);
    gate.leadTo(plane.port(1));
    await followed();
    expect([agent.services.includes(gone), agent.takeLost()]).toEqual([false, [`default/${gone}`]]);
  });

  it('wait while flow control rejects requests, and recover', { timeout: 300_000 }, async () => {
    await plane.apply(oneAtATime('seine-agent'), limit);
    const endFlood = plane.flood(await tokenOf('agent-1'));
    try {
      agent.takeFailures();
      await untilFailing(429);
    } finally {
      await endFlood();
    }
    await makeService();
    await plane.kubectl(['delete', 'flowschema,prioritylevelconfiguration', 'one-at-a-time'], limit);
    await followed();
    expect(agent.takeLost()).toEqual([]);
  });

  it('continue with the next token when one ends before its time', { timeout: 300_000 }, async () => {
    await plane.apply([agentPod('agent-2', own)], limit);
    const next = await tokenOf('agent-2');
    await plane.kubectl([...system, 'delete', 'pod', 'agent-1', '--grace-period=0', '--force'], limit);
    agent.takeFailures();
    await untilFailing(401);
    agent.giveToken(next);
    await makeService();
    await followed();
    expect(agent.takeLost()).toEqual([]);
  });
});

describe('three API servers', () => {
  it('are followed while one after another restarts', { timeout: 600_000 }, async () => {
    for (const server of [2, 3]) await plane.startServer(server, limit);
    gate.leadTo(...[1, 2, 3].map((server) => plane.port(server)));
    gate.cut();
    await followed();
    for (const server of [1, 2, 3]) {
      gate.leadTo(...[1, 2, 3].filter((each) => each !== server).map((each) => plane.port(each)));
      await plane.stopServer(server);
      if (server !== 1) await makeService();
      await plane.startServer(server, limit);
      gate.leadTo(...[1, 2, 3].map((each) => plane.port(each)));
      await makeService();
      await followed();
    }
    expect(agent.takeLost()).toEqual([]);
  });

  it('may lag, without removing anything', { timeout: 600_000 }, async () => {
    gate.leadTo(plane.port(3));
    gate.cut();
    await followed();
    await plane.part(3, limit);
    const unseen = await makeService();
    // The lagging server cannot know it; the others do.
    expect(agent.services).not.toContain(unseen);
    gate.leadTo(plane.port(2));
    gate.cut();
    await followed();
    gate.leadTo(plane.port(3));
    gate.cut();
    const lagMs = 30_000;
    const fromMs = performance.now();
    await expect.poll(() => performance.now() - fromMs, { timeout: 2 * lagMs }).toBeGreaterThan(lagMs);
    print(`led to one that lags for ${lagMs / 1_000} s: ${agent.behind.join('; ') || 'in step'}`);
    expect([agent.services.includes(unseen), agent.takeLost()]).toEqual([true, []]);
    await plane.meet(limit);
    await makeService();
    await followed();
    expect(agent.takeLost()).toEqual([]);
  });

  it('may have a certificate of another authority once the agent has been given it', { timeout: 600_000 }, async () => {
    const next = new Certificates(join(plane.dir, 'next-pki'));
    await next.make(limit);
    await signServer(next, limit);
    await plane.stopServer(2);
    await plane.startServer(2, limit, next);
    agent.takeFailures();
    gate.leadTo(plane.port(2));
    await untilFailing('UNAVAILABLE');
    agent.giveAuthority(`${plane.certificates.pem('ca', 'crt')}${next.pem('ca', 'crt')}`);
    await makeService();
    await followed();
    expect(agent.takeLost()).toEqual([]);
  });

  it('have rejected no request of an agent, and granted nothing unused', { timeout: 60_000 }, async () => {
    const accounts = [1, 2, 3].map((server) => askedByAgents(plane.auditLog(server)));
    const refused = accounts.flatMap((account) => account.refused);
    const granted = grantsOf(JSON.parse(await plane.kubectl(['get', 'clusterrole', 'seine-agent', '-o', 'json'], limit)) as ClusterRole);
    const used = new Set(accounts.flatMap((account) => [...account.used]));
    expect([refused, [...used].filter((each) => !granted.has(each))]).toEqual([[], []]);
    expect(used.has('watch services')).toBe(true);
  });
});

it('passes the demo on its own nodes', { timeout: 900_000 }, async () => {
  const dir = labFolderOf(`cp-${version.split('.', 2).join('.')}`);
  const demo = [
    'run',
    '--silent',
    '--prefix',
    packageRoot,
    'demo',
    '--',
    '--dir',
    dir,
    '--nodes',
    '2',
    '--control-plane',
    version,
    '--json',
  ];
  try {
    const { stdout, stderr } = await runAnyway('npm', demo, {}, limit);
    const { checks } = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '{}') as {
      readonly checks?: readonly { name: string; ok: boolean }[];
    };
    if (!checks?.every(({ ok }) => ok)) print(stderr);
    print(`${checks?.length ?? 0} checks of the demo`);
    expect(checks?.filter(({ ok }) => !ok)).toEqual([]);
    expect(checks?.length).toBeGreaterThan(30);
  } finally {
    await runAnyway(process.execPath, [labProgram, 'down', '--dir', dir], {}, AbortSignal.timeout(120_000));
  }
});

/** Waits until the agent's sources are synced and have every Service. */
async function followed(): Promise<void> {
  const there = (await plane.kubectl(['get', 'services', '-o', 'jsonpath={.items[*].metadata.name}'], limit)).split(' ').toSorted();
  await expect.poll(() => [agent.behind, agent.services.toSorted()], soon).toEqual([[], there]);
}

/** Fails the agent's requests until one gets this answer. @param failure a status, or the code of an error without one */
async function untilFailing(failure: unknown): Promise<void> {
  const failures = () => {
    gate.cut();
    return agent.takeFailures();
  };
  await expect.poll(failures, { timeout: 60_000, interval: 2_000 }).toContain(failure);
}

async function makeService(): Promise<string> {
  made += 1;
  const name = `service-${made}`;
  await plane.apply(
    [{ apiVersion: 'v1', kind: 'Service', metadata: { name, namespace: 'default' }, spec: { ports: [{ port: 80 }] } }],
    limit,
  );
  return name;
}

async function tokenOf(pod: string): Promise<string> {
  const bound = ['--bound-object-kind', 'Pod', '--bound-object-name', pod];
  return (await plane.kubectl([...system, 'create', 'token', 'seine-agent', ...bound], limit)).trim();
}

const node = (name: string) => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name },
  spec: { podCIDR: name === own ? '10.9.1.0/24' : '10.9.2.0/24' },
});

function agentPod(name: string, nodeName: string): object {
  const container = { name: 'agent', image: 'localhost/seine/agent:test' };
  const metadata = { name, namespace: 'seine-system' };
  return { apiVersion: 'v1', kind: 'Pod', metadata, spec: { nodeName, serviceAccountName: 'seine-agent', containers: [container] } };
}

/** One request of this account is served at a time, and others are rejected. Source: flowcontrol.apiserver.k8s.io/v1. */
function oneAtATime(account: string): object[] {
  const name = 'one-at-a-time';
  const apiVersion = 'flowcontrol.apiserver.k8s.io/v1';
  const subject = { kind: 'ServiceAccount', serviceAccount: { name: account, namespace: 'seine-system' } };
  const everything = { verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: ['*'], clusterScope: true };
  return [
    {
      apiVersion,
      kind: 'PriorityLevelConfiguration',
      metadata: { name },
      spec: {
        type: 'Limited',
        limited: { nominalConcurrencyShares: 0, lendablePercent: 0, borrowingLimitPercent: 0, limitResponse: { type: 'Reject' } },
      },
    },
    {
      apiVersion,
      kind: 'FlowSchema',
      metadata: { name },
      spec: {
        priorityLevelConfiguration: { name },
        matchingPrecedence: 2,
        rules: [{ subjects: [subject], resourceRules: [everything] }],
      },
    },
  ];
}
