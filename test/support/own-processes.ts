import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll } from 'vitest';

/**
 * A set-up file of vitest: a test file must end its own processes. Remaining ones, because a test timed out or forgot them, are ended after
 * its last hook, and fail the file. Processes inherit the mark in their environment, orphans too.
 */
const mark = `SEINE_TEST_FILE=${randomUUID()}`;
const [name = '', value] = mark.split('=');
/** Time after which signalled processes have ended. */
const settleMs = 3_000;

process.env[name] = value;

afterAll(async () => {
  const deadlineMs = performance.now() + settleMs;
  while (ownProcesses().length > 0 && performance.now() < deadlineMs) await sleep(50);
  const left = ownProcesses();
  for (const { pid } of left) end(pid);
  const lines = left.map(({ pid, command }) => `\n  ${pid}: ${command}`);
  if (left.length > 0) throw new Error(`the tests of this file left processes, which were ended:${lines.join('')}`);
}, settleMs + 10_000);

function ownProcesses(): { pid: number; command: string }[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry) && Number(entry) !== process.pid)
    .filter((entry) => read(entry, 'environ').includes(mark))
    .map((entry) => ({ pid: Number(entry), command: read(entry, 'cmdline').join(' ').trim().slice(0, 200) }));
}

/** A process that has this number now may be another one. */
function end(pid: number): void {
  if (!read(`${pid}`, 'environ').includes(mark)) return;
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

/** Undefined for a process that has ended, or that belongs to another user. */
function read(pid: string, file: 'environ' | 'cmdline'): string[] {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8').split('\0');
  } catch {
    return [];
  }
}
