/**
 * Loaded into the agent with its bundle (`NODE_OPTIONS=--import=…`): writes how long its event loop is blocked to a file. Each line is a
 * second: its end (ms since 1970), the CPU time of every turn of the loop that took a millisecond of it or more, and the longest garbage
 * collections.
 */
import { appendFileSync } from 'node:fs';
import { PerformanceObserver } from 'node:perf_hooks';
import { threadCpuUsage } from 'node:process';

const file = process.env['SEINE_HOLDS'];
const RESOLUTION_MS = 1;
const WORTH_NOTING_MS = 1;

if (file !== undefined && process.argv[1]?.endsWith('seine-agent.mjs') === true) watch(file);

function watch(path: string): void {
  let before = cpuMs();
  let endMs = Date.now() + 1_000;
  let held: number[] = [];
  let collected: number[] = [];
  new PerformanceObserver((list) => collected.push(...list.getEntries().map(({ duration }) => Math.round(duration * 100) / 100))).observe({
    entryTypes: ['gc'],
  });
  setInterval(() => {
    const now = cpuMs();
    if (now - before >= WORTH_NOTING_MS) held.push(Math.round((now - before) * 100) / 100);
    before = now;
    if (Date.now() < endMs) return;
    appendFileSync(path, `${JSON.stringify({ atMs: Date.now(), held, collected: collected.filter((ms) => ms >= WORTH_NOTING_MS) })}\n`);
    held = [];
    collected = [];
    endMs = Date.now() + 1_000;
    before = cpuMs();
  }, RESOLUTION_MS).unref();
}

/** CPU time of this thread: preemption by others on a busy host does not count. */
function cpuMs(): number {
  const { user, system } = threadCpuUsage();
  return (user + system) / 1_000;
}
