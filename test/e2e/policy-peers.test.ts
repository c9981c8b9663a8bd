import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PodStatusLine } from '../../lab/daemon/status.ts';
import { ofFamily } from '../../lab/demo/scene.ts';
import { clusterIps, createAll, hostPort } from '../../lab/demo/workload.ts';
import { ask } from '../../lab/probe/probe.ts';
import { ConvergeLab } from '../support/converge-lab.ts';
import { addPods, denyAll, namespaceManifest, networkPolicy } from '../support/guarded-lab.ts';
import { slowness } from '../support/test-datapath.ts';

const families = ['ipv4', 'ipv6'] as const;
type Family = (typeof families)[number];
const patienceMs = 20_000 * slowness;
const deniedMs = 400 * slowness;
const signal = () => AbortSignal.timeout(patienceMs);
const ofDb = { podSelector: { matchLabels: { app: 'db' } }, policyTypes: ['Ingress'] };
const nodePort = 30_555;

/** A Node that claims a network for its pods. */
function nodeManifest(name: string, podCIDR: string) {
  return { apiVersion: 'v1', kind: 'Node', metadata: { name }, spec: { podCIDR, podCIDRs: [podCIDR] } };
}

/** Admitted ingress and egress peers, with real packets, by the text of the API and docs/network-policy.md. */
describe.each(families)('NetworkPolicy over %s', (family: Family) => {
  let lab: ConvergeLab;
  let db: PodStatusLine;
  let service: string;

  beforeAll(async () => {
    lab = await ConvergeLab.start(2);
    await lab.startPods([namespaceManifest('guarded'), networkPolicy('guarded', 'deny-all', denyAll)]);
    [db] = (await addPods(lab, 'guarded', ['db'])) as [PodStatusLine];
    const spec = {
      type: 'NodePort',
      selector: { app: 'db' },
      ports: [{ name: 'tcp', port: 80, targetPort: 80, protocol: 'TCP', nodePort }],
      ipFamilyPolicy: 'RequireDualStack',
    };
    const object = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'db' }, spec };
    await createAll(lab.api, [{ collection: '/api/v1/namespaces/guarded/services', object }], signal());
    service = ofFamily(await clusterIps(lab.api, 'db', signal(), 'guarded'), family);
  });
  afterAll(async () => lab?.remove());

  const address = (pod: string): string => ofFamily(pod === 'db' ? db.ips : lab.pod(pod).ips, family);
  const whole = family === 'ipv4' ? 32 : 128;

  /** A place: a pod, `node-1`, or `external`. */
  function place(from: string): string {
    if (from === 'external') return lab.plan.external.netns;
    if (from.startsWith('node-')) return lab.node(Number(from.slice(5))).netns;
    return from === 'db' ? db.netns : lab.pod(from).netns;
  }

  function aim(to: string): { readonly address: string; readonly port: number } {
    if (to === 'service') return { address: service, port: 80 };
    if (to.startsWith('node port of ')) return { address: ofFamily(lab.node(Number(to.at(-1))).ips, family), port: nodePort };
    if (to.startsWith('process of ')) return { address: ofFamily(lab.node(Number(to.at(-1))).ips, family), port: hostPort };
    if (to === 'outside') return { address: ofFamily(lab.plan.external.outside, family), port: 80 };
    return { address: address(to), port: 80 };
  }

  async function isAnswered(from: string, to: string, protocol: 'tcp' | 'udp'): Promise<boolean> {
    return (await ask({ from: place(from), protocol, ...aim(to), timeoutMs: deniedMs })).is === 'OK';
  }

  /** Expects each of these, with time for changes to come into force. @param wanted `client-1 db` or `client-1 db udp` */
  async function holds(wanted: { readonly passes: readonly string[]; readonly ends: readonly string[] }): Promise<void> {
    const look = async (paths: readonly string[]) =>
      await Promise.all(
        paths.map(async (path) => {
          const [from = '', to = '', protocol = 'tcp'] = path.split(' > ');
          return [path, await isAnswered(from, to, protocol === 'udp' ? 'udp' : 'tcp')];
        }),
      );
    const expected = [...wanted.passes.map((path) => [path, true]), ...wanted.ends.map((path) => [path, false])];
    await expect.poll(() => look([...wanted.passes, ...wanted.ends]), { timeout: patienceMs }).toEqual(expected);
  }

  async function withPolicy(namespace: string, spec: object, wanted: Parameters<typeof holds>[0]): Promise<void> {
    await createAll(lab.api, [networkPolicy(namespace, 'tried', spec)], signal());
    try {
      await holds(wanted);
    } finally {
      const path = `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies/tried`;
      await lab.api.send({ method: 'DELETE', path }, signal());
    }
  }

  const fromAll = { ...ofDb, ingress: [{}] };

  it('admits only the own node and the pod itself where no rule allows', async () => {
    await holds({
      passes: ['node-1 > db', 'db > service', 'db > db'],
      ends: [
        'client-1 > db',
        'client-2 > db',
        'client-2 > db > udp',
        'node-2 > db',
        'client-1 > service',
        'client-2 > service',
        'db > client-1',
      ],
    });
  });

  it('matches blocks, and their exceptions', async () => {
    const cidr = `${address('client-2')}/${whole}`;
    await withPolicy(
      'guarded',
      { ...ofDb, ingress: [{ from: [{ ipBlock: { cidr } }] }] },
      { passes: ['client-2 > db', 'client-2 > service'], ends: ['client-1 > db', 'web-2 > db', 'client-1 > service'] },
    );
    const all = family === 'ipv4' ? '0.0.0.0/0' : '::/0';
    await withPolicy(
      'guarded',
      { ...ofDb, ingress: [{ from: [{ ipBlock: { cidr: all, except: [cidr] } }] }] },
      { passes: ['client-1 > db', 'web-2 > db', 'external > node port of 1'], ends: ['client-2 > db', 'client-2 > service'] },
    );
  });

  it('matches any pod with an empty selector, and neither nodes nor external clients', async () => {
    await withPolicy(
      'guarded',
      { ...ofDb, ingress: [{ from: [{ namespaceSelector: {} }] }] },
      {
        passes: ['client-1 > db', 'client-2 > db', 'client-2 > service', 'client-2 > db > udp', 'node-1 > db'],
        ends: ['node-2 > db', 'external > node port of 1', 'external > node port of 2'],
      },
    );
  });

  it('does not match a host as a pod if a Node claims its network', async () => {
    const network = family === 'ipv4' ? '192.168.77.0/24' : 'fd00:77::/64';
    const claims = { 'claims-link': network, 'claims-all': family === 'ipv4' ? '0.0.0.0/0' : '::/0' };
    const nodes = '/api/v1/nodes';
    for (const [name, podCIDR] of Object.entries(claims))
      await createAll(lab.api, [{ collection: nodes, object: nodeManifest(name, podCIDR) }], signal());
    await expect.poll(async () => (await lab.metrics(1)).get('rejected_objects{kind="Node"}'), { timeout: patienceMs }).toBe(2);
    try {
      await withPolicy(
        'guarded',
        { ...ofDb, ingress: [{ from: [{ namespaceSelector: {} }] }] },
        { passes: ['client-1 > db', 'client-2 > db'], ends: ['node-2 > db', 'external > node port of 1'] },
      );
    } finally {
      for (const name of Object.keys(claims)) await lab.api.send({ method: 'DELETE', path: `${nodes}/${name}` }, signal());
    }
  });

  it('matches ports by number, by range, and by their names', async () => {
    const ends = ['client-1 > db > udp', 'client-2 > db > udp'];
    const passes = ['client-1 > db', 'client-2 > service'];
    for (const port of [{ port: 80 }, { port: 1, endPort: 100 }, { port: 'tcp' }])
      await withPolicy('guarded', { ...ofDb, ingress: [{ ports: [{ protocol: 'TCP', ...port }] }] }, { passes, ends });
    await withPolicy(
      'guarded',
      { ...ofDb, ingress: [{ ports: [{ port: 81, endPort: 65_535 }] }] },
      { passes: [], ends: [...passes, ...ends] },
    );
  });

  it('admits external clients by the node that has the pod, with their own address', async () => {
    await withPolicy('guarded', fromAll, { passes: ['external > node port of 1', 'external > node port of 2', 'node-2 > db'], ends: [] });
  });

  it('isolates senders as well, through Services and to the outside', async () => {
    const clients = { podSelector: { matchLabels: { app: 'client' } }, policyTypes: ['Egress'] };
    const toWeb = { to: [{ podSelector: { matchLabels: { app: 'web' } } }] };
    const outside = { to: [{ ipBlock: { cidr: `${ofFamily(lab.plan.external.outside, family)}/${whole}` } }] };
    await withPolicy(
      'demo',
      { ...clients, egress: [toWeb] },
      {
        passes: [
          'client-1 > web-1',
          'client-1 > web-2',
          'web-1 > client-1',
          'web-2 > outside',
          'web-1 > process of 1',
          'web-1 > process of 2',
        ],
        ends: ['client-1 > client-2', 'client-1 > outside', 'client-1 > process of 1', 'client-1 > process of 2'],
      },
    );
    await withPolicy(
      'demo',
      { ...clients, egress: [outside] },
      { passes: ['client-1 > outside', 'client-2 > outside'], ends: ['client-1 > web-1'] },
    );
  });
});
