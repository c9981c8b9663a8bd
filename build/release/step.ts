import { spawn } from 'node:child_process';
import { SetupError } from '../setup/progress.mjs';
import { type OptionRows, type OptionValues, optionsHelp, optionValues, sharedRows, UsageError } from './options.ts';

/** Commands that a step runs. */
export interface Runner {
  /** True if commands are printed and not run. */
  readonly isDry: boolean;
  /**
   * Runs a command, with its standard error on the terminal. A dry run prints it.
   *
   * @returns standard output; nothing in a dry run
   * @throws Error naming the command, if it fails
   */
  run(command: string, args: readonly string[], options?: RunnerOptions): Promise<string>;
  /** Writes a line for the reader. */
  note(line: string): void;
}

interface RunnerOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Standard error is kept back, and part of the error. */
  readonly isQuiet?: boolean;
}

interface Step<R extends OptionRows> {
  /** Name of the npm script. */
  readonly name: string;
  readonly about: string;
  readonly rows: R;
  readonly run: (values: OptionValues<keyof R & string>, runner: Runner) => Promise<void>;
}

/** Runs a step of a release with this process's command line, and sets the exit code: 1 for a failure, 2 for an invalid command line. */
export async function runStep<R extends OptionRows>({ name, about, rows, run }: Step<R>): Promise<void> {
  const args = process.argv.slice(2);
  try {
    const values = optionValues({ ...rows, ...sharedRows }, args, process.env);
    if (values.flag('help')) {
      process.stdout.write(`npm run ${name} -- [options]: ${about}\n\n${optionsHelp({ ...rows, ...sharedRows })}`);
      return;
    }
    await run(values, values.flag('dry-run') ? dryRunner() : realRunner());
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`${name}: ${message}\n`);
    if (error instanceof SetupError) process.stderr.write(`→ ${error.remedy}\n`);
    if (error instanceof UsageError) process.stderr.write(`→ npm run ${name} -- --help\n`);
    process.exitCode = error instanceof UsageError ? 2 : 1;
  }
}

const note = (line: string) => void process.stdout.write(`${line}\n`);

function dryRunner(): Runner {
  return {
    isDry: true,
    note,
    run: (command, args, { env = {} } = {}) => {
      const variables = Object.entries(env).map(([name, value]) => `${name}=${shellWord(value)} `);
      note(`would run: ${variables.join('')}${[command, ...args].map(shellWord).join(' ')}`);
      return Promise.resolve('');
    },
  };
}

function realRunner(): Runner {
  return { isDry: false, note, run: runCommand };
}

function runCommand(command: string, args: readonly string[], { env, cwd, isQuiet = false }: RunnerOptions = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env }, cwd });
    const out: Buffer[] = [];
    const errors: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => {
      errors.push(chunk);
      if (!isQuiet) process.stderr.write(chunk);
    });
    child.once('error', (cause) => reject(new Error(`${command} cannot be started: ${cause.message}`, { cause })));
    child.once('close', (code, signal) => {
      if (code === 0) resolve(Buffer.concat(out).toString('utf8'));
      else reject(commandError({ command, args, ended: code === null ? `signal ${signal}` : `exit code ${code}`, errors, isQuiet }));
    });
  });
}

interface Ended {
  readonly command: string;
  readonly args: readonly string[];
  readonly ended: string;
  readonly errors: readonly Buffer[];
  readonly isQuiet: boolean;
}

function commandError({ command, args, ended, errors, isQuiet }: Ended): Error {
  const output = isQuiet ? `: ${Buffer.concat(errors).toString('utf8').trim().slice(-2_000)}` : '; its messages are above';
  return new Error(`\`${[command, ...args].map(shellWord).join(' ')}\` failed with ${ended}${output}`);
}

/** A word as a POSIX shell reads it. */
function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
