import { readFileSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { nodePaths } from '../../src/lab/plan/names.ts';
import { connectTcpIn } from '../../src/lab/probe/sockets.ts';
import { eventually, ServiceLab, silent } from '../support/service-lab.ts';

/** Seine beside a kube-proxy, and after it. The rules are those of kube-proxy's nftables mode in small. */
let lab: ServiceLab;

beforeAll(async () => {
  lab = await ServiceLab.start();
}, 180_000);
afterAll(async () => {
  await lab?.remove();
});

const signal = () => AbortSignal.timeout(20_000);

/** The answer to one line. */
async function say(socket: Socket, text: string): Promise<string> {
  socket.write(text);
  return await new Promise((resolve, reject) => {
    socket.once('data', (data) => resolve(String(data)));
    socket.once('close', () => reject(new Error('closed')));
    setTimeout(() => reject(new Error('no answer')), 5_000).unref();
  });
}

it('leaves Services to a kube-proxy, and takes over when it is gone, without losing a connection', async () => {
  const service = await lab.service(lab.name('shared'), { selector: { app: 'web' }, type: 'NodePort' });
  const port = lab.nodePort(service, 'tcp');
  const node = lab.ip('node-1', 'ipv4');
  const world = lab.nodeAims(service, 'world', 'node-1');
  const cluster = lab.clusterAims(service, ['client-1']);
  await lab.allSee([...world, ...cluster], { failures: [] });

  const path = nodePaths(lab.lab.plan.dir, 'node-1').agentConfig;
  const config = parse(readFileSync(path, 'utf8'));
  writeFileSync(path, stringify({ ...config, proxy: { ...config.proxy, proxyAll: undefined } }));
  const endpoint = lab.ip('web-2', 'ipv4');
  const rules = `table ip kube-proxy {
    chain nat-prerouting { type nat hook prerouting priority dstnat
      ip daddr ${node} tcp dport ${port} dnat to ${endpoint}:80
    }
    chain nat-postrouting { type nat hook postrouting priority srcnat
      ct status dnat masquerade
    }
  }`
    .replaceAll(/\{ type/g, '{\n type')
    .replaceAll(/(dstnat|srcnat)\n/g, '$1;\n');
  await lab.lab.exec(1, 'nft', rules);
  await lab.lab.agent(1, 'stop');
  await lab.lab.agent(1, 'start');

  await eventually(async () => expect(await lab.lab.exec(1, 'nft', 'list', 'tables')).not.toContain('seine-services'));
  await lab.sees({ from: 'world', address: node, port }, { pods: ['web-2'], failures: [] });
  await lab.allSee(cluster, { failures: [] });
  await lab.allSee(
    world.filter(({ protocol }) => protocol === 'udp'),
    { pods: [] },
    silent,
  );

  const held = await connectTcpIn(lab.place('world'), node, port, signal());
  expect(await say(held, 'who\n')).toContain('demo/web-2');
  await lab.lab.exec(1, 'nft', 'delete table ip kube-proxy');
  // It is checked for every ten seconds.
  await eventually(async () => expect(await lab.lab.exec(1, 'nft', 'list', 'tables')).toContain('seine-services'), 15_000);
  await lab.allSee(world, { failures: [] });
  await lab.sees({ from: 'world', address: node, port, tries: 30 }, { pods: ['web-1', 'web-2', 'web-3'] });
  expect(await say(held, 'who\n')).toContain('demo/web-2');
  held.destroy();
}, 60_000);
