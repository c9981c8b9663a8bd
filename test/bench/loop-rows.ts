import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { HealthCheckStatus } from '../../src/api/problem.ts';
import type { AgentStatus } from '../../src/api/status.ts';
import type { BenchLab } from './bench-lab.ts';
import type { Measured } from './row.ts';

/** Long enough for a few sweeps of a bridge that takes a second. */
const watchMs = 150_000;
const pollMs = 500;

export const loopRowNames = ['loop.look10k', 'loop.round10k', 'loop.hold10k.p99', 'loop.hold10k.max'];

/** Sets the variables by which the agents of a lab that is started now record how long their loops are blocked. @returns resets them */
export function noteHolds(file: string): () => void {
  const before = process.env['NODE_OPTIONS'];
  process.env['NODE_OPTIONS'] = `--import=${join(import.meta.dirname, 'hold-probe.ts')}`;
  process.env['SEINE_HOLDS'] = file;
  return () => {
    delete process.env['SEINE_HOLDS'];
    if (before === undefined) delete process.env['NODE_OPTIONS'];
    else process.env['NODE_OPTIONS'] = before;
  };
}

interface SeenCheck {
  readonly beganMs: number;
  readonly tookMs: number;
}

/**
 * An idle agent that only runs its sweeps: duration of a sweep of the bridge, time between two of them, and the longest turn of the event
 * loop meanwhile.
 */
export async function loopRows(lab: BenchLab, holds: string, print: (text: string) => void): Promise<readonly Measured[]> {
  print('  looks at the bridge, and turns of the event loop');
  const looks = await bridgeChecks(lab);
  const rounds = looks.slice(1).map(({ beganMs }, at) => (beganMs - (looks[at]?.beganMs ?? 0)) / 1_000);
  const { held, collected } = holdsDuring(looks, holds);
  const p99 = held[Math.ceil(held.length * 0.99) - 1] ?? Number.NaN;
  print(
    `  ${looks.length} looks, ${held.length} turns of a millisecond or more while they were taken; the longest: ${held.slice(-10).join(', ')} ms`,
  );
  print(`  collections of garbage, the longest: ${collected.slice(-10).join(', ')} ms`);
  return [
    { name: 'loop.look10k', unit: 'ms', ours: looks.map(({ tookMs }) => tookMs) },
    { name: 'loop.round10k', unit: 's', ours: rounds },
    { name: 'loop.hold10k.p99', unit: 'ms', ours: [p99] },
    { name: 'loop.hold10k.max', unit: 'ms', ours: [held.at(-1) ?? Number.NaN] },
  ];
}

async function bridgeChecks(lab: BenchLab): Promise<readonly SeenCheck[]> {
  const seen: SeenCheck[] = [];
  const endMs = Date.now() + watchMs;
  while (Date.now() < endMs) {
    const status: AgentStatus = await lab.status();
    const look = status.healthChecks?.find(({ name }) => name === 'bridge');
    if (look !== undefined) note(seen, look);
    await sleep(pollMs);
  }
  return seen;
}

function note(seen: SeenCheck[], { ageSeconds, tookMs }: HealthCheckStatus): void {
  if (ageSeconds === null || tookMs === null) return;
  const beganMs = Date.now() - ageSeconds * 1_000;
  // The age is rounded to a tenth of a second, and the answer took time.
  if (beganMs - (seen.at(-1)?.beganMs ?? 0) > 2_000) seen.push({ beganMs, tookMs });
}

interface NotedSecond {
  readonly atMs: number;
  readonly held: readonly number[];
  readonly collected: readonly number[];
}

/** The first sweep may have been before anything was recorded. */
function holdsDuring(looks: readonly SeenCheck[], file: string): Readonly<Record<'held' | 'collected', readonly number[]>> {
  if (!existsSync(file)) throw new Error(`no agent has written ${file}`);
  const seconds = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as NotedSecond);
  const isWithin = (atMs: number): boolean => looks.some(({ beganMs, tookMs }) => atMs > beganMs && atMs - 1_000 < beganMs + tookMs);
  const within = seconds.filter(({ atMs }) => isWithin(atMs));
  const sorted = (values: readonly number[]): readonly number[] => values.toSorted((a, b) => a - b);
  return { held: sorted(within.flatMap(({ held }) => held)), collected: sorted(within.flatMap(({ collected }) => collected)) };
}
