import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { slowness } from './test-datapath.ts';

interface Attempts {
  readonly protocol: 'tcp' | 'udp';
  readonly address: string;
  readonly port: number;
  /** Seconds for which each attempt may wait for its end. */
  readonly seconds?: number;
  readonly count?: number;
  /** Attempts per second; absent: one after another. */
  readonly rate?: number;
}

/** End of an attempt: `connected`, `answered`, `silent`, or the name of an error; and its duration (ms). */
export type AttemptEnd = readonly [end: string, ms: number | null];

/** Opens connections from a network namespace, without blocking this process. */
export async function attempts(
  netns: string,
  { protocol, address, port, seconds = 5 * slowness, count = 1, rate = 0 }: Attempts,
): Promise<readonly AttemptEnd[]> {
  const script = join(import.meta.dirname, 'attempts.py');
  const command = ['python3', script, protocol, address, `${port}`, `${seconds}`, `${count}`, `${rate}`];
  const { stdout } = await promisify(execFile)('nsenter', [`--net=/run/netns/${netns}`, ...command], { maxBuffer: 2 ** 26 });
  return JSON.parse(stdout);
}
