import { appendFileSync, readFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { run } from './host.ts';
import { root } from './lab.ts';
import type { RunOptions, StepReport } from './run.ts';
import { drawnKinds } from './steps/all.ts';
import { type Chunk, count, type Ground, readChunks, sum } from './tally.ts';

/** Facts of a run that are known at its start. */
export type Beginning = Pick<Chunk, 'began' | 'commit' | 'ground'>;

export async function begin(ground: Ground): Promise<Beginning> {
  return { began: new Date().toISOString(), commit: await commit(), ground };
}

/** Adds a run to a file of results. */
export function addChunk(file: string, options: RunOptions, beginning: Beginning, done: readonly StepReport[], isWhole: boolean): void {
  const counted = count(done);
  if (counted === undefined) return;
  const { seed, kind, changesMost, hertz, patience } = options;
  const asked = { ...(kind !== undefined && { only: kind }), ...(changesMost !== undefined && { changesMost }) };
  const ended = done.at(-1)?.problems.length !== 0 ? 'difference' : isWhole ? 'held' : 'error';
  const load = Number((loadavg()[0] ?? 0).toFixed(1));
  const chunk: Chunk = { seed, ...asked, ...counted, ended, hertz, patience, load, ...beginning };
  appendFileSync(file, `${JSON.stringify(chunk)}\n`);
}

/** Summary of the results in these files, in lines. */
export function sumOf(files: readonly string[]): readonly string[] {
  const chunks = files.flatMap((file) => readChunks(file, readFileSync(file, 'utf8')));
  return sum(
    chunks,
    drawnKinds.map(({ name }) => name),
  );
}

/** Commit of the sources, with a `+` if they were changed. */
async function commit(): Promise<string> {
  try {
    const [head, changed] = await Promise.all([
      run('git', ['-C', root, 'rev-parse', '--short', 'HEAD']),
      run('git', ['-C', root, 'status', '--porcelain', '--untracked-files=no', '--', 'src', 'lab', 'test']),
    ]);
    return `${head.trim()}${changed === '' ? '' : '+'}`;
  } catch {
    return 'none';
  }
}
