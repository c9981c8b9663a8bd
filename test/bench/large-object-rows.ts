import { readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { agentProcess } from '../../lab/node/agent.ts';
import { AgentMemoryLimit } from '../support/agent-memory-limit.ts';
import { largestWrites } from '../support/largest-objects.ts';
import { untilSettled } from './agent-rows.ts';
import { BenchLab, until } from './bench-lab.ts';
import { nodeManifest } from './cluster-fill.ts';
import { openOurs } from './cni-rows.ts';
import { noteHolds } from './loop-rows.ts';
import type { Measured } from './row.ts';
import type { SceneOptions } from './scenes.ts';

export const largeObjectRowNames = ['large.hold.max', 'large.change.max', 'large.add.max', 'large.memory'] as const;

/** Memory limit of the manifest. */
const limitBytes = 1024 ** 3;
const settledMs = 180_000;
const signal = new AbortController().signal;

/**
 * The largest objects that an API server stores, one after another, on an agent with the manifest's limit of memory. After each: the
 * longest turn of the event loop (CPU time of its thread), the slowest ADD and the slowest change of another Service until OVS has it.
 */
export async function largeObjects({ selected, print }: SceneOptions): Promise<readonly Measured[]> {
  print('the largest objects that an API server stores');
  const holds = join(tmpdir(), `seine-large-holds-${process.pid}`);
  const takeBack = noteHolds(holds);
  const limit = new AgentMemoryLimit(limitBytes);
  const lab = await BenchLab.start({ families: ['ipv4'], journal: 'memory' });
  try {
    await untilSettled(lab);
    const seen = await withEach(lab, holds, print);
    const pid = agentProcess(lab.plan, lab.node)?.pid;
    if (pid === undefined) throw new Error('the agent was killed');
    const mebibytes = limit.peakBytes(pid) / 1024 ** 2;
    const most = (of: 'hold' | 'change' | 'add'): number => Math.max(...seen.map((each) => each[of]));
    const rows: Measured[] = [
      { name: 'large.hold.max', unit: 'ms', ours: [most('hold')] },
      { name: 'large.change.max', unit: 'ms', ours: [most('change')] },
      { name: 'large.add.max', unit: 'ms', ours: [most('add')] },
      { name: 'large.memory', unit: 'MiB', ours: [mebibytes] },
    ];
    return rows.filter(({ name }) => selected(name));
  } finally {
    takeBack();
    await lab.remove();
    limit.end();
    rmSync(holds, { force: true });
  }
}

interface Meanwhile {
  readonly hold: number;
  readonly change: number;
  readonly add: number;
}

async function withEach(lab: BenchLab, holds: string, print: SceneOptions['print']): Promise<readonly Meanwhile[]> {
  await post(lab, '/api/v1/nodes', nodeManifest(1));
  await post(lab, services, serviceAt(1));
  const side = openOurs(lab, { isHurried: true });
  side.prepare(lab, 4);
  await side.add(1, 1);
  await side.del(1, 1);
  const seen: Meanwhile[] = [];
  let port = 1;
  for (const { name, method, path, body, contentType } of largestWrites('default', 'peer-1')) {
    const startedMs = Date.now();
    await lab.api.send({ method, path, ...(body && { body }), ...(contentType && { contentType }) }, signal);
    const [changes, adds]: [number[], number[]] = [[], []];
    let over = false;
    const settled = untilSettled(lab).finally(() => (over = true));
    settled.catch(() => undefined); // awaited below
    while (!over || changes.length === 0) {
      changes.push(await changeOther(lab, ++port));
      adds.push(...(await side.add(1, 1)).each);
      await side.del(1, 1);
    }
    await settled;
    await sleep(1_100); // the second in which the last turn was recorded
    const hold = longestSince(holds, startedMs);
    const result = { hold, change: Math.max(...changes), add: Math.max(...adds) };
    print(
      `  ${name}: held ${hold.toFixed(0)} ms, a change ${result.change.toFixed(0)} ms, an ADD ${result.add.toFixed(0)} ms, ${Date.now() - startedMs} ms in all`,
    );
    seen.push(result);
  }
  await side.stop();
  return seen;
}

const services = '/api/v1/namespaces/default/services';

async function post(lab: BenchLab, path: string, body: object): Promise<void> {
  await lab.api.send({ method: 'POST', path, body }, signal);
}

function serviceAt(port: number) {
  return { apiVersion: 'v1', kind: 'Service', metadata: { name: 'other' }, spec: { ports: portsAt(port) } };
}

function portsAt(port: number): readonly object[] {
  return [{ name: 'http', port, protocol: 'TCP', targetPort: 80 }];
}

/** @returns duration until OVS had it (ms) */
async function changeOther(lab: BenchLab, port: number): Promise<number> {
  const contentType = 'application/merge-patch+json';
  const change = { method: 'PATCH', path: `${services}/other`, body: { spec: { ports: portsAt(port) } }, contentType } as const;
  const { spec } = (await lab.api.send(change, signal)) as { readonly spec: { readonly clusterIP: string } };
  const which = `tcp,nw_dst=${spec.clusterIP},tp_dst=${port}`;
  return await until(
    async () => (await lab.exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', which)).includes('nw_dst='),
    settledMs,
    `port ${port} of another Service`,
  );
}

function longestSince(file: string, sinceMs: number): number {
  const seconds = readFileSync(file, 'utf8').split('\n').filter(Boolean);
  const parsed = seconds.map((line) => JSON.parse(line) as { readonly atMs: number; readonly held: readonly number[] });
  return Math.max(0, ...parsed.filter(({ atMs }) => atMs >= sinceMs).flatMap(({ held }) => held));
}
