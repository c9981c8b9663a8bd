import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** Schema of the Open vSwitch whose programs are first in PATH. */
export const switchSchema = join(process.env['OVS_PKGDATADIR'] ?? '/usr/share/openvswitch', 'vswitch.ovsschema');

/** A pair of real daemons of Open vSwitch in their own network namespace. */
export interface TestSwitch {
  readonly netns: string;
  readonly runDir: string;
  /** Runs a command in the namespace, with the environment of Open vSwitch's tools; returns its output. */
  exec(command: string, ...args: readonly string[]): string;
  startVswitchd(): void;
  startOvsdb(): void;
  killVswitchd(): Promise<void>;
  killOvsdb(): Promise<void>;
  stop(): Promise<void>;
}

/** @param options further arguments of ovs-vswitchd */
export function startSwitch(...options: readonly string[]): TestSwitch {
  const name = randomBytes(3).toString('hex');
  const netns = `seine-t-${name}`;
  const runDir = `/run/seine-t-${name}`;
  mkdirSync(runDir, { mode: 0o700 });
  execFileSync('ip', ['netns', 'add', netns]);
  execFileSync('ip', ['-n', netns, 'link', 'set', 'lo', 'up']);
  const env = { ...process.env, OVS_RUNDIR: runDir, OVS_DBDIR: runDir, OVS_LOGDIR: runDir, OVS_SYSCONFDIR: runDir };
  const exec = (command: string, ...args: readonly string[]): string =>
    execFileSync('nsenter', [`--net=/run/netns/${netns}`, command, ...args], {
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      maxBuffer: 1 << 28,
    });
  const daemon = ['--pidfile', '--log-file', '--no-chdir', '--detach', '-vconsole:off'];
  const pidOf = (what: string): number => Number(readFileSync(join(runDir, `${what}.pid`), 'utf8'));
  const started: TestSwitch = {
    netns,
    runDir,
    exec,
    startOvsdb: () => void exec('ovsdb-server', join(runDir, 'conf.db'), `--remote=punix:${join(runDir, 'db.sock')}`, ...daemon),
    startVswitchd: () => void exec('ovs-vswitchd', `unix:${join(runDir, 'db.sock')}`, ...options, ...daemon),
    killVswitchd: () => kill(pidOf('ovs-vswitchd')),
    killOvsdb: () => kill(pidOf('ovsdb-server')),
    async stop() {
      await Promise.allSettled([started.killVswitchd(), started.killOvsdb()]);
      execFileSync('ip', ['netns', 'del', netns]);
      rmSync(runDir, { recursive: true, force: true });
    },
  };
  exec('ovsdb-tool', 'create', join(runDir, 'conf.db'), switchSchema);
  started.startOvsdb();
  exec('ovs-vsctl', '--no-wait', 'init');
  started.startVswitchd();
  return started;
}

/** Sends SIGKILL, and waits until the process has ended. */
async function kill(pid: number): Promise<void> {
  try {
    process.kill(pid, 'SIGKILL');
    for (;;) {
      process.kill(pid, 0);
      await sleep(5);
    }
  } catch {
    // ESRCH: it has ended.
  }
}
