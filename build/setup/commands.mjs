import { spawn, spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { cache } from './paths.mjs';
import { SetupError, say } from './progress.mjs';

const heartbeatMs = 15_000;
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'];

/** Standard output of a quick command, or undefined if it failed or is absent. */
export function ask(command, args) {
  const { status, stdout } = spawnSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], maxBuffer: 64 << 20 });
  return status === 0 ? stdout : undefined;
}

/**
 * Runs a command that may take long. Its output goes to `.cache/logs/NAME.log`, so that ours stays readable; a line of progress is printed
 * now and then.
 *
 * @throws SetupError with the end of the log, and `remedy`
 */
export async function runLogged(name, command, args, { remedy, cwd, env }) {
  const logFile = join(cache, 'logs', `${name}.log`);
  mkdirSync(join(cache, 'logs'), { recursive: true });
  const log = openSync(logFile, 'w');
  const started = Date.now();
  const heartbeat = setInterval(() => say(`${name}: still running (${Math.round((Date.now() - started) / 1000)} s)`), heartbeatMs);
  try {
    const code = await run(command, args, { stdio: ['ignore', log, log], cwd, env: { ...process.env, ...env } });
    if (code === 0) return;
  } finally {
    clearInterval(heartbeat);
    closeSync(log);
  }
  const tail = readFileSync(logFile, 'utf8').trimEnd().split('\n').slice(-12).join('\n  ');
  throw new SetupError(`\`${command} ${args.join(' ')}\` failed; the end of ${logFile}:\n  ${tail}`, remedy);
}

/** Runs a command in the foreground, on our terminal. Resolves to its exit code (128 + n for signal n). */
export function runForeground(command, args, options) {
  return run(command, args, { ...options, stdio: 'inherit' });
}

/** The last line of standard output of a long command that prints its progress to the user; undefined if it failed. */
export async function lastLineOf(command, args, options) {
  let text = '';
  const read = (child) =>
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
    });
  const code = await run(command, args, { ...options, stdio: ['ignore', 'pipe', 'inherit'] }, read);
  return code === 0 ? text.trimEnd().split('\n').at(-1) : undefined;
}

/** Forwards signals and outlives the child: package managers must not be interrupted halfway, and `finally` of the caller must run. */
async function run(command, args, options, started = () => {}) {
  const child = spawn(command, args, options);
  started(child);
  const forward = (signal) => child.kill(signal);
  for (const signal of signals) process.on(signal, forward);
  try {
    return await new Promise((resolve) => {
      child.once('error', (error) => {
        say(error.message);
        resolve(127);
      });
      child.once('close', (code, signal) => resolve(code ?? 128 + constants.signals[signal]));
    });
  } finally {
    for (const signal of signals) process.off(signal, forward);
  }
}
