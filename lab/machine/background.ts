import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { livingProcess, writePidFile } from './files.ts';
import { type ProcessId, processOf } from './process.ts';

/** A process that outlives this one, and the files by which it is found again. */
interface BackgroundProcess {
  readonly command: string;
  readonly args: readonly string[];
  /** Added to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Log that its output is appended to. */
  readonly logFile: string;
  readonly pidFile: string;
}

/** Starts it, unless it runs already. @throws SeineError `REFUSED` if it does not start */
export function startInBackground({ command, args, env, logFile, pidFile }: BackgroundProcess): ProcessId {
  const running = livingProcess(pidFile);
  if (running) return running;
  const log = openSync(logFile, 'a', 0o600);
  try {
    const child = spawn(command, [...args], { stdio: ['ignore', log, log], detached: true, env: { ...process.env, ...env } });
    child.on('error', () => undefined); // reported by the missing pid
    child.unref();
    const id = child.pid === undefined ? undefined : processOf(child.pid);
    if (id === undefined) throw new SeineError('REFUSED', `${command} does not start; see ${logFile}`);
    writePidFile(pidFile, id);
    return id;
  } finally {
    closeSync(log);
  }
}
