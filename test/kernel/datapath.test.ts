import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { get } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clusterPoliciesPath, clusterPolicyCrd, crdPath } from '../../lab/kube/cluster-policies.ts';
import { inNetns } from '../../lab/machine/netns.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import type { AgentStatus } from '../../src/api/status.ts';
import { type Family, parseIp } from '../../src/base/net/ip.ts';
import kernelAbilities from '../fixtures/data-paths/system.json' with { type: 'json' };
import { attempts } from '../support/attempts.ts';
import { type KubeService, ServiceLab } from '../support/service-lab.ts';

/** Features that only the kernel's data path has. */
let lab: ServiceLab;

beforeAll(async () => {
  lab = await ServiceLab.start();
});
afterAll(async () => {
  await lab?.remove();
});

async function status(): Promise<AgentStatus> {
  const { apiSocket: socketPath } = nodePaths(lab.lab.plan.dir, lab.lab.node(1).name);
  const [response] = (await once(get({ socketPath, path: '/v1/status', agent: false }), 'response')) as [NodeJS.ReadableStream];
  return JSON.parse(await text(response)) as AgentStatus;
}

it('has the required features, and the documented ones', async () => {
  await expect.poll(async () => (await status()).dataPath).toEqual(kernelAbilities);
  expect((await status()).warnings).toEqual([]);
});

/** `dpctl/show` as ovs-vswitchd prints it: the oracle for values read from the kernel. */
async function shown() {
  const page = await lab.lab.exec(1, 'ovs-appctl', 'dpctl/show', 'system@ovs-system');
  const numbers = (pattern: RegExp) => (pattern.exec(page) ?? []).slice(1).map(Number);
  const [hits, misses, lost] = numbers(/lookups: hit:(\d+) missed:(\d+) lost:(\d+)/);
  return { hits, misses, lost, megaflows: numbers(/flows: (\d+)/)[0], masks: numbers(/masks: hit:\d+ total:(\d+)/)[0] };
}

it('reports its state: the same packets, misses, megaflows and masks as OVS itself', async () => {
  await expect
    .poll(async () => {
      const before = await shown();
      const metrics = await lab.lab.metrics(1);
      const read = (name: string) => metrics.get(`datapath_${name}{data_path="system"}`);
      const ours = { hits: read('hits_total'), misses: read('upcalls_missed_total'), lost: read('upcalls_lost_total') };
      const now = { ...ours, megaflows: read('megaflows'), masks: read('masks') };
      // While packets pass, the value lies between those of OVS before and after.
      const after = await shown();
      const between = (key: keyof typeof now) =>
        Math.min(before[key] ?? NaN, after[key] ?? NaN) <= (now[key] ?? NaN) &&
        (now[key] ?? NaN) <= Math.max(before[key] ?? NaN, after[key] ?? NaN);
      return (Object.keys(now) as (keyof typeof now)[]).filter((key) => !between(key));
    })
    .toEqual([]);
});

it('reports the use of the conntrack table, which is the node’s own', async () => {
  const metrics = await lab.lab.metrics(1);
  expect(metrics.get('conntrack_entries{table="kernel"}')).toBeGreaterThan(0);
  expect(metrics.get('conntrack_limit{table="kernel"}')).toBeGreaterThan(metrics.get('conntrack_entries{table="kernel"}') ?? Infinity);
  expect(metrics.get('conntrack_entries{table="userspace"}')).toBeUndefined();
});

/** Answers each association with the pod's name, until it is closed. */
function sctpServer(pod: string, address: string): () => void {
  const listen = parseIp(address).family === 'ipv4' ? `SCTP4-LISTEN:9999,bind=${address}` : `SCTP6-LISTEN:9999,bind=[${address}],ipv6only`;
  const { command, args } = inNetns(lab.place(pod), 'socat', ['-U', `${listen},fork,reuseaddr`, `SYSTEM:echo ${pod}`]);
  const server = spawn(command, args, { stdio: 'ignore' });
  return () => void server.kill('SIGKILL');
}

