import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { askControl } from '../../lab/daemon/control.ts';
import type { PodStatusLine } from '../../lab/daemon/status.ts';
import { createAll, manifests, podsReady } from '../../lab/demo/workload.ts';
import { removeLab } from '../../lab/down.ts';
import { KubeApi } from '../../lab/kube/kube-api.ts';
import { readKubeconfig } from '../../lab/kube/kubeconfig.ts';
import { run } from '../../lab/machine/process.ts';
import { agentReadiness } from '../../lab/node/agent.ts';
import { labPaths, nodePaths } from '../../lab/plan/names.ts';
import { type LabPlan, planLab } from '../../lab/plan/plan.ts';
import { askStatus, bringUp } from '../../lab/up.ts';
import { untilServed } from '../support/served.ts';
import { slowness, testDatapath, testPodInterface } from '../support/test-datapath.ts';

const signal = new AbortController().signal;

/** A lab of a test, with the pods and Services of the demo. */
export interface LabInTest {
  readonly plan: LabPlan;
  readonly api: KubeApi;
  pod(name: string): Promise<PodStatusLine>;
  lever(path: string): Promise<void>;
  /** Runs a tool of Open vSwitch against a node. */
  ovs(node: string, command: string, ...args: string[]): Promise<string>;
  agentReady(node: string): Promise<void>;
  remove(): Promise<void>;
}

export async function raiseLab(nodes: number): Promise<LabInTest> {
  const plan = planLab({
    nodes,
    dir: `/run/seine-e2e-${randomBytes(3).toString('hex')}`,
    families: ['ipv4', 'ipv6'],
    tunnel: 'geneve',
    datapath: testDatapath,
    ...testPodInterface,
  });
  try {
    await bringUp({ plan, onStep: () => {} }, signal);
    const api = new KubeApi(await readKubeconfig(labPaths(plan.dir).kubeconfig));
    const wanted = manifests(plan);
    await createAll(api, wanted, signal);
    await podsReady(api, wanted.filter(({ object }) => object['kind'] === 'Pod').length, signal);
    await untilServed(plan, api, AbortSignal.timeout(30_000 * slowness));
    return labInTest(plan, api);
  } catch (error) {
    await removeLab(plan.dir, signal);
    throw error;
  }
}

function labInTest(plan: LabPlan, api: KubeApi): LabInTest {
  return {
    plan,
    api,
    pod: async (name) => {
      const { pods } = await askStatus(plan.dir);
      const found = pods.find((one) => one.name === name);
      if (found === undefined) throw new Error(`no pod ${name}`);
      return found;
    },
    lever: async (path) => void (await askControl(labPaths(plan.dir).control, 'POST', path)),
    ovs: (node, command, ...args) => run(command, args, { env: { OVS_RUNDIR: nodePaths(plan.dir, node).dir } }, signal),
    agentReady: (node) =>
      until(`the agent of ${node}`, 20_000, async () => (await agentReadiness(nodePaths(plan.dir, node).apiSocket)).ready).then(() => {}),
    remove: async () => {
      api.close();
      await removeLab(plan.dir, signal);
    },
  };
}

/** Polls until a condition is true. @throws Error naming the condition that did not become true in time */
export async function until(what: string, withinMs: number, holds: () => Promise<boolean>): Promise<number> {
  const start = performance.now();
  while (!(await holds())) {
    if (performance.now() - start > withinMs * slowness) throw new Error(`not within ${withinMs} ms: ${what}`);
    await sleep(20);
  }
  return performance.now() - start;
}
