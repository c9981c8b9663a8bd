import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sendMeshEcho } from '../../src/agent/peers/mesh.ts';
import { parseIp } from '../../src/base/net/ip.ts';
import { Mesh } from '../../src/operations/mesh/mesh.ts';
import { generator } from '../support/random.ts';
import type { Measured } from './row.ts';

export const recorderRowNames = ['history.cpu', 'history.rss', 'mesh.cpu'];

const runs = 5;
const seconds = 60;

interface Cost {
  readonly cpuPercent: number;
  readonly rssMiB: number;
}

/** Cost of what records and observes all the time: history at 150 changes of pods a second, and echoes to other nodes. */
export async function recorderRows(print: (text: string) => void): Promise<readonly Measured[]> {
  print('recorder of history at 150 changes a second, and echoes to 5,000 nodes');
  const taken: Record<'on' | 'off', Cost[]> = { on: [], off: [] };
  for (let run = 0; run < runs; run++)
    for (const state of run % 2 === 0 ? (['on', 'off'] as const) : (['off', 'on'] as const)) taken[state].push(costOf(state));
  const idle = taken.off.map(({ cpuPercent }) => cpuPercent).toSorted((a, b) => a - b)[Math.floor(runs / 2)] ?? 0;
  const mesh: number[] = [];
  for (let run = 0; run < runs; run++) mesh.push(await meshPercent());
  return [
    { name: 'history.cpu', unit: '% of a CPU', ours: taken.on.map(({ cpuPercent }) => cpuPercent - idle) },
    {
      name: 'history.rss',
      unit: 'MiB',
      ours: taken.on.map(({ rssMiB }) => rssMiB),
      peer: { name: 'without history', values: taken.off.map(({ rssMiB }) => rssMiB) },
    },
    { name: 'mesh.cpu', unit: '% of a CPU', ours: mesh },
  ];
}

function costOf(state: 'on' | 'off'): Cost {
  const folder = mkdtempSync(join(tmpdir(), 'seine-bench-history-'));
  try {
    const flags = ['--expose-gc', '--max-semi-space-size=8', join(import.meta.dirname, 'recorder-process.ts'), String(seconds)];
    return JSON.parse(execFileSync(process.execPath, [...flags, ...(state === 'on' ? [folder] : [])], { encoding: 'utf8' })) as Cost;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** CPU time of this process, with the kernel's for its packets, for echoes that this host answers, in simulated time. */
async function meshPercent(): Promise<number> {
  const names = Array.from({ length: 5_000 }, (_, at) => `node-${String(at).padStart(4, '0')}`);
  const own = names[17] ?? '';
  const here = parseIp('127.0.0.1');
  const { signal } = new AbortController();
  let [nowMs, asking] = [0, 0];
  const mesh = new Mesh({
    own,
    settings: () => ({ intervalMs: 10_000, peers: 16 }),
    names: () => names,
    ends: () => [{ family: 'ipv4', from: here, to: here }],
    echo: async (...echo) => {
      asking++;
      return await sendMeshEcho(...echo).finally(() => asking--);
    },
    mtu: () => 1_450,
    events: { note: () => undefined },
    observe: () => undefined,
    now: () => nowMs,
    random: generator(45),
  });
  const pass = async (count: number): Promise<void> => {
    for (const untilMs = nowMs + count * 1_000; nowMs < untilMs; nowMs += 200) {
      mesh.step(signal);
      do await new Promise((resolve) => setImmediate(resolve));
      while (asking > 0);
    }
  };
  await pass(200); // code is compiled by the engine
  const before = process.cpuUsage();
  await pass(600);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e4 / 600;
}