async function sctpAnswer(from: string, address: string, port: number): Promise<string> {
  const target = parseIp(address).family === 'ipv4' ? `SCTP4:${address}:${port}` : `SCTP6:[${address}]:${port}`;
  const { command, args } = inNetns(lab.place(from), 'socat', ['-u', '-T', '10', `${target},connect-timeout=10`, '-']);
  const client = spawn(command, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  const [answer] = await Promise.all([text(client.stdout), once(client, 'close')]);
  return answer.trim();
}

it('forwards SCTP to a Service’s endpoint, on this node and on another, over both families', async () => {
  const name = lab.name('sctp');
  const ports = [{ name: 'signals', port: 5000, targetPort: 9999, protocol: 'SCTP' }];
  const service = await lab.service(name, { selector: { app: 'web' }, ports });
  const closing = ['web-1', 'web-2', 'web-3'].flatMap((pod) => lab.lab.pod(pod).ips.map((ip) => sctpServer(pod, ip)));
  try {
    for (const address of service.spec.clusterIPs ?? []) {
      const seen = new Set<string>();
      await expect
        .poll(async () => [...seen.add(await sctpAnswer('client-1', address, 5000))].filter((pod) => pod !== '').toSorted(), {
          timeout: 300_000,
        })
        .toEqual(['web-1', 'web-2', 'web-3']);
    }
    expect(await lab.events('Service', name)).toEqual([]);
  } finally {
    for (const close of closing) close();
  }
});

describe('SCTP that a cluster policy denies', () => {
  const webs = ['web-1', 'web-2', 'web-3'];
  const open = { ipv4: new Set(['connected']), ipv6: new Set(['connected']) };
  const silent = { ipv4: new Set(['silent']), ipv6: new Set(['silent']) };
  /** Errors of ICMP 3/13 and ICMPv6 1/1 at a socket. */
  const refused = { ipv4: new Set(['EHOSTUNREACH']), ipv6: new Set(['EACCES']) };
  const denyClients = (annotations: Readonly<Record<string, string>>) => ({
    apiVersion: 'policy.networking.k8s.io/v1beta1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name: 'deny-sctp', annotations },
    spec: {
      tier: 'Admin',
      priority: 10,
      subject: { pods: { namespaceSelector: {}, podSelector: { matchLabels: { app: 'web' } } } },
      ingress: [
        {
          action: 'Deny',
          from: [{ pods: { namespaceSelector: {}, podSelector: { matchLabels: { app: 'client' } } } }],
          protocols: [{ sctp: { destinationPort: { number: 9999 } } }],
        },
      ],
    },
  });
  const signal = () => AbortSignal.timeout(120_000);
  let service: KubeService;
  let closing: readonly (() => void)[] = [];

  beforeAll(async () => {
    await lab.lab.api.send({ method: 'POST', path: crdPath, body: clusterPolicyCrd }, signal());
    const ports = [{ name: 'signals', port: 5000, targetPort: 9999, protocol: 'SCTP' }];
    service = await lab.service(lab.name('sctp'), { selector: { app: 'web' }, ports });
    closing = webs.flatMap((pod) => lab.lab.pod(pod).ips.map((ip) => sctpServer(pod, ip)));
  });
  afterAll(() => {
    for (const close of closing) close();
  });

  /** Ends of associations of a client with pods of its node and of others, and with the Service. */
  async function ends(seconds: number): Promise<Readonly<Record<Family, ReadonlySet<string>>>> {
    const of = async (family: Family) => {
      const clusterIp = service.spec.clusterIPs?.find((ip) => parseIp(ip).family === family) ?? '';
      const aims = [...webs.map((pod) => [lab.ip(pod, family), 9999] as const), [clusterIp, 5000] as const];
      const from = lab.place('client-1');
      const ended = await Promise.all(aims.map(([address, port]) => attempts(from, { protocol: 'sctp', address, port, seconds })));
      return new Set(ended.flat().map(([end]) => end));
    };
    return { ipv4: await of('ipv4'), ipv6: await of('ipv6') };
  }

  it.each([
    ['gets no answer', {}, silent],
    ['is refused by an ICMP error that its socket reports, also in the name of a Service', { 'seine.dev/denied': 'reject' }, refused],
  ] as const)('%s', { timeout: 1_200_000 }, async (_, annotations, expected) => {
    const seconds = 15;
    const become = async (wanted: typeof expected) =>
      await expect.poll(async () => await ends(seconds), { timeout: 300_000 }).toEqual(wanted);
    await become(open);
    await lab.lab.api.send({ method: 'POST', path: clusterPoliciesPath, body: denyClients(annotations) }, signal());
    try {
      await become(expected);
    } finally {
      await lab.lab.api.send({ method: 'DELETE', path: `${clusterPoliciesPath}/deny-sctp` }, signal());
    }
    await become(open);
  });
});
