import { setTimeout as sleep } from 'node:timers/promises';
import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { type BenchLab, until } from './bench-lab.ts';
import { nodeManifest } from './cluster-fill.ts';
import type { CniSide } from './cni-side.ts';
import type { Measured } from './row.ts';

export const agentRowNames = ['agent.ready', 'agent.restart.flowmods', 'agent.rss.idle'] as const;

const restarts = 7;
/** Idle time of an agent before its memory is measured (ms). */
const idleMs = 20_000;

/** Restarts with a few pods: time until it serves, writes although nothing has changed, and memory. */
export async function agentRows(lab: BenchLab, selected: (name: string) => boolean): Promise<Measured[]> {
  const { readyMs, flowMods } = await timeRestarts(lab, restarts);
  const rows: Measured[] = [
    { name: 'agent.ready', unit: 'ms', ours: readyMs },
    { name: 'agent.restart.flowmods', unit: 'messages', ours: flowMods },
  ];
  if (selected('agent.rss.idle')) rows.push({ name: 'agent.rss.idle', unit: 'MiB', ours: await restingMemory(lab) });
  return rows.filter(({ name }) => selected(name));
}

/** Stops and starts the agent, with nothing changed: time until it serves, and writes all the same. */
export async function timeRestarts(lab: BenchLab, runs: number): Promise<{ readonly readyMs: number[]; readonly flowMods: number[] }> {
  const readyMs: number[] = [];
  const flowMods: number[] = [];
  for (let run = 0; run < runs; run++) {
    await lab.agent('stop');
    const startedMs = performance.now();
    await lab.agent('start');
    await lab.untilReady();
    readyMs.push(performance.now() - startedMs);
    await untilSettled(lab);
    const counts = await Promise.all(['flow', 'group'].map((kind) => lab.metric('ovs_flow_ops_count', { kind })));
    flowMods.push(counts.reduce((all, count) => all + count, 0));
  }
  return { readyMs, flowMods };
}

/** Memory of an idle agent. */
export async function restingMemory(lab: BenchLab): Promise<readonly number[]> {
  await sleep(idleMs);
  const samples: number[] = [];
  for (let sample = 0; sample < 5; sample++) {
    samples.push(lab.residentMemory());
    await sleep(200);
  }
  return samples;
}

/** Memory that remains after this number of pods was created and deleted. */
export async function busyMemory(lab: BenchLab, side: CniSide, pods: number): Promise<readonly number[]> {
  for (let done = 0; done < pods; done += 20) {
    await side.add(20, 4);
    await side.del(20, 4);
  }
  return await restingMemory(lab);
}

const kinds = ['Node', 'Service', 'EndpointSlice', 'NetworkPolicy'];

const parts = ['switch', 'bridge', 'host', 'firewall'];

/** The whole desired state is on the node, and every source is synced. */
export async function untilSettled(lab: BenchLab, withinMs = 120_000): Promise<void> {
  await until(() => isSettled(lab), withinMs, 'the agent to settle');
}

export async function isSettled(lab: BenchLab): Promise<boolean> {
  const metric = await lab.metrics();
  const synced = kinds.every((kind) => metric('source_synced', { kind }) === 1);
  return synced && parts.every((part) => metric('unrealized_revisions', { part }) === 0);
}

/** Time from the creation of one more Node until the bridge sends packets for its pods. */
export async function joinRow(lab: BenchLab, known: number): Promise<Measured> {
  const ours: number[] = [];
  for (let run = 1; run <= 7; run++) {
    const node = nodeManifest(known + run);
    const cidr = `100.${64 + ((known + run) >> 8)}.${(known + run) & 0xff}.0/24`;
    const filter = `table=${tables.route.id},ip,nw_dst=${cidr}`;
    const startedMs = performance.now();
    await lab.api.send({ method: 'POST', path: '/api/v1/nodes', body: node }, AbortSignal.timeout(10_000));
    const isThere = async () => (await lab.exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', filter)).includes('nw_dst=');
    await until(isThere, 10_000, `a flow to ${cidr}`);
    ours.push(performance.now() - startedMs);
  }
  return { name: 'node.join5000', unit: 'ms', ours };
}
