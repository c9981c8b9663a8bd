import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

/** A network namespace of this host with an Open vSwitch in it. */
export interface Place {
  readonly netns: string;
  /** `OVS_RUNDIR` for the tools of Open vSwitch. */
  readonly rundir: string;
}

/** Network namespace of the far ends of a node's pre-plugged ports, if it has any (docs/adr/0058-standing-ports.md). */
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
const maxRequests = 5;

/** Runs a command to its end. @returns its output. @throws Error with its command line and its output */
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
    // A command that ends without reading closes the pipe; its exit code has the reason.
    child.stdin?.on('error', () => {});
    child.stdin?.end(input ?? '');
  });
}

function inside(netns: string, command: string, args: readonly string[]): readonly [string, string[]] {
  return ['nsenter', [`--net=/run/netns/${netns}`, command, ...args]];
}

/** Like `run`, in a network namespace. */
export function runIn(netns: string, command: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  return run(...inside(netns, command, args), options);
}

/** Like `run`, on a node: in its namespace, with the environment of Open vSwitch's tools. */
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

/** Starts one of the driver's own programs in a namespace: it reads `stdin` and answers on `stdout`. */
export function startNodeProgram(
  netns: string,
  file: string,
  args: readonly string[],
  log: number,
  env: Readonly<Record<string, string>>,
): ChildProcess {
  const [program, all] = inside(netns, process.execPath, [join(import.meta.dirname, file), ...args]);
  return spawn(program, all, { stdio: ['pipe', 'pipe', log], env: { ...process.env, ...env } });
}

/** Kills it, and waits for its end, which may have happened before. */
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
 * Sends a request to a server on a unix socket. While this process compares, seconds may pass between the connection and the request, and
 * the server closes an idle connection: then a request without side effects is repeated.
 */
export async function askSocket(socketPath: string, method: string, path: string, timeoutMs = 60_000): Promise<SocketAnswer> {
  for (let left = method === 'GET' ? maxRequests - 1 : 0; ; left--) {
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
    sent.on('error', reject); // there may be more than one
    sent.end();
  });
}

/** Polls until a condition is true. @returns duration (ms). @throws Error with `problem` if it does not become true */
export async function until(holds: () => Promise<boolean>, withinMs: number, problem: () => string): Promise<number> {
  const startedMs = performance.now();
  while (!(await holds())) {
    if (performance.now() - startedMs > withinMs) throw new Error(`${problem()}, after ${withinMs} ms`);
    await sleep(pollMs);
  }
  return performance.now() - startedMs;
}
