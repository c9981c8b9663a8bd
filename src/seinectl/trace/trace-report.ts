import { setTimeout } from 'node:timers/promises';
import { differsInResult, type PathMeaning, type WholeTrace } from '../../operations/path/whole-trace.ts';
import { safeText } from '../escape.ts';
import { type OutputForm, print } from '../output.ts';
import type { Terminal } from '../terminal.ts';
import { differsFromPacket } from './probe-path.ts';
import { traceLines } from './trace-lines.ts';

export interface TraceFlags {
  readonly family?: 'ipv4' | 'ipv6';
  readonly sourcePort?: string;
  readonly established?: true;
  readonly node?: true;
  /** Node that a packet from outside enters. */
  readonly via?: string;
  readonly probe?: true;
  readonly connect?: true;
  /** Prints the answer of this node's agent, for `seinectl` on another host. */
  readonly raw?: true;
  readonly bundle?: readonly string[];
  /** Time in the past (ms since the epoch). */
  readonly at?: number;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace: string;
  readonly output: OutputForm;
}

/** Exit codes of `seinectl trace`; scripts rely on these. */
export const traceExitCodes = { allowed: 0, denied: 1, usage: 2, incomplete: 3, disagree: 4 } as const;

/** Time after which a difference that remains is no change in progress (ms). */
const CHANGE_MS = 2_000;

/** Reads again after a moment if verdicts differ: a change may be in progress. */
export async function unlessPassing<T>(read: () => Promise<T>, codeOf: (read: T) => number): Promise<T> {
  const first = await read();
  if (codeOf(first) !== traceExitCodes.disagree) return first;
  await setTimeout(CHANGE_MS);
  return await read();
}

/** Prints traces. @param meanings verdicts of the API objects, by trace and path; empty if not asked. @returns the exit code */
export function report(
  traces: readonly WholeTrace[],
  meanings: readonly (readonly (PathMeaning | undefined)[])[],
  form: OutputForm,
  terminal: Terminal,
): number {
  if (form === 'json' || form === 'yaml')
    print(
      terminal,
      { traces: traces.map((trace, at) => (trace.at ? pastTrace(trace) : { ...trace, meanings: meanings[at] ?? [] })) },
      form,
    );
  else
    for (const [at, trace] of traces.entries()) {
      if (at > 0) terminal.line('');
      for (const line of traceLines(trace, meanings[at] ?? [], form === 'wide', terminal.room)) terminal.line(safeText(line));
    }
  return exitCodeOf(traces, meanings);
}

/** Trace of the past for programs: without the verdicts that are not known. */
function pastTrace({ paths, ...trace }: WholeTrace): object {
  const known = paths.map(({ bridge: _, segments, ...path }) => ({
    ...path,
    segments: segments.map(({ bridge: _bridge, ...segment }) => segment),
  }));
  return { ...trace, paths: known };
}

/** Returns the exit code: the gravest of all paths. */
export function exitCodeOf(traces: readonly WholeTrace[], meanings: readonly (readonly (PathMeaning | undefined)[])[]): number {
  const all = traces.flatMap(({ paths }, trace) => paths.map((path, at) => ({ ...path, meaning: meanings[trace]?.[at] })));
  const differs = all.some(
    (path) =>
      path.segments.some(({ difference }) => difference) ||
      differsInResult(path) ||
      (path.meaning !== undefined && path.bridge !== 'unknown' && path.meaning.verdict !== path.bridge) ||
      path.meaning?.unchosen !== undefined,
  );
  if (differs || traces.some(differsFromPacket)) return traceExitCodes.disagree;
  if (all.some(({ verdict }) => verdict === 'denied')) return traceExitCodes.denied;
  return all.some(({ verdict }) => verdict === 'unknown') ? traceExitCodes.incomplete : traceExitCodes.allowed;
}
