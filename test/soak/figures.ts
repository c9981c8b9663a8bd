import { readdirSync, readFileSync } from 'node:fs';

/** Resources of a process at one moment. */
export interface ProcessFigures {
  readonly pid: number;
  readonly descriptors: number;
  readonly threads: number;
  /** Resident memory, MiB. */
  readonly rssMib: number;
}

export function figuresOf(pid: number): ProcessFigures {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const number = (key: string): number => Number(new RegExp(`^${key}:\\s+(\\d+)`, 'm').exec(status)?.[1]);
  return {
    pid,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    threads: number('Threads'),
    rssMib: Math.round(number('VmRSS') / 102.4) / 10,
  };
}

/** Maximum rise of a figure from the first idle moment to the last; more counts as a leak. */
const allowed = { descriptors: 8, threads: 4, rssRatio: 1.3, rssMib: 24 } as const;

/** One sentence for each figure that has risen. */
export function risen(what: string, first: ProcessFigures, last: ProcessFigures): readonly string[] {
  const found: string[] = [];
  if (last.descriptors > first.descriptors + allowed.descriptors)
    found.push(`${what}: descriptors rose from ${first.descriptors} to ${last.descriptors}`);
  if (last.threads > first.threads + allowed.threads) found.push(`${what}: threads rose from ${first.threads} to ${last.threads}`);
  if (last.rssMib > first.rssMib * allowed.rssRatio + allowed.rssMib)
    found.push(`${what}: memory rose from ${first.rssMib} to ${last.rssMib} MiB`);
  return found;
}
