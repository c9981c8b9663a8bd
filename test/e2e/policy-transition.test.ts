import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PodStatusLine } from '../../lab/daemon/status.ts';
import { createAll } from '../../lab/demo/workload.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { DatagramStream } from '../../lab/probe/datagram-stream.ts';
import { plain } from '../../src/seinectl/paint.ts';
import { run } from '../../src/seinectl/program.ts';
import { ConvergeLab } from '../support/converge-lab.ts';
import { addPods, denyAll, namespaceManifest, networkPolicy, removePods } from '../support/guarded-lab.ts';
import { slowness } from '../support/test-datapath.ts';
import { echo, UdpStream } from '../support/udp-stream.ts';
import { setUrgency, urgent } from '../support/urgency.ts';

const port = 7777;
/** Packets of each stream before and after a change. */
const around = 200;
/** A busy host loses packets when nothing changes, too; a change that loses packets loses them every time. */
const triesMax = 4;
const signal = () => AbortSignal.timeout(30_000 * slowness);

const ofDemo = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'demo' } } };
const clients = { ...ofDemo, podSelector: { matchLabels: { app: 'client' } } };
const ingress = (from: object, ports: object) => ({
  podSelector: { matchLabels: { app: 'db' } },
  ingress: [{ from: [from], ports: [ports] }],
});
const allowed = networkPolicy('guarded', 'clients', ingress(clients, { protocol: 'UDP', port }));
const allowedAsWell = networkPolicy('guarded', 'clients-too', ingress(clients, { protocol: 'UDP', port }));
const withRange = ingress(clients, { protocol: 'UDP', port: 7_000, endPort: 7_999 });
const senders = { ...ofDemo, podSelector: { matchLabels: { kind: 'sender' } } };
const ofSenders = ingress(senders, { protocol: 'UDP', port });
const ofBoth = { ...ofSenders, ingress: [{ from: [clients, senders], ports: [{ protocol: 'UDP', port }] }] };
const ofOthers = networkPolicy('guarded', 'others', { podSelector: { matchLabels: { app: 'other' } }, ingress: [{}] });
const clientsSend = networkPolicy('demo', 'clients-send', {
  podSelector: { matchLabels: { app: 'client' } },
  policyTypes: ['Egress'],
  egress: [{ to: [{ namespaceSelector: {} }] }],
});

