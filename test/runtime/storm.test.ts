import { afterAll, beforeAll, expect, it } from 'vitest';
import { agentProcess } from '../../lab/node/agent.ts';
import { figuresOf, type ProcessFigures, risen } from '../soak/figures.ts';
import { contentsAtRest, contentsOf } from './node-contents.ts';
import { RuntimeLab, type WantedPod } from './runtime-lab.ts';

/*
 * A hundred concurrent sandboxes of containerd, as a kubelet requests them after a node's restart, and the deletion of all of them.
 */

const sandboxes = 100;
const signal = AbortSignal.timeout(900_000);
let runtimes: RuntimeLab;

beforeAll(async () => {
  runtimes = await RuntimeLab.start(1, signal);
  await runtimes.startContainerd('usual chain', signal);
});
afterAll(async () => {
  await runtimes?.remove(AbortSignal.timeout(120_000));
});

/** One in ten publishes a port, one in ten is limited in both directions. */
function stormPod(index: number): WantedPod {
  const name = `storm-${index}`;
  if (index % 10 === 0) return { name, ports: [{ protocol: 'tcp', containerPort: 80, hostPort: 20_000 + index }] };
  if (index % 10 === 1) return { name, annotations: { 'kubernetes.io/ingress-bandwidth': '10M', 'kubernetes.io/egress-bandwidth': '10M' } };
  return { name };
}

async function storm(): Promise<void> {
  const { cri } = runtimes.containerd(1);
  const ids = await Promise.all(
    Array.from({ length: sandboxes }, (_, index) => cri.runSandbox(runtimes.sandboxConfig(stormPod(index)), signal)),
  );
  const statuses = await Promise.all(ids.map((id) => cri.sandboxStatus(id, signal)));
  const { leases, ports, interfaces } = await contentsOf(runtimes);
  expect({ leases, ports, interfaces }).toEqual({ leases: ids.toSorted(), ports: ids.toSorted(), interfaces: sandboxes });
  expect(new Set(statuses.flatMap(({ ips }) => ips)).size).toBe(2 * sandboxes);
  await Promise.all(
    ids.map(async (id) => {
      await cri.stopSandbox(id, signal);
      await cri.removeSandbox(id, signal);
    }),
  );
}

/** Figures of the agent and of ovs-vswitchd, when nothing of a pod is left. */
async function quietFigures(before: Awaited<ReturnType<typeof contentsOf>>): Promise<Readonly<Record<string, ProcessFigures>>> {
  const { lab } = runtimes;
  await expect.poll(() => contentsOf(runtimes), { timeout: 20_000 }).toEqual(before);
  const agent = agentProcess(lab.plan, lab.node(1));
  const [vswitchd] = await lab.switchPids();
  if (agent === undefined || vswitchd === undefined) throw new Error('the agent or the switch is not there');
  return { agent: figuresOf(agent.pid), 'ovs-vswitchd': figuresOf(vswitchd) };
}

it('leave nothing behind, and cost no memory or descriptors the second time', { timeout: 600_000 }, async () => {
  // Permanent remains of a node's first pod do not count.
  const { cri } = runtimes.containerd(1);
  const first = await cri.runSandbox(runtimes.sandboxConfig(stormPod(0)), signal);
  await cri.stopSandbox(first, signal);
  await cri.removeSandbox(first, signal);
  const before = await contentsAtRest(runtimes);
  await storm();
  const afterFirst = await quietFigures(before);
  await storm();
  const afterSecond = await quietFigures(before);
  const problems = Object.entries(afterFirst).flatMap(([what, figures]) => {
    const now = afterSecond[what];
    return now === undefined ? [] : now.pid === figures.pid ? risen(what, figures, now) : [`${what}: was restarted`];
  });
  expect(problems).toEqual([]);
});
