import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { packageRoot } from '../../lab/machine/installation.ts';

const script = join(packageRoot, 'build', 'images', 'ovs-start');

export interface Place {
  /** Path of the network namespace. */
  readonly netns: string;
  /** Folder of sockets and pid files. */
  readonly runDir: string;
  /** Folder of `conf.db`. */
  readonly dataDir: string;
  /** Environment that selects an Open vSwitch, by `PATH` and `OVS_PKGDATADIR`; the host's own if absent. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Open vSwitch as in the image's container: by `ovs-start`, in the foreground. */
export class StartedOvs {
  readonly #place: Place;
  readonly #process: ChildProcess;
  #output = '';

  private constructor(place: Place) {
    this.#place = place;
    // A separate process group, like the container's processes.
    this.#process = spawn('nsenter', [`--net=${place.netns}`, script], {
      env: environment(place),
      stdio: ['ignore', 'ignore', 'pipe'],
      detached: true,
    });
    this.#process.stderr?.setEncoding('utf8').on('data', (text: string) => (this.#output += text));
  }

  static start(place: Place): StartedOvs {
    return new StartedOvs(place);
  }

  /** Output of the script, without the daemons. */
  get output(): readonly string[] {
    return this.#output.split('\n').filter((line) => line.startsWith('ovs-start: '));
  }

  get isRunning(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null;
  }

  /** Checks of the manifest's probes. */
  isAlive(): boolean {
    try {
      execFileSync(script, ['alive'], { env: environment(this.#place), stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  }

  /** Resolves to its exit code once it has ended by itself, -1 if a signal ended it. */
  async ended(): Promise<number> {
    if (this.isRunning) await once(this.#process, 'exit');
    return this.#process.exitCode ?? -1;
  }

  /** Stops it like a container: it gets a signal, and ends its daemons. */
  async stop(): Promise<number> {
    if (this.isRunning) this.#process.kill('SIGTERM');
    return await this.ended();
  }

  /** Kills it like a container: with all its processes. */
  async kill(): Promise<void> {
    const { pid } = this.#process;
    if (pid !== undefined && this.isRunning) process.kill(-pid, 'SIGKILL');
    await this.ended();
  }
}

function environment({ runDir, dataDir, env }: Place): NodeJS.ProcessEnv {
  return { ...process.env, ...env, OVS_RUNDIR: runDir, OVS_DBDIR: dataDir, OVS_SYSCONFDIR: dataDir };
}
