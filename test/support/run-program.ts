import { spawn } from 'node:child_process';

/** Output and end of a program. */
export interface Ran {
  /** -1 if a signal ended it. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Surroundings {
  readonly stdin?: string;
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** User and group of the process; those of this process if absent. */
  readonly uid?: number;
  /** Time after which it is ended. */
  readonly timeoutMs?: number;
}

/** Runs a program to its end, whatever its exit code. @throws Error if it cannot be started */
export function runProgram(command: string, args: readonly string[], surroundings: Surroundings = {}): Promise<Ran> {
  const { stdin = '', uid, timeoutMs: timeout, ...options } = surroundings;
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { ...options, timeout, ...(uid === undefined ? {} : { uid, gid: uid }) });
    let [stdout, stderr] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.stdin.on('error', () => undefined); // it did not read all of it
    child.once('error', reject);
    child.once('close', (code) => resolve({ code: code ?? -1, stdout, stderr }));
    child.stdin.end(stdin);
  });
}
