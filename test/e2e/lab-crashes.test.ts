import { randomInt } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { netnsPrefix, nodePaths } from '../../src/lab/names.ts';
import { runIn } from '../../src/lab/node/netns.ts';
import { ask } from '../../src/lab/probe/probe.ts';
import { askStatus } from '../../src/lab/up.ts';
import { type LabInTest, raiseLab, until } from './lab-in-test.ts';

/** More in a long run: `SEINE_CRASHES=200`. A run is repeated with the seed it printed: `SEINE_SEED=…`. */
const crashes = Number(process.env['SEINE_CRASHES'] ?? 12);
const seed = Number(process.env['SEINE_SEED'] ?? randomInt(2 ** 31));
/** Longer than any ADD or DEL takes here, so that some crashes come before, some amid and some after it. */
const longestMs = 120;
const signal = new AbortController().signal;
const collection = '/api/v1/namespaces/demo/pods';

let lab: LabInTest;
const alive = new Set<string>();
const random = generator(seed);

beforeAll(async () => {
  lab = await raiseLab(1);
}, 180_000);
afterAll(async () => {
  await lab?.remove();
});

/** mulberry32: numbers below 1 that are the same for the same seed. */
function generator(state: number): () => number {
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

async function create(name: string): Promise<void> {
  const spec = {
    nodeName: 'node-1',
    terminationGracePeriodSeconds: 0,
    containers: [{ name: 'c', image: 'none', ports: [{ containerPort: 80 }] }],
  };
  await lab.api.send({ method: 'POST', path: collection, body: { apiVersion: 'v1', kind: 'Pod', metadata: { name }, spec } }, signal);
  alive.add(name);
}

async function remove(name: string): Promise<void> {
  await lab.api.send({ method: 'DELETE', path: `${collection}/${name}` }, signal);
  alive.delete(name);
}

async function answers(name: string): Promise<boolean> {
  const { pods } = await askStatus(lab.plan.dir);
  const [server, client] = [name, 'client-1'].map((wanted) => pods.find((pod) => pod.name === wanted));
  if (server === undefined || client === undefined) return false;
  const tries = server.ips.map((address) => ask({ from: client.netns, protocol: 'tcp', address, port: 80, timeoutMs: 500 }));
  return (await Promise.all(tries)).every((outcome) => outcome.is === 'OK' && outcome.answer.pod === `demo/${name}`);
}

async function isGone(name: string): Promise<boolean> {
  return lab.api.send({ method: 'GET', path: `${collection}/${name}` }, signal).then(
    () => false,
    () => true,
  );
}

it(`survives ${crashes} kills of the agent amid ADD and DEL, seed ${seed}`, { timeout: 60_000 + crashes * 15_000 }, async () => {
  for (let round = 0; round < crashes; round++) {
    const [victim] = [...alive];
    const creates = victim === undefined || random() < 0.5;
    const name = creates ? `p${round}` : victim;
    await (creates ? create(name) : remove(name));
    await sleep(random() * longestMs);
    await lab.lever('/agents/node-1/kill');
    await lab.lever('/agents/node-1/start');
    await lab.agentReady('node-1');
    await until(`${name} to ${creates ? 'answer' : 'go'}, round ${round}`, 40_000, () => (creates ? answers(name) : isGone(name)));
  }
  for (const name of alive) expect(await answers(name), `${name} answers, seed ${seed}`).toBe(true);
});

it('has leaked no port, link, namespace or address', async () => {
  const [node] = lab.plan.nodes;
  const { pods } = await askStatus(lab.plan.dir);
  const connected = pods.filter(({ netns }) => netns !== node?.netns);
  expect(connected.map(({ name }) => name).toSorted()).toEqual([...alive, 'client-1', 'web-1'].toSorted());
  const ports = (await lab.ovs('node-1', 'ovs-vsctl', 'list-ports', 'br-int')).trim().split('\n');
  expect(ports.filter((port) => !port.startsWith('antrea-'))).toHaveLength(connected.length);
  await until('links of dead pods to go', 5_000, async () => {
    const links: { ifname: string }[] = JSON.parse(
      await runIn(node?.netns ?? '', 'ip', ['-j', 'link', 'show', 'type', 'veth'], {}, signal),
    );
    return links.filter(({ ifname }) => ifname !== 'eth0' && ifname !== 'mgmt0').length === connected.length;
  });
  const namespaces = readdirSync('/run/netns').filter((name) => name.startsWith(netnsPrefix(lab.plan.id)));
  expect(namespaces.filter((name) => name.includes('-demo-'))).toHaveLength(connected.length);
  const addresses = connected.flatMap(({ ips }) => ips);
  expect(new Set(addresses).size).toBe(addresses.length);
  expect(readdirSync(nodePaths(lab.plan.dir, 'node-1').cniCache)).toHaveLength(connected.length);
});
