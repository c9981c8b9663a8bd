import { readFileSync, writeFileSync } from 'node:fs';

/** Time after which vitest has ended its workers. */
const endMs = Number(process.env.SEINE_TEST_GRACE_S ?? 60) * 1000;

/** Monotonic clock of the host, the same for all processes. */
export function monotonicMs() {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

/** Content that `reporter.ts` has written so far. */
export function readRecord(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined; // no test has begun
  }
}

/** Adds problems of the run itself to the results that `reporter.ts` wrote. */
export function addFailures(file, lines) {
  const record = readRecord(file);
  if (record !== undefined && lines.length > 0)
    writeFileSync(file, JSON.stringify({ ...record, failures: [...record.failures, ...lines] }));
}

/** Why the run will not end by itself; undefined while it may. */
export function whyStuck(record, now = monotonicMs()) {
  if (record === undefined) return undefined;
  const quietMs = now - record.atMs;
  if (record.ended) return quietMs > endMs ? `all tests are over, and vitest is still there ${inSeconds(endMs)} later` : undefined;
  if (quietMs <= record.allowedMs + endMs) return undefined;
  const running = record.running.flatMap(({ name, tests }) => (tests.length === 0 ? [name] : tests.map((test) => `${name} > ${test}`)));
  return `no test has ended for ${inSeconds(quietMs)}, longer than any that runs may take; running:\n  ${running.join('\n  ')}`;
}

/** Lines that name the slowest files. */
export function slowest(record, count) {
  return record.files
    .toSorted((a, b) => b.ms - a.ms)
    .slice(0, count)
    .map(({ name, ms }) => `${(ms / 1000).toFixed(1).padStart(7)} s  ${name}`);
}

function inSeconds(ms) {
  return `${Math.round(ms / 1000)} s`;
}