/** A change never passes through a state that neither the old policy nor the new one describes. */
describe('with packets that are allowed, or denied, before and after', () => {
  let lab: ConvergeLab;
  let db: PodStatusLine;
  const closing: (() => void)[] = [];

  beforeAll(async () => {
    lab = await ConvergeLab.start(2);
    await lab.startPods([
      namespaceManifest('guarded'),
      namespaceManifest('greedy'),
      networkPolicy('guarded', 'deny-all', denyAll),
      allowed,
    ]);
    [db] = (await addPods(lab, 'guarded', ['db'])) as [PodStatusLine];
    for (const ip of db.ips) closing.push(await echo(db.netns, ip, port));
    closing.push(setUrgency(process.pid, urgent));
    for (const pid of await lab.switchPids()) setUrgency(pid, urgent);
  });
  afterAll(async () => {
    for (const close of closing) close();
    await lab?.remove();
  });

  const send = (method: 'PATCH' | 'DELETE', path: string, body?: object) =>
    lab.api.send({ method, path, ...(body ? { body, contentType: 'application/merge-patch+json' } : {}) }, signal());
  const put = (...wanted: Parameters<typeof createAll>[1]) => createAll(lab.api, wanted, signal());
  const gone = (name: string, namespace = 'guarded') =>
    send('DELETE', `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies/${name}`);
  const ports = (spec: object) => send('PATCH', '/apis/networking.k8s.io/v1/namespaces/guarded/networkpolicies/clients-too', { spec });
  const labelled = (path: string, labels: object) => send('PATCH', path, { metadata: { labels } });

  /**
   * The labels that admit the senders, and only them, change; and the other pods get the labels that were required before. A mix of both
   * versions would admit these.
   */
  const allAtOnce = (isOther: boolean): Promise<unknown> =>
    Promise.all([
      ...['client-1', 'client-2'].map((name) => labelled(`/api/v1/namespaces/demo/pods/${name}`, { app: isOther ? 'sender' : 'client' })),
      ...['web-1', 'web-2'].map((name) => labelled(`/api/v1/namespaces/demo/pods/${name}`, { app: isOther ? 'client' : 'web' })),
      send('PATCH', '/apis/networking.k8s.io/v1/namespaces/guarded/networkpolicies/clients', {
        spec: ingress(isOther ? { ...ofDemo, podSelector: { matchLabels: { app: 'sender' } } } : clients, { protocol: 'UDP', port }),
      }),
    ]);
  const whileAway = async (change: () => Promise<unknown>): Promise<void> => {
    await lab.agent(1, 'kill');
    await change();
    await lab.agent(1, 'start');
    await lab.untilReady(1);
  };

  const changes: readonly (readonly [what: string, change: () => Promise<unknown>])[] = [
    ['another policy allows the same', () => put(allowedAsWell)],
    ['of two policies one goes', () => gone('clients')],
    ['a port becomes a range', () => ports(withRange)],
    ['a range becomes a port', () => ports(ingress(clients, { protocol: 'UDP', port }))],
    ['a pod gets another label', () => labelled('/api/v1/namespaces/demo/pods/client-1', { more: 'yes' })],
    ['a namespace gets another label', () => labelled('/api/v1/namespaces/demo', { more: 'yes' })],
    ['a policy of other pods comes', () => put(ofOthers)],
    ['another pod comes', () => addPods(lab, 'guarded', ['other'])],
    ['the senders are isolated too', () => put(clientsSend)],
    ['and no more', () => gone('clients-send', 'demo')],
    [
      'the senders have more labels',
      () => Promise.all(['client-1', 'client-2'].map((name) => labelled(`/api/v1/namespaces/demo/pods/${name}`, { kind: 'sender' }))),
    ],
    ['a rule names other labels, which the same pods have', () => ports(ofSenders)],
    ['a rule names two sets of labels, which the same pods have', () => ports(ofBoth)],
    ['and again one', () => ports(ingress(clients, { protocol: 'UDP', port }))],
    ['another pod goes', () => removePods(lab, 'guarded', ['other'])],
    ['the policy is what it was', async () => [await put(allowed), await gone('clients-too'), await gone('others')]],
    ['a policy and the labels that it looks at change while there is no agent', () => whileAway(() => allAtOnce(true))],
    ['and are what they were', () => whileAway(() => allAtOnce(false))],
    [
      'the agent dies and comes again',
      async () => {
        await lab.agent(1, 'kill');
        await lab.agent(1, 'start');
        await lab.untilReady(1);
      },
    ],
  ];

  /** @returns its output on node 1 */
  async function seinectl(...args: readonly string[]): Promise<string> {
    const out: string[] = [];
    const room = { width: Number.POSITIVE_INFINITY, paint: plain };
    const terminal = { room, line: (text: string) => void out.push(text), remark: () => undefined };
    await run(['--socket', nodePaths(lab.plan.dir, lab.node(1).name).apiSocket, ...args], terminal, Readable.from([]));
    return out.join('\n');
  }

  /** @returns changes at which packets were lost */
  async function losing(): Promise<ReadonlySet<string>> {
    const from = [lab.pod('client-1'), lab.pod('client-2')];
    const wanted = await Promise.all(from.flatMap(({ netns }) => db.ips.map((ip) => UdpStream.start(netns, ip, port))));
    const outsiders = [lab.pod('web-1'), lab.pod('web-2')].flatMap(({ netns }) =>
      db.ips.map((address) => ({ from: netns, address, port })),
    );
    const unwanted = await Promise.all(outsiders.map((each) => DatagramStream.start({ ...each, everyMs: 1 })));
    const more = async () => {
      const goals = wanted.map(({ answered }) => answered + around);
      const isMore = () => wanted.every(({ answered }, at) => answered >= (goals[at] ?? 0));
      await expect.poll(isMore, { timeout: 20_000 * slowness }).toBe(true);
    };
    await more();
    const begins: number[][] = [];
    try {
      for (const [what, change] of changes) {
        begins.push(wanted.map(({ sent }) => sent));
        await change();
        await more();
        expect(
          unwanted.map(({ answered }) => answered),
          what,
        ).toEqual(unwanted.map(() => 0));
      }
    } finally {
      for (const stream of unwanted) stream.close();
    }
    const counts = await Promise.all(wanted.map((stream) => stream.stop()));
    const lost = counts.flatMap(({ lostNumbers }, of) =>
      lostNumbers.map((number) => begins.findLastIndex((at) => (at[of] ?? 0) <= number)),
    );
    // The very first ones create the caches of their path.
    const at = new Set(lost.flatMap((index) => changes[index]?.[0] ?? []));
    console.log(
      `sent ${counts.map(({ sent }) => sent).join(', ')}, lost ${counts.map((each) => each.lost).join(', ')} ${[...at].join('; ')}`,
    );
    return at;
  }

  it('is the same before and after a restart where rules name more networks than there are numbers', {
    timeout: 240_000 * slowness,
  }, async () => {
    const [api] = (await addPods(lab, 'greedy', ['api'])) as [PodStatusLine];
    const from = [lab.pod('client-1'), lab.pod('web-1')] as const;
    await put(networkPolicy('guarded', 'web', ingress(clients, { port: 80 })));
    // By their texts, networks 1.… and those of pods have numbers, and the last of 20.… and those of IPv6 have none.
    const networks = ['1', '20', '20', '20', '20'].map((first, policy) =>
      Array.from({ length: 1_000 }, (_, at) => `${first}.${policy}.${at >> 8}.${at & 255}/32`),
    );
    const own = from.flatMap(({ ips }) => ips.map((ip) => `${ip}/${ip.includes(':') ? 128 : 32}`));
    networks[0]?.splice(0, own.length, ...own);
    const rules = (cidrs: readonly string[]) => cidrs.map((cidr) => ({ from: [{ ipBlock: { cidr } }], ports: [{ port: 80 }] }));
    for (const [at, cidrs] of networks.entries())
      await put(networkPolicy('greedy', `many-${at}`, { podSelector: {}, ingress: rules(cidrs) }));
    const seen = async () => {
      const all = await Promise.all([...db.ips, ...api.ips].flatMap((ip) => from.map((pod) => lab.reach(pod, ip))));
      return all.map(({ is }) => is);
    };
    // client-1 and web-1 to db, in either family; then to the pod with too many networks.
    const ofApi = api.ips.flatMap((ip) => Array<string>(from.length).fill(ip.includes(':') ? 'TIMEOUT' : 'OK'));
    const expected = [...db.ips.flatMap(() => ['OK', 'TIMEOUT']), ...ofApi];
    const isReported = async () => {
      await expect.poll(seen, { timeout: 60_000 * slowness }).toEqual(expected);
      await expect
        .poll(() => seinectl('status'), { timeout: 60_000 * slowness })
        .toMatch(/namespace greedy, ingress: networks of \d+ rules are denied .* more than its share of 4000/);
    };
    await isReported();
    const [ipv6] = from[0].ips.filter((ip) => ip.includes(':'));
    expect(await seinectl('policy', 'explain', ipv6 ?? '', 'greedy/api', '80')).toMatch(
      /denied, networks left out.*\n.*greedy\/many-0 spec\.ingress\[\d\] would allow it/,
    );
    // A pod of another namespace: each of its cells is compared with few rules.
    const verified = () => seinectl('policy', 'verify', '--pod', 'guarded/db');
    expect(await verified()).toMatch(/NETWORKS LEFT OUT of \d+ rules.*greedy\/many-0 spec\.ingress\[1\][\s\S]*\nequal:/);
    for (const loss of ['none', 'all flows']) {
      await lab.agent(1, 'kill');
      if (loss === 'all flows') await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int');
      await lab.agent(1, 'start');
      await lab.untilReady(1, 60_000 * slowness);
      await isReported();
      expect(await verified()).toMatch(/NETWORKS LEFT OUT of \d+ rules[\s\S]*\nequal:/);
    }
    for (const at of networks.keys()) await gone(`many-${at}`, 'greedy');
    await gone('web');
    await expect.poll(() => seinectl('status'), { timeout: 60_000 * slowness }).not.toContain('namespace greedy, ingress: networks');
  });

  it('loses none, and lets none pass, whatever changes', { timeout: 600_000 }, async () => {
    let suspects = await losing();
    for (let tries = 1; suspects.size > 0 && tries < triesMax; tries++) {
      const again = await losing();
      suspects = new Set([...suspects].filter((what) => again.has(what)));
    }
    expect([...suspects]).toEqual([]);
  });
});
