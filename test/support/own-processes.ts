import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll } from 'vitest';

/**
 * A set-up file of vitest: a test file ends what it starts. What is left of it, because a test timed out or forgot, is ended after its
 * last hook, and fails the file. Processes inherit the mark in their environment, those that are orphaned too.
 */
const mark = `SEINE_TEST_FILE=${randomUUID()}`;
const [name = '', value] = mark.split('=');
/** What was told to end has ended by then. */
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

/** Whatever has this number now may be another process. */
function end(pid: number): void {
  if (!read(`${pid}`, 'environ').includes(mark)) return;
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

/** Nothing of a process that has ended, or that is another user's. */
function read(pid: string, file: 'environ' | 'cmdline'): string[] {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8').split('\0');
  } catch {
    return [];
  }
}
