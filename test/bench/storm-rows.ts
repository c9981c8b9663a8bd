import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { askControl } from '../../lab/daemon/control.ts';
import { labPaths } from '../../lab/plan/names.ts';
import { forgetHistory } from '../support/api-backup.ts';
import { isSettled, untilSettled } from './agent-rows.ts';
import { BenchLab, until } from './bench-lab.ts';
import { openOurs } from './cni-rows.ts';
import type { CniSide } from './cni-side.ts';
import type { Measured } from './row.ts';
import type { SceneOptions } from './scenes.ts';

export const stormRowNames = ['cni.add.storm5000.p99', 'agent.lag.storm5000'] as const;

const peers = 5_000;
/** Number of ADDs that take longer than the two minutes for which the agent remembers its start-up delay. */
const quietAdds = 700;
/** Time after which every watch has ended and started again. */
const relistMs = 3_000;
const checkMs = 250;
const nodeStorm = join(import.meta.dirname, 'node-storm.ts');

/**
 * Pods start while 5,000 nodes join at once, a hundred a second are deleted and recreated, and the whole list of 32 MB is read again. The
 * journal is in memory: a shared disk takes a second for one write of a thousand, and the slowest pods would measure nothing else.
 */
export async function stormOfPeers({ selected, print }: SceneOptions): Promise<readonly Measured[]> {
  print(`a node whose cluster grows by ${peers} nodes while pods start`);
  const lab = await BenchLab.start({ families: ['ipv4', 'ipv6'], journal: 'memory' });
  try {
    await untilSettled(lab);
    const side = openOurs(lab, { isHurried: true });
    side.prepare(lab, 10);
    const quiet = await addsUntil(side, (done) => done >= quietAdds);
    let over = false;
    const storm = (async () => {
      await clusterDoes(lab, 'join');
      print(`  ${await lab.metric('peer_count')} peers`);
      await clusterDoes(lab, 'flap');
      await relist(lab);
    })().finally(() => (over = true));
    storm.catch(() => undefined); // handled below, once the pod in progress exists: the lab must be removed
    const stormy = await addsUntil(side, () => over);
    await storm;
    const lag = await lab.lagMsMax();
    print(`  ${stormy.length} pods started meanwhile; the agent was up to ${lag} ms late`);
    await side.stop();
    const rows: Measured[] = [
      { name: 'cni.add.storm5000.p99', unit: 'ms', ours: [p99(stormy)], peer: { name: 'seine when all is quiet', values: [p99(quiet)] } },
      { name: 'agent.lag.storm5000', unit: 'ms', ours: [lag] },
    ];
    return rows.filter(({ name }) => selected(name));
  } finally {
    await lab.remove();
  }
}

async function addsUntil(side: CniSide, isOver: (done: number) => boolean): Promise<number[]> {
  const each: number[] = [];
  while (!isOver(each.length)) {
    each.push(...(await side.add(1, 1)).each);
    await side.del(1, 1);
  }
  return each;
}

/** Runs it in its own session, with a lower priority than the node's processes. */
async function clusterDoes(lab: BenchLab, verb: 'join' | 'flap'): Promise<void> {
  const source = spawn(process.execPath, [nodeStorm, lab.plan.dir, verb], { detached: true, stdio: ['ignore', 'inherit', 'inherit'] });
  const [code] = await once(source, 'close');
  if (code !== 0) throw new Error(`${nodeStorm} ended with ${code}`);
}

/** An API server that returns without its history: every watch ends, and everything is listed again. */
async function relist(lab: BenchLab): Promise<void> {
  const { control } = labPaths(lab.plan.dir);
  await askControl(control, 'POST', '/apiserver/stop');
  forgetHistory(lab.plan);
  await askControl(control, 'POST', '/apiserver/start');
  await sleep(relistMs);
  await until(() => settledNow(lab), 120_000, 'the agent to settle');
}

/** Checked rarely: each check costs the agent CPU time. */
async function settledNow(lab: BenchLab): Promise<boolean> {
  await sleep(checkMs);
  return await isSettled(lab);
}

function p99(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.99))] ?? 0;
}
