import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { switchSchema } from '../support/open-vswitch.ts';

/** Creation of the database: alone, or as the first or a further member of a cluster. */
export type Membership =
  | { readonly kind: 'standalone' }
  | { readonly kind: 'first' }
  | { readonly kind: 'joins'; readonly first: TestOvsdbServer };

export interface TestOvsdbServerOptions {
  readonly membership?: Membership;
  /** Further arguments of its command line, e.g. `--remote=ptcp:…`. */
  readonly args?: readonly string[];
}

/** A real `ovsdb-server` with its own database, which tests may kill and restart. */
export class TestOvsdbServer {
  readonly dir: string;
  readonly socketPath: string;
  readonly #args: readonly string[];
  #process: ChildProcess | undefined;

  constructor({ membership = { kind: 'standalone' }, args = [] }: TestOvsdbServerOptions = {}) {
    this.dir = mkdtempSync('/run/seine-test-');
    this.socketPath = `${this.dir}/db.sock`;
    this.#args = args;
    const file = `${this.dir}/conf.db`;
    if (membership.kind === 'standalone') execFileSync('ovsdb-tool', ['create', file, switchSchema]);
    if (membership.kind === 'first') execFileSync('ovsdb-tool', ['-vconsole:off', 'create-cluster', file, switchSchema, this.#raft]);
    if (membership.kind === 'joins') {
      execFileSync('ovsdb-tool', ['join-cluster', file, 'Open_vSwitch', this.#raft, membership.first.#raft]);
    }
  }

  /** Address for the members of a cluster. */
  get #raft(): string {
    return `unix:${this.dir}/raft`;
  }

  /** Resolves once it accepts connections. */
  async start(): Promise<void> {
    const options = [`--remote=punix:${this.socketPath}`, `--unixctl=${this.dir}/ctl`, '--no-chdir', '-vconsole:off', ...this.#args];
    this.#process = spawn('ovsdb-server', [`${this.dir}/conf.db`, ...options], { stdio: 'ignore' });
    while (!(await accepts(this.socketPath)) || !(await accepts(`${this.dir}/ctl`))) await new Promise((resolve) => setTimeout(resolve, 5));
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const killed = this.#process;
    if (killed === undefined || killed.exitCode !== null || killed.signalCode !== null) return;
    const exit = once(killed, 'exit');
    killed.kill(signal);
    await exit;
  }

  /** Stops or continues it, so that it exists but does not answer. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#process?.kill(signal);
  }

  ctl(...args: readonly string[]): string {
    return execFileSync('ovs-appctl', ['-t', `${this.dir}/ctl`, ...args], { encoding: 'utf8' });
  }

  vsctl(...args: readonly string[]): string {
    return execFileSync('ovs-vsctl', [`--db=unix:${this.socketPath}`, '--no-wait', ...args], { encoding: 'utf8' });
  }

  async remove(): Promise<void> {
    await this.kill();
    rmSync(this.dir, { recursive: true });
  }
}

function accepts(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
