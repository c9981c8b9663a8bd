import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

/** A network namespace of this machine with an Open vSwitch in it. */
export interface Place {
  readonly netns: string;
  /** `OVS_RUNDIR` for the tools of Open vSwitch. */
  readonly rundir: string;
}

/** Where a node keeps the far ends of its standing ports, if it has any: a network namespace (docs/adr/0058-standing-ports.md). */
export function portsPath({ rundir }: Place): string {
  return join(rundir, 'run', 'netns', 'ports');
}

interface RunOptions {
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
}

const commandTimeoutMs = 180_000;
const pollMs = 20;
const asksMost = 5;

/** Runs a command to its end. @returns what it printed. @throws Error with its command line and what it said */
export function run(
  command: string,
  args: readonly string[],
  { input, env, timeoutMs = commandTimeoutMs }: RunOptions = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { env: { ...process.env, ...env }, maxBuffer: 1 << 28, timeout: timeoutMs };
    const child = execFile(command, [...args], options, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${command} ${args.join(' ')}: ${stderr.trim() || stdout.trim() || error.message}`));
    });
    // A command that ends without reading takes the pipe with it, and its exit code says why.
    child.stdin?.on('error', () => {});
    child.stdin?.end(input ?? '');
  });
}

function inside(netns: string, command: string, args: readonly string[]): readonly [string, string[]] {
  return ['nsenter', [`--net=/run/netns/${netns}`, command, ...args]];
}

/** As `run`, in a network namespace. */
export function runIn(netns: string, command: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  return run(...inside(netns, command, args), options);
}

/** As `run`, on a node: in its namespace, with the tools of Open vSwitch pointed at its switch. */
export function runOn({ netns, rundir }: Place, command: string, ...args: readonly string[]): Promise<string> {
  return runIn(netns, command, args, { env: { OVS_RUNDIR: rundir } });
}

/** Starts a process in a namespace that runs until it is killed. @param log a file descriptor, for what it prints */
export function startIn(
  netns: string,
  command: string,
  args: readonly string[],
  log: number | 'ignore',
  env: Readonly<Record<string, string>>,
): ChildProcess {
  const [program, all] = inside(netns, command, args);
  return spawn(program, all, { stdio: ['ignore', log, log], env: { ...process.env, ...env } });
}

/** Starts one of the driver's own programs in a namespace: its answers come on `stdout`, and it reads `stdin`. */
export function talkIn(
  netns: string,
  file: string,
  args: readonly string[],
  log: number,
  env: Readonly<Record<string, string>>,
): ChildProcess {
  const [program, all] = inside(netns, process.execPath, [join(import.meta.dirname, file), ...args]);
  return spawn(program, all, { stdio: ['pipe', 'pipe', log], env: { ...process.env, ...env } });
}

/** Kills it, and waits for its end, which may have come before. */
export async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}

interface SocketAnswer {
  readonly status: number;
  readonly body: string;
}

/**
 * Asks a server that listens on a unix socket. While this process compares, seconds may lie between its connection and its question, and a
 * server hangs up on who does not ask: then a question that changes nothing is asked again.
 */
export async function askSocket(socketPath: string, method: string, path: string, timeoutMs = 60_000): Promise<SocketAnswer> {
  for (let left = method === 'GET' ? asksMost - 1 : 0; ; left--) {
    try {
      return await askOnce(socketPath, method, path, timeoutMs);
    } catch (thrown) {
      const hungUp = thrown instanceof Error && 'code' in thrown && (thrown.code === 'EPIPE' || thrown.code === 'ECONNRESET');
      if (left <= 0 || !hungUp) throw thrown;
    }
  }
}

function askOnce(socketPath: string, method: string, path: string, timeoutMs: number): Promise<SocketAnswer> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, method, path, agent: false, signal: AbortSignal.timeout(timeoutMs) }, (answer) => {
      text(answer).then((body) => resolve({ status: answer.statusCode ?? 0, body }), reject);
    });
    sent.on('error', reject); // more than one may come
    sent.end();
  });
}

/** Looks again and again until it holds. @returns how long it took (ms). @throws Error with `problem` if it does not come to hold */
export async function until(holds: () => Promise<boolean>, withinMs: number, problem: () => string): Promise<number> {
  const startedMs = performance.now();
  while (!(await holds())) {
    if (performance.now() - startedMs > withinMs) throw new Error(`${problem()}, after ${withinMs} ms`);
    await sleep(pollMs);
  }
  return performance.now() - startedMs;
}
