import { statSync } from 'node:fs';
import type { Command } from 'commander';
import { seineVersion } from '../../api/version.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type HistoryLine, readHistory } from '../../operations/history/read-segments.ts';
import { type Replayed, replay } from '../../operations/history/replay.ts';
import { readArchive } from '../../operations/support-bundle/archive.ts';
import { historyInputsName } from '../../operations/support-bundle/history-files.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import { type OutputForm, outputOption, print } from '../output.ts';
import type { Terminal } from '../terminal.ts';
import { timeOption } from '../time-option.ts';
import { count } from '../words.ts';

interface ReplayContext {
  readonly terminal: Terminal;
  /** Called with the exit code. */
  readonly exitWith: (work: Promise<number>) => Promise<void>;
}

interface ReplayFlags {
  /** Milliseconds since the epoch. */
  readonly from?: number;
  readonly to?: number;
  readonly output: OutputForm;
}

const help = `
Agents record the inputs of the compilers of flows: all of them each hour, and each second those that changed, with a digest of the entries that the
agent wanted. This command compiles each record again, without a node, and compares the digests. A difference is a defect of the agent, or another
release: it names the first owner.

Examples:
  seinectl replay seine-node-1-20310507T140510Z.tar.gz
  seinectl replay /var/lib/seine/history --from 2h

Exit codes: 0 all digests are equal; 1 one differs; 2 the bundle is invalid, or has no record of this time.`;

/** Adds `seinectl replay`. */
export function addReplay(root: Command, { terminal, exitWith }: ReplayContext): void {
  root
    .command('replay')
    .description('compile the recorded inputs of a node again, and compare them with what the agent wanted (exit 1 if they differ)')
    .argument('<bundle>', 'an archive of seinectl collect, or a folder of history')
    .option('--from <time>', 'beginning: 90s, 30m, 2h or 3d ago, or a time (RFC 3339)', timeOption)
    .option('--to <time>', 'end, in the same forms', timeOption)
    .addOption(outputOption(['table', 'json', 'yaml']))
    .addHelpText('after', help)
    .action((bundle: string, flags: ReplayFlags) => exitWith(replayed(bundle, flags, terminal)));
}

async function replayed(
  bundle: string,
  { from = 0, to = Number.MAX_SAFE_INTEGER, output }: ReplayFlags,
  terminal: Terminal,
): Promise<number> {
  const startedMs = performance.now();
  let result: Replayed;
  try {
    result = await replay(recordedLines(bundle), { fromMs: from, untilMs: to });
  } catch (thrown) {
    const error = SeineError.from(thrown, 'replay');
    if (error.code === 'UNAVAILABLE') throw new SeineError('INVALID_INPUT', `${bundle}: ${error.rawMessage}`, { cause: thrown });
    throw thrown;
  }
  if (output === 'json' || output === 'yaml') print(terminal, viewOf(result), output);
  else for (const line of linesOf(result, performance.now() - startedMs)) terminal.line(safeLine(line));
  return result.difference === undefined ? exitCodes.ok : exitCodes.different;
}

/** Lines of a folder, or of the part of an archive. @throws SeineError `INVALID_INPUT` */
async function* recordedLines(bundle: string): AsyncGenerator<HistoryLine> {
  const found = statSync(bundle, { throwIfNoEntry: false });
  if (found === undefined) throw new SeineError('INVALID_INPUT', `${bundle} does not exist`);
  if (found.isDirectory()) {
    yield* readHistory(bundle, 'inputs', { fromMs: 0, untilMs: Number.MAX_SAFE_INTEGER });
    return;
  }
  const files = await readArchive(bundle, (name) => name === historyInputsName);
  const bytes = files.get(historyInputsName);
  if (bytes === undefined) throw new SeineError('INVALID_INPUT', `${bundle} has no ${historyInputsName}: its agent recorded no history`);
  for (const text of Buffer.from(bytes).toString('utf8').split('\n')) {
    if (text === '') continue;
    let line: unknown;
    try {
      line = JSON.parse(text);
    } catch {
      return; // the part was cut off
    }
    if (typeof line === 'object' && line !== null) yield line as HistoryLine;
  }
}

const timeOf = (ms: number | undefined): string | null => (ms === undefined ? null : new Date(ms).toISOString());

function viewOf({ firstMs, lastMs, difference, ...rest }: Replayed): object {
  return {
    ...rest,
    from: timeOf(firstMs),
    to: timeOf(lastMs),
    ...(difference
      ? {
          difference: {
            time: timeOf(difference.atMs),
            owner: difference.owner,
            recorded: difference.recorded,
            compiled: difference.compiled,
          },
        }
      : {}),
  };
}

function linesOf({ node, seine, rounds, compared, firstMs, lastMs, difference }: Replayed, tookMs: number): string[] {
  const recordedMs = firstMs !== undefined && lastMs !== undefined ? lastMs - firstMs : 0;
  const faster = recordedMs > 0 ? `, ${Math.round(recordedMs / tookMs)} times faster than recorded` : '';
  const head = `${node}: ${count(rounds, 'record')} from ${timeOf(firstMs) ?? 'never'} to ${timeOf(lastMs) ?? 'never'}, ${count(compared, 'digest')} compared${faster}`;
  const other = seine === seineVersion ? [] : [`recorded by Seine ${seine}; this is ${seineVersion}, and may compile otherwise`];
  if (!difference) return [head, ...other, 'All digests are equal.'];
  const { atMs, owner, recorded, compiled } = difference;
  return [
    head,
    ...other,
    `First difference at ${timeOf(atMs)}: ${owner} had the digest ${recorded}, and its inputs compile to ${compiled}.`,
  ];
}
