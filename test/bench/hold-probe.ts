/**
 * To be loaded into the agent beside its bundle (`NODE_OPTIONS=--import=…`): how long its event loop is held, to a file. Each line is a second:
 * when it ended (ms since 1970), the processor time of every turn of the loop that took a millisecond of it or more, and the longest collections of garbage.
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

/** Of this thread: what others take from it on a busy machine does not count. */
function cpuMs(): number {
  const { user, system } = threadCpuUsage();
  return (user + system) / 1_000;
}
