import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { SeineError } from '../../src/base/errors/seine-error.ts';

/** Of a command whose output we keep: more than this is an error, not a surprise in memory. */
const outputBytesMax = 16 * 1024 * 1024;

/** The variable in the environment of everything a lab starts, handed on to whatever that starts. */
export const labMark = 'SEINE_LAB';
/** The same for the processes of one pod. */
export const podMark = 'SEINE_POD';

/** A process that stays the same one: a pid is used again, a pid with its start time is not. */
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
 * Runs a command to its end and gives what it wrote, whatever its exit code.
 *
 * @param options env is added to ours
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
    // A child that ends without reading its input closes the pipe; its exit code tells the story.
    child.stdin.on('error', () => {});
    child.stdin.end(options.input ?? '');
  });
}

/** As `runAnyway`, and an exit code other than 0 is `REFUSED` with what the command said. */
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

/** The process with this pid now, or undefined if there is none or it is dead and waits for its parent. */
export function processOf(pid: number): ProcessId | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name in brackets may hold anything; what follows the last bracket are fields 3 and on.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // A first thread that has ended waits for the others, which hold files and their locks as long as they are there.
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

/** Sends a signal to exactly this process, never to one that got its pid later. False if it is gone. */
export function signalProcess(id: ProcessId, name: NodeJS.Signals): boolean {
  if (!isRunning(id)) return false;
  try {
    return process.kill(id.pid, name);
  } catch {
    return false;
  }
}

const pollMs = 10;

/** Asks these processes to end, waits up to `graceMs`, and kills what is left. Resolves when all are gone. */
export async function endProcesses(ids: readonly ProcessId[], graceMs: number): Promise<void> {
  for (const id of ids) signalProcess(id, 'SIGTERM');
  if (await allGone(ids, graceMs)) return;
  for (const id of ids) signalProcess(id, 'SIGKILL');
  await allGone(ids, 5_000);
}

/** The kernel has no event for the end of a process that is not our child, short of a pidfd; so this asks. */
async function allGone(ids: readonly ProcessId[], withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  while (ids.some(isRunning)) {
    if (performance.now() > deadline) return false;
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
  return true;
}

/** Everything alive that a lab started, found by the mark in its environment; not ourselves and not our parents. */
export function markedProcesses(labId: string): ProcessId[] {
  const spared = new Set(ancestors(process.pid));
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((pid) => !spared.has(pid) && environmentOf(pid).includes(`${labMark}=${labId}`))
    .flatMap((pid) => processOf(pid) ?? []);
}

/** Of those, the processes of pods. */
export function containerProcesses(labId: string): ProcessId[] {
  return markedProcesses(labId).filter(({ pid }) => environmentOf(pid).some((entry) => entry.startsWith(`${podMark}=`)));
}

/** Empty if the process is gone or a thread of the kernel. */
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
