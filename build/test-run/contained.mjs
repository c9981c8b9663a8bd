import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { membersOf, mountNamespaceOf, parentOf } from './members.mjs';
import { monotonicMs, readRecord, whyStuck } from './record.mjs';

const markName = 'SEINE_TEST_RUN';
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'];
const watchEveryMs = 500;
/** Time after which processes that end by themselves have ended, on a busy host. */
const leftOverMs = Number(process.env.SEINE_TEST_SETTLE_S ?? 20) * 1000;
/** Time after which signalled processes have ended. */
const settleMs = 5_000;
const deadlineS = Number(process.env.SEINE_TEST_DEADLINE_S ?? 3600);

/** Keeps the mount namespace of the run: reports the end of the command, and stays, so that remains can be inspected. */
const holder = `
exec 2>&5
mkdir -p /run/netns && mount -t tmpfs -o mode=755 tmpfs /run/netns || exit 125
"$@" 3>&- 4<&- 5>&-
echo $? >&3
read -r _ <&4
`;

/**
 * Runs a command until it, and everything that it started, has ended: by itself, or by us when `record` (the file that `reporter.ts`
 * writes) shows that it is stuck, or after the deadline. Reports what was left. A run `aside` has the niceness `nice` (nice(1)), and its
 * output goes to the file descriptor `output`.
 *
 * @param {{ troubles?: string[] }} options `troubles` gets the lines about problems of the run itself
 * @returns {Promise<number>} its exit code; 1 if it left anything
 */
export async function runContained(command, args, { record, env, aside, troubles = [], ...options }) {
  const id = randomUUID();
  const own = { ...env, [markName]: id };
  // unshare(1)'s own output matters only if it starts nothing.
  const [stdin, stdout, stderr] = aside === undefined ? ['inherit', 'inherit', 2] : ['ignore', aside.output, aside.output];
  const stdio = [stdin, stdout, 'pipe', 'pipe', 'pipe', stderr];
  const words = ['unshare', '--mount', '--', 'sh', '-c', holder, 'sh', command, ...args];
  const [program, ...all] = aside === undefined ? words : ['nice', '-n', String(aside.nice), ...words];
  const child = spawn(program, all, { ...options, env: own, stdio, detached: aside !== undefined });
  if (aside !== undefined) niceSession(child.pid, aside.nice);
  const gone = once(child, 'exit').catch(() => undefined); // `error` has the reason why it has not started
  child.stdio[4].on('error', () => undefined);
  const run = new Run(child, record, `${markName}=${id}`);
  const interrupt = (signal) => run.interrupt(signal);
  for (const signal of signals) process.on(signal, interrupt);
  try {
    const trouble = await run.untilOver();
    const left = await run.leftOver(trouble !== undefined);
    troubles.push(...(trouble === undefined ? [] : [trouble]), ...left);
    for (const line of troubles) console.error(`✗ ${line}`);
    return troubles.length > 0 ? run.code || 1 : run.code;
  } finally {
    for (const signal of signals) process.off(signal, interrupt);
    await run.end();
    await gone;
  }
}

/**
 * Sets the priority of a session. A kernel that groups processes by session weighs the groups first. Source: sched(7), "The autogroup
 * feature".
 */
function niceSession(pid, nice) {
  try {
    writeFileSync(`/proc/${pid}/autogroup`, String(nice));
  } catch {
    // It does not group, or does not permit it.
  }
}

class Run {
  code = 1;
  #over = false;
  #said = '';
  #failure;
  #child;
  #record;
  #mark;
  #interrupted;
  #deadlineMs = monotonicMs() + deadlineS * 1000;

  constructor(child, record, mark) {
    this.#mark = mark;
    this.#child = child;
    this.#record = record;
    child.stdio[3].setEncoding('utf8').on('data', (text) => {
      this.code = Number(text);
      this.#over = true;
    });
    child.stderr.setEncoding('utf8').on('data', (text) => (this.#said += text));
    child.once('error', ({ message }) => this.#failed(message));
    child.once('exit', () => this.#failed(this.#said));
  }

  #failed(message) {
    if (!this.#over) this.#failure = `cannot contain the run: ${message.trim()}`;
    this.#over = true;
  }

  /** @returns {Promise<string | undefined>} why it had to be ended; undefined if it ended by itself */
  async untilOver() {
    while (!this.#over) {
      await sleep(watchEveryMs);
      if (this.#interrupted) {
        if (monotonicMs() < this.#interrupted.untilMs) continue;
        this.code = 128 + constants.signals[this.#interrupted.signal];
        return `ended by ${this.#interrupted.signal}`;
      }
      const trouble = monotonicMs() > this.#deadlineMs ? `the run has taken more than ${deadlineS} s` : whyStuck(readRecord(this.#record));
      if (trouble !== undefined && !this.#over) return `${trouble}\n  ended.`;
    }
    return this.#failure;
  }

  /** Vitest ends its workers on a signal; those that remain are left over. */
  interrupt(signal) {
    this.#interrupted ??= { signal, untilMs: monotonicMs() + settleMs };
    for (const { pid } of this.#processes().filter(({ pid }) => parentOf(pid) === this.#child.pid)) process.kill(pid, signal);
  }

  /** Lines that name the processes and network namespaces that are left. */
  async leftOver(atOnce) {
    const untilMs = monotonicMs() + leftOverMs;
    while (!atOnce && this.#processes().length > 0 && monotonicMs() < untilMs) await sleep(100);
    const { namespaces = {} } = readRecord(this.#record) ?? {};
    return [
      ...this.#processes().map(({ pid, command }) => `left over and ended: process ${pid}: ${command}`),
      ...this.#namespaces().map((name) => {
        const files = namespaces[name] ?? [];
        return `left over and removed: network namespace ${name}${files.length > 0 ? `, first seen while ${files.join(', ')} ran` : ''}`;
      }),
    ];
  }

  /** The mount namespace ends with the last process, and with it the network namespaces that only it names. */
  async end() {
    for (const untilMs = monotonicMs() + settleMs; this.#processes().length > 0 && monotonicMs() < untilMs; await sleep(20)) {
      for (const { pid } of this.#processes()) kill(pid);
    }
    this.#child.stdio[4].end();
  }

  /** Processes of the run except the holder. */
  #processes() {
    const mountNamespace = mountNamespaceOf(this.#child.pid);
    const isOurs = mountNamespace !== undefined && mountNamespace !== mountNamespaceOf(process.pid);
    return isOurs ? membersOf({ mountNamespace, mark: this.#mark }).filter(({ pid }) => pid !== this.#child.pid) : [];
  }

  #namespaces() {
    try {
      return readdirSync(`/proc/${this.#child.pid}/root/run/netns`);
    } catch {
      return [];
    }
  }
}

function kill(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}
