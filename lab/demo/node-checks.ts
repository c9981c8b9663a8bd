import { setTimeout as sleep } from 'node:timers/promises';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { askControl } from '../daemon/control.ts';
import { run } from '../machine/process.ts';
import { agentReadiness } from '../node/agent.ts';
import { labPaths, nodePaths } from '../plan/names.ts';
import { pingStream } from './ping-stream.ts';
import { type DemoCheck, demoPod, meshPods, type Scene, type Verdict } from './scene.ts';

/** A second or two natively; far longer on an emulated host that is busy with our own packets. */
const restartDeadlineMs = 180_000;
const readyPollMs = 20;
const aroundMs = 500;
/**
 * Packets a second on each path, unless the scene sets it. The kernel's data path is mostly tested in emulation, where a higher rate would
 * starve the agent.
 */
const pingHertz = { netdev: 1000, system: 20 };

/** Checks of nodes and agents. */
export function nodeChecks(scene: Scene): DemoCheck[] {
  return [
    // Real runtimes run no CHECK.
    ...(scene.plan.kubernetes === undefined ? [{ name: 'cni.check', run: () => cniCheck(scene) }] : []),
    { name: 'agent.restart-lossless', run: (signal) => restartLossless(scene, signal) },
    { name: 'flows.by-table', run: (signal) => flowsByTable(scene, signal) },
  ];
}

/** Runs the plugins' own CHECK for every pod that has its own network. */
async function cniCheck(scene: Scene): Promise<Verdict> {
  const { control } = labPaths(scene.plan.dir);
  const pods = meshPods(scene);
  const problems = await Promise.all(
    pods.map(async ({ namespace, name }) => {
      try {
        await askControl(control, 'POST', `/pods/${namespace}/${name}/check`);
        return [];
      } catch (error) {
        return [`${name}: ${error instanceof Error ? error.message : String(error)}`];
      }
    }),
  );
  const failed = problems.flat();
  return { ok: failed.length === 0, detail: failed.length === 0 ? `${pods.length} of ${pods.length} pods` : failed.slice(0, 4).join('; ') };
}

/** A stream of packets through the node whose agent is restarted, on the node and to another one. */
async function restartLossless(scene: Scene, signal: AbortSignal): Promise<Verdict> {
  const { plan } = scene;
  const [node] = plan.nodes;
  if (node === undefined) throw new SeineError('INVARIANT', 'a lab has nodes');
  const client = demoPod(scene, 'client', 1);
  const targets = [demoPod(scene, 'web', 1), ...(plan.nodes.length > 1 ? [demoPod(scene, 'web', 2)] : [])];
  const stopping = new AbortController();
  const hertz = scene.pings ?? pingHertz[plan.datapath];
  const streams = targets.flatMap(({ ips }) => ips).map((ip) => pingStream(client.netns, ip, hertz, stopping.signal));
  await sleep(aroundMs);
  const start = performance.now();
  let problem: string | undefined;
  try {
    await restart(scene, node.name, signal);
  } catch (error) {
    problem = error instanceof Error ? error.message : String(error);
  }
  const restartMs = Math.round(performance.now() - start);
  await sleep(aroundMs);
  stopping.abort();
  const counts = await Promise.all(streams);
  const [sent, lost] = [sum(counts.map((one) => one.sent)), sum(counts.map((one) => one.lost))];
  const detail = `${lost} of ${sent} packets lost on ${counts.length} paths, ready again after ${restartMs} ms`;
  return {
    ok: problem === undefined && lost === 0 && counts.every((one) => one.sent > 0),
    detail: problem === undefined ? detail : `${problem}; ${detail}`,
  };
}

async function restart({ plan }: Scene, node: string, signal: AbortSignal): Promise<void> {
  const { control } = labPaths(plan.dir);
  await askControl(control, 'POST', `/agents/${node}/stop`);
  await askControl(control, 'POST', `/agents/${node}/start`);
  const deadline = performance.now() + restartDeadlineMs;
  for (;;) {
    const { ready, says } = await agentReadiness(nodePaths(plan.dir, node).apiSocket);
    if (ready) return;
    if (performance.now() > deadline) throw new SeineError('UNAVAILABLE', `the agent is not ready again: ${says}`);
    await sleep(readyPollMs, undefined, { signal });
  }
}

/** Checks that every node has flows, in tables that have names. */
async function flowsByTable({ plan, status }: Scene, signal: AbortSignal): Promise<Verdict> {
  const nodes = await Promise.all(status.nodes.map(async ({ name, rundir }) => ({ name, tables: await countFlows(rundir, signal) })));
  const [first] = nodes;
  const named = nodes.every(({ tables }) => tables.size > 0 && [...tables.keys()].every((table) => !/^\d+$/.test(table)));
  const totals = nodes.map(({ name, tables }) => `${name}: ${sum([...tables.values()])}`).join(', ');
  const tables = [...(first?.tables ?? [])].map(([table, flows]) => `${table} ${flows}`).join(', ');
  return { ok: named && nodes.length === plan.nodes.length, detail: `${totals}; ${first?.name}: ${tables}` };
}

async function countFlows(rundir: string, signal: AbortSignal): Promise<Map<string, number>> {
  const args = ['-O', 'OpenFlow15', '--names', '--no-stats', 'dump-flows', 'br-int'];
  const dump = await run('ovs-ofctl', args, { env: { OVS_RUNDIR: rundir } }, signal);
  const counts = new Map<string, number>();
  for (const line of dump.split('\n')) {
    if (!line.includes('actions=')) continue;
    const table = /\btable=([^,\s]+)/.exec(line)?.[1] ?? 'classify';
    counts.set(table, (counts.get(table) ?? 0) + 1);
  }
  return counts;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
