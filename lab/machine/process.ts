import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { SeineError } from '../../src/base/errors/seine-error.ts';

/** Maximum size of captured output; more is an error. */
const outputBytesMax = 16 * 1024 * 1024;

/** Environment variable of every process of a lab, inherited by its children. */
export const labMark = 'SEINE_LAB';
/** The same for the processes of one pod. */
export const podMark = 'SEINE_POD';

/** Identity of a process: a pid is reused, a pid with its start time is not. */
export interface ProcessId {
  readonly pid: number;
  /** In clock ticks since boot. Source: proc(5), /proc/pid/stat field 22. */
  readonly startTime: number;
}

export interface RunOptions {
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
}

export interface RunResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a command to its end and returns its output, whatever its exit code.
 *
 * @param options env is added to this process's
 * @throws SeineError `REFUSED` if it cannot be started or writes too much, `CANCELLED` if the signal ended it
 */
export function runAnyway(command: string, args: readonly string[], options: RunOptions, signal: AbortSignal): Promise<RunResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      stdio: ['pipe', 'pipe', 'pipe'],
      env: { ...process.env, ...options.env },
      signal,
      killSignal: 'SIGKILL',
    });
    const stdout = collect(child, 'stdout');
    const stderr = collect(child, 'stderr');
    child.once('error', (cause) =>
      reject(signal.aborted ? SeineError.from(cause, `run ${command}`) : new SeineError('REFUSED', `run ${command}`, { cause })),
    );
    child.once('close', (code, killedBy) => resolve({ code: code ?? exitCodeOf(killedBy), stdout: stdout(), stderr: stderr() }));
    // A child that ends without reading its input closes the pipe; its exit code has the reason.
    child.stdin.on('error', () => {});
    child.stdin.end(options.input ?? '');
  });
}

/** Like `runAnyway`, but an exit code other than 0 is `REFUSED` with the command's output. */
export async function run(command: string, args: readonly string[], options: RunOptions, signal: AbortSignal): Promise<string> {
  const { code, stdout, stderr } = await runAnyway(command, args, options, signal);
  if (code === 0) return stdout;
  const said = stderr.trim() || stdout.trim();
  throw new SeineError('REFUSED', `${command} ${args.join(' ')}: exit code ${code}: ${said.slice(-2000)}`, { context: { code } });
}

function collect(child: ChildProcess, from: 'stdout' | 'stderr'): () => string {
  const chunks: Buffer[] = [];
  let size = 0;
  child[from]?.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size <= outputBytesMax) chunks.push(chunk);
    else child.kill('SIGKILL');
  });
  return () => Buffer.concat(chunks).toString('utf8');
}

const signalNumbers: Readonly<Record<string, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGABRT: 6,
  SIGKILL: 9,
  SIGSEGV: 11,
  SIGTERM: 15,
};

/** The shell's rule: 128 and the number of the signal that ended it. */
export function exitCodeOf(signal: NodeJS.Signals | null): number {
  return 128 + (signalNumbers[signal ?? ''] ?? 0);
}

/** The process with this pid now, or undefined if there is none or it is a zombie. */
export function processOf(pid: number): ProcessId | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name in parentheses may contain any character; fields 3 and on follow the last parenthesis.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // A main thread that has ended waits for the others, which keep files and their locks open.
    const isAlone = Number(fields[17]) <= 1;
    if ((fields[0] === 'Z' && isAlone) || fields[0] === 'X') return undefined;
    return { pid, startTime: Number(fields[19]) };
  } catch {
    return undefined;
  }
}

export function isRunning(id: ProcessId): boolean {
  return processOf(id.pid)?.startTime === id.startTime;
}

/** Signals exactly this process, never a later one with its pid. False if it has ended. */
export function signalProcess(id: ProcessId, name: NodeJS.Signals): boolean {
  if (!isRunning(id)) return false;
  try {
    return process.kill(id.pid, name);
  } catch {
    return false;
  }
}

const pollMs = 10;

/** Sends SIGTERM to these processes, waits up to `graceMs`, and kills the remaining ones. Resolves when all have ended. */
export async function endProcesses(ids: readonly ProcessId[], graceMs: number): Promise<void> {
  for (const id of ids) signalProcess(id, 'SIGTERM');
  if (await allGone(ids, graceMs)) return;
  for (const id of ids) signalProcess(id, 'SIGKILL');
  await allGone(ids, 5_000);
}

/** The kernel has no event for the end of a process that is not a child, except a pidfd; so this polls. */
async function allGone(ids: readonly ProcessId[], withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  while (ids.some(isRunning)) {
    if (performance.now() > deadline) return false;
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
  return true;
}

/** All live processes of a lab, found by the mark in their environment, except this process and its parents. */
export function markedProcesses(labId: string): ProcessId[] {
  const spared = new Set(ancestors(process.pid));
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => !spared.has(pid) && environmentOf(pid).includes(`${labMark}=${labId}`))
    .flatMap((pid) => processOf(pid) ?? []);
}

/** The processes of pods among them. */
export function containerProcesses(labId: string): ProcessId[] {
  return markedProcesses(labId).filter(({ pid }) => environmentOf(pid).some((entry) => entry.startsWith(`${podMark}=`)));
}

/** Environment of a process; empty if it has ended or is a kernel thread. */
export function environmentOf(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0');
  } catch {
    return [];
  }
}

function ancestors(pid: number): number[] {
  const found = [pid];
  for (let at = pid; at > 1 && found.length < 64; ) {
    at = parentOf(at);
    found.push(at);
  }
  return found;
}

function parentOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return 0;
  }
}
