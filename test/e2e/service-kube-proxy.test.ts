import { readFileSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { nodePaths } from '../../lab/plan/names.ts';
import { connectTcpIn } from '../../lab/probe/sockets.ts';
import type { Family } from '../../src/base/net/ip.ts';
import { masqueradedExternal } from '../../src/dataplane/pipeline/well-known.ts';
import { eventually, families, ServiceLab, silent } from '../support/service-lab.ts';

/** Seine together with a kube-proxy, and after it. The rules are a small copy of kube-proxy's nftables mode. */
let lab: ServiceLab;

beforeAll(async () => {
  lab = await ServiceLab.start();
}, 180_000);
afterAll(async () => {
  await lab?.remove();
});

const signal = () => AbortSignal.timeout(20_000);

/** Answer of a node to a load balancer's health check; undefined if there is none. */
async function healthOf(family: Family): Promise<string | undefined> {
  try {
    const socket = await connectTcpIn(lab.place('external'), lab.ip('node-1', family), 10_256, signal());
    const answer = await exchange(socket, 'GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n');
    socket.destroy();
    return `${/^HTTP\/1.1 (\d+)/.exec(answer)?.[1]} ${/"nodeEligible":(\w+)/.exec(answer)?.[1]}`;
  } catch {
    return undefined;
  }
}

/** The answer to one line. */
async function exchange(socket: Socket, text: string): Promise<string> {
  socket.write(text);
  return await new Promise((resolve, reject) => {
    socket.once('data', (data) => resolve(String(data)));
    socket.once('close', () => reject(new Error('closed')));
    setTimeout(() => reject(new Error('no answer')), 5_000).unref();
  });
}

const words = { ipv4: 'ip', ipv6: 'ip6' } as const;
/** A node port of kube-proxy's, with an endpoint on the same node. */
const ownPort = 29_999;

/** Node ports of node-1, each to port 80 of a pod, masqueraded by kube-proxy's mark of all its modes. */
function rulesOf(family: Family, endpoints: Readonly<Record<number, string>>): string {
  const ip = words[family];
  const to = (pod: string) => (family === 'ipv4' ? `${lab.ip(pod, family)}:80` : `[${lab.ip(pod, family)}]:80`);
  const translate = Object.entries(endpoints).map(
    ([port, pod]) => `${ip} daddr ${lab.ip('node-1', family)} tcp dport ${port} meta mark set meta mark | 0x4000 dnat to ${to(pod)}`,
  );
  const chain = (hook: string, ...rules: readonly string[]): string =>
    `chain nat-${hook} {\ntype nat hook ${hook} priority ${hook === 'postrouting' ? 100 : -100};\n${rules.join('\n')}\n}`;
  return `table ${ip} kube-proxy {
    ${chain('prerouting', ...translate)}
    ${chain('output', ...translate)}
    ${chain('postrouting', 'meta mark & 0x4000 == 0x4000 meta mark set meta mark ^ 0x4000 masquerade fully-random')}
  }`;
}

/** A client with the gateway's address is the node itself, to which no policy blocks its pods. */
async function distinguishesExternalFromNode(family: Family): Promise<void> {
  const aim = { address: lab.ip('node-1', family), port: ownPort };
  const shown = await lab.lab.exec(1, 'ip', '-o', 'address', 'show', 'dev', 'antrea-gw0', 'scope', 'global');
  await lab.sees({ ...aim, from: 'external' }, { pods: ['web-1'], failures: [], clients: [masqueradedExternal[family].text] });
  const [client] = (await lab.look({ ...aim, from: 'node-1' })).clients;
  expect(shown).toContain(` ${client}/`);
}

it('leaves Services to a kube-proxy, and takes over when it is gone, without losing a connection', async () => {
  const service = await lab.service(lab.name('shared'), { selector: { app: 'web' }, type: 'NodePort' });
  const port = lab.nodePort(service, 'tcp');
  const node = lab.ip('node-1', 'ipv4');
  const external = lab.nodeAims(service, 'external', 'node-1');
  const cluster = lab.clusterAims(service, ['client-1']);
  await lab.allSee([...external, ...cluster], { failures: [] });

  const connected = await Promise.all(
    families.map((family) => connectTcpIn(lab.place('external'), lab.ip('node-1', family), port, signal())),
  );
  const served = await Promise.all(connected.map((each) => exchange(each, 'who\n')));

  const path = nodePaths(lab.lab.plan.dir, 'node-1').agentConfig;
  const config = parse(readFileSync(path, 'utf8'));
  writeFileSync(path, stringify({ ...config, proxy: { ...config.proxy, proxyAll: undefined } }));
  for (const family of families) await lab.lab.exec(1, 'nft', rulesOf(family, { [port]: 'web-2', [ownPort]: 'web-1' }));
  await lab.lab.agent(1, 'stop');
  await lab.lab.agent(1, 'start');

  await eventually(async () => expect(await lab.lab.exec(1, 'nft', 'list', 'tables')).not.toContain('seine-services'));
  await lab.sees({ from: 'external', address: node, port }, { pods: ['web-2'], failures: [] });
  // Connections that Seine has translated continue until they end.
  expect(await Promise.all(connected.map((each) => exchange(each, 'who\n')))).toEqual(served);
  for (const each of connected) each.destroy();
  expect(await healthOf('ipv4')).toBe(undefined);
  for (const family of families) await distinguishesExternalFromNode(family);
  await lab.allSee(cluster, { failures: [] });
  await lab.allSee(
    external.filter(({ protocol }) => protocol === 'udp'),
    { pods: [] },
    silent,
  );

  const held = await connectTcpIn(lab.place('external'), node, port, signal());
  expect(await exchange(held, 'who\n')).toContain('demo/web-2');
  for (const family of families) await lab.lab.exec(1, 'nft', `delete table ${words[family]} kube-proxy`);
  // It is checked for every ten seconds.
  await eventually(async () => expect(await lab.lab.exec(1, 'nft', 'list', 'tables')).toContain('seine-services'), 15_000);
  await lab.allSee(external, { failures: [] });
  await lab.sees({ from: 'external', address: node, port, tries: 30 }, { pods: ['web-1', 'web-2', 'web-3'] });
  expect(await exchange(held, 'who\n')).toContain('demo/web-2');
  held.destroy();
  // Clouds' load balancers check kube-proxy's health address: without one the agent answers, and not for a node that is being deleted.
  for (const family of families) await eventually(async () => expect(await healthOf(family)).toBe('200 true'));
  await lab.taint('node-1', 'ToBeDeletedByClusterAutoscaler');
  await eventually(async () => expect(await healthOf('ipv4')).toBe('503 false'));
  await lab.taint('node-1', undefined);
  await eventually(async () => expect(await healthOf('ipv4')).toBe('200 true'));
}, 60_000);

it.each(['', '-legacy'])(
  'distinguishes external clients from the node behind rules of kube-proxy’s mode iptables%s',
  async (variant) => {
    for (const family of families) {
      const program = `${family === 'ipv4' ? 'iptables' : 'ip6tables'}${variant}`;
      const change = (...rule: readonly string[]) => lab.lab.exec(1, program, '-w', '-t', 'nat', ...rule);
      const endpoint = family === 'ipv4' ? `${lab.ip('web-1', family)}:80` : `[${lab.ip('web-1', family)}]:80`;
      await change('-N', 'KUBE-NODEPORTS');
      for (const chain of ['PREROUTING', 'OUTPUT']) await change('-A', chain, '-d', lab.ip('node-1', family), '-j', 'KUBE-NODEPORTS');
      const match = ['-p', 'tcp', '--dport', String(ownPort)];
      await change('-A', 'KUBE-NODEPORTS', ...match, '-j', 'MARK', '--or-mark', '0x4000');
      await change('-A', 'KUBE-NODEPORTS', ...match, '-j', 'DNAT', '--to-destination', endpoint);
      const marked = ['-m', 'mark', '--mark', '0x4000/0x4000', '-j'];
      await change('-A', 'POSTROUTING', ...marked, 'MASQUERADE', '--random-fully');
      await distinguishesExternalFromNode(family);
      await change('-F');
      await change('-X', 'KUBE-NODEPORTS');
    }
  },
  60_000,
);
