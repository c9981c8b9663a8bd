import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { nodePaths } from '../../lab/plan/names.ts';
import { AgentMemoryLimit } from '../support/agent-memory-limit.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { largestWrites } from '../support/largest-objects.ts';
import { slowness } from '../support/test-datapath.ts';

/** Limit of the agent's container, as the manifest has it (build/manifests/seine.yaml). */
const limitBytes = 1024 ** 3;
const livezMs = 5_000 * slowness;
const pollMs = 100;

let limit: AgentMemoryLimit;
let lab: ConvergeLab;
const signal = new AbortController().signal;

beforeAll(async () => {
  limit = new AgentMemoryLimit(limitBytes);
  lab = await ConvergeLab.start(1);
}, 180_000 * slowness);
afterAll(async () => {
  await lab?.remove();
  limit?.end();
});

const livez = (): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const socketPath = nodePaths(lab.plan.dir, lab.node(1).name).apiSocket;
    const asked = request({ socketPath, path: '/livez', agent: false, timeout: livezMs }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode));
    });
    asked.once('timeout', () => asked.destroy(new Error('no answer of /livez')));
    asked.once('error', reject).end();
  });

it('an agent with the manifest’s memory limit survives the largest objects', { timeout: 300_000 * slowness }, async () => {
  const { api } = lab;
  const [agent = 0] = await lab.agentPids();
  const path = '/api/v1/nodes';
  await api.send({ method: 'POST', path, body: { metadata: { name: 'peer-1' }, spec: {} } }, signal);
  let isOver = false;
  const lives = (async () => {
    for (; !isOver; await sleep(pollMs)) expect(await livez()).toBe(200);
  })();
  lives.catch(() => undefined); // awaited below
  for (const { method, path: at, body, contentType } of largestWrites('default', 'peer-1'))
    await api.send({ method, path: at, ...(body && { body }), ...(contentType && { contentType }) }, signal);
  // The bridge has the load balancer's address at the last port, and nothing of the deleted Service.
  await until(
    async () => {
      const flows = await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', 'tcp,nw_dst=198.18.77.1,tp_dst=8000');
      return flows.includes('198.18.77.1');
    },
    120_000,
    () => 'the last port of a large Service is not served',
  );
  isOver = true;
  await lives;
  expect(await lab.agentPids()).toEqual([agent]);
  expect(limit.peakBytes(agent)).toBeLessThan(limitBytes / 2);
});
