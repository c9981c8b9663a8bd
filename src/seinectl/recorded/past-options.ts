import type { Command } from 'commander';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { AgentClient } from '../agent-client.ts';
import { safeLine } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import { type OutputForm, print } from '../output.ts';
import type { Terminal } from '../terminal.ts';
import { timeOption } from '../time-option.ts';

export interface PastFlags {
  /** Time (ms since the epoch). */
  readonly at?: number;
  readonly bundle?: string | undefined;
}

/** Adds the options of {@link PastFlags}. */
export function addPastOptions(command: Command): Command {
  return command
    .option('--at <time>', 'at this time, as far as it was recorded: 90s, 30m or 2h ago, or a time (RFC 3339)', timeOption)
    .option('--bundle <file>', 'with --at: history in this archive of seinectl collect, or folder');
}

interface PastQuestion {
  /** `namespace/name`. */
  readonly name: string;
  readonly at: number;
  readonly bundle: string | undefined;
  readonly output: OutputForm;
}

/** Prints a pod as it was at a time. @returns the exit code. @throws SeineError like `podAt` */
export async function printPastPod(
  what: 'policy' | 'explain',
  agent: AgentClient,
  { name, at, bundle, output }: PastQuestion,
  terminal: Terminal,
): Promise<number> {
  // Compilers are loaded on use: all other commands start faster without them.
  const { pastPodLines, pastPolicyLines, podAt } = await import('./pod-at.ts');
  const { agentSource, fileSource } = await import('./recorded-source.ts');
  const pod = await podAt(bundle === undefined ? agentSource(agent) : await fileSource(bundle), name, at);
  if (output === 'json' || output === 'yaml') print(terminal, pod, output);
  else for (const line of what === 'policy' ? pastPolicyLines(pod) : pastPodLines(pod)) terminal.line(safeLine(line));
  if (what === 'explain') return exitCodes.ok;
  return pod.ingress.state === 'closed' || pod.egress.state === 'closed' ? exitCodes.different : exitCodes.ok;
}

/** `--bundle` alone would silently ask the agent about now. @throws SeineError `INVALID_INPUT` */
export function checkPast({ at, bundle }: PastFlags): void {
  if (bundle !== undefined && at === undefined) throw new SeineError('INVALID_INPUT', `--bundle: ${bundle} needs --at TIME`);
}
