import { type ChildProcess, spawn } from 'node:child_process';
import { createWriteStream, mkdirSync, type WriteStream } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pause } from '../../src/base/async/pause.ts';
import { inNetns } from '../machine/netns.ts';
import { exitCodeOf } from '../machine/process.ts';
import type { ContainerSpec, RestartPolicy } from './pod-spec.ts';
import type { ContainerState } from './pod-status.ts';

/** Maximum size of a container's log; further output is discarded. */
const logBytesMax = 8 * 1024 * 1024;
const restartMs = { first: 500, most: 30_000 };

interface ProcessOptions {
  readonly spec: ContainerSpec;
  readonly netns: string;
  readonly env: Readonly<Record<string, string>>;
  readonly logFile: string;
  readonly restartPolicy: RestartPolicy;
  /** Called when the state may have changed. */
  readonly changed: () => void;
}

/** A container with a command: a process in the pod's network namespace, on the file system of the host. */
export class ContainerProcess {
  readonly #options: ProcessOptions;
  readonly #stopping = new AbortController();
  readonly #finished: Promise<void>;
  #child: ChildProcess | undefined;
  #run: ContainerState['run'] = { is: 'waiting', reason: 'ContainerCreating' };
  #restarts = 0;
  #logged = 0;

  constructor(options: ProcessOptions) {
    this.#options = options;
    this.#finished = this.#keepRunning();
  }

  get run(): ContainerState['run'] {
    return this.#run;
  }

  get restarts(): number {
    return this.#restarts;
  }

  /** Sends SIGTERM, and kills it and its children after the grace period. */
  async stop(graceSeconds: number): Promise<void> {
    this.#stopping.abort();
    this.#signal('SIGTERM');
    const cancelKill = new AbortController();
    const kill = sleep(graceSeconds * 1000, undefined, { signal: cancelKill.signal }).then(
      () => this.#signal('SIGKILL'),
      () => {},
    );
    await this.#finished;
    cancelKill.abort();
    await kill;
  }

  async #keepRunning(): Promise<void> {
    const stopping = this.#stopping.signal;
    for (let waitMs = restartMs.first; !stopping.aborted; waitMs = Math.min(waitMs * 2, restartMs.most)) {
      const exitCode = await this.#runOnce();
      const { restartPolicy, changed } = this.#options;
      if (stopping.aborted || restartPolicy === 'Never' || (restartPolicy === 'OnFailure' && exitCode === 0)) return;
      await pause(waitMs, stopping);
      if (stopping.aborted) return;
      this.#restarts++;
      changed();
    }
  }

  async #runOnce(): Promise<number> {
    const { spec, netns, env, logFile, changed } = this.#options;
    const [program = 'true', ...given] = [...(spec.command ?? []), ...spec.args];
    const inside = inNetns(netns, program, given);
    mkdirSync(dirname(logFile), { recursive: true, mode: 0o700 });
    const log = createWriteStream(logFile, { flags: 'a', mode: 0o600 });
    // A full disk costs the log, not the container.
    log.on('error', () => {});
    const startedAt = new Date().toISOString();
    const child = spawn(inside.command, inside.args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
      env: { ...process.env, ...env },
    });
    this.#child = child;
    this.#run = { is: 'running', startedAt };
    changed();
    const exitCode = await this.#end(child, log);
    this.#child = undefined;
    this.#run = { is: 'terminated', exitCode, startedAt, finishedAt: new Date().toISOString() };
    changed();
    return exitCode;
  }

  #end(child: ChildProcess, log: WriteStream): Promise<number> {
    const keep = (chunk: Buffer) => {
      this.#logged += chunk.length;
      if (this.#logged <= logBytesMax) log.write(chunk);
    };
    child.stdout?.on('data', keep);
    child.stderr?.on('data', keep);
    return new Promise((resolve) => {
      child.once('error', (error) => {
        log.write(`${error.message}\n`);
        resolve(127);
      });
      child.once('exit', (code, signal) => resolve(code ?? exitCodeOf(signal)));
      // Later than its end, if a child of it still has its output open.
      child.once('close', () => log.end());
    });
  }

  /** Signals the whole group: a shell's children too. */
  #signal(name: NodeJS.Signals): void {
    const pid = this.#child?.pid;
    if (pid === undefined) return;
    try {
      process.kill(-pid, name);
    } catch {
      // It ended by itself between the check and the signal.
    }
  }
}
