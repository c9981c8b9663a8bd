import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ranAgain } from './upstream-report.mjs';

/** Number of kept runs per order of the families: the newest. */
const keptMost = 3;
const fileName = /^e2e-(.+)-(\d+)\.json$/;

/**
 * The recorded runs, grouped by order of the families, the oldest first.
 *
 * @param {string} folder
 */
export function recordedRuns(folder) {
  return recordFiles(folder).map(({ file }) => JSON.parse(readFileSync(file, 'utf8')));
}

/** Keeps a whole run next to the earlier ones of its order, and marks those of their failures that did not recur. */
export function recordRun(folder, summary) {
  mkdirSync(folder, { recursive: true });
  recordPart(folder, summary);
  const kept = ofOrder(folder, summary.families);
  const number = (kept.at(-1)?.number ?? 0) + 1;
  write(join(folder, `e2e-${orderIn(summary.families)}-${number}.json`), summary);
  for (const { file } of kept.slice(0, Math.max(0, kept.length + 1 - keptMost))) rmSync(file);
}

/** Marks failures of the runs of its order that did not recur in this one, which may be a part. */
export function recordPart(folder, summary) {
  for (const { file } of ofOrder(folder, summary.families)) write(file, ranAgain(JSON.parse(readFileSync(file, 'utf8')), summary));
}

function recordFiles(folder) {
  const found = readdirSync(folder).flatMap((name) => {
    const [, order, number] = fileName.exec(name) ?? [];
    return order === undefined ? [] : [{ order, number: Number(number), file: join(folder, name) }];
  });
  return found.toSorted((a, b) => (a.order === b.order ? a.number - b.number : a.order < b.order ? -1 : 1));
}

const ofOrder = (folder, families) => recordFiles(folder).filter(({ order }) => order === orderIn(families));
const orderIn = (families) => families.replace(',', '-');

function write(file, run) {
  writeFileSync(file, `${JSON.stringify(run, undefined, 1)}\n`);
}
