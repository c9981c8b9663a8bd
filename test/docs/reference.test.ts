import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { configKeys } from '../../src/agent/config/agent-config.ts';
import { checkNames } from '../../src/api/check.ts';
import { problemKinds } from '../../src/api/problem.ts';
import { cniCodes } from '../../src/cni/errors.ts';
import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { METRIC_PREFIX, metricRows, processRows } from '../../src/operations/admin/metrics/metric-rows.ts';
import { operatorActions, operatorRoutes } from '../../src/operations/admin/routes.ts';
import { plain } from '../../src/seinectl/paint.ts';
import { programFor } from '../../src/seinectl/program.ts';
import { alertRules } from '../support/observability.ts';

/*
 * Everything that users can see by name is in a reference page. The pages are read as files: a generator that forgets a name fails here.
 */

const read = (path: string): string => readFileSync(join(import.meta.dirname, '..', '..', 'docs', path), 'utf8');

function commandsOf(command: Command, words = ''): readonly string[] {
  if (command.commands.length === 0) return [words];
  const own = words !== '' && command.options.length > 0 ? [words] : [];
  return [...own, ...command.commands.flatMap((each) => commandsOf(each, `${words} ${each.name()}`.trim()))];
}

const terminal = { room: { width: 100, paint: plain }, line: () => undefined, remark: () => undefined };
// Handlers take their sources when they are called; none is called here.
const noSources = { agent: {} } as never;

const references: readonly { readonly what: string; readonly page: string; readonly entries: readonly string[] }[] = [
  {
    what: 'metric',
    page: 'reference/metrics.md',
    entries: [...Object.keys(metricRows).map((name) => METRIC_PREFIX + name), ...Object.keys(processRows)].map((name) => `| \`${name}\` |`),
  },
  { what: 'alert', page: 'reference/alerts.md', entries: alertRules().map(({ alert }) => `| \`${alert}\` |`) },
  {
    what: 'command',
    page: 'reference/seinectl.md',
    entries: commandsOf(programFor(terminal, Readable.from([])).command).map((words) => `\n### ${words}\n`),
  },
  {
    what: 'HTTP path',
    page: 'reference/api.md',
    entries: [
      ...Object.keys(operatorRoutes(noSources)).map((path) => `| \`GET\` | \`${path}\` |`),
      ...Object.keys(operatorActions(noSources)).map((path) => `| \`POST\` | \`${path}\` |`),
    ],
  },
  { what: 'configuration key', page: 'configuration.md', entries: configKeys().map((key) => `\`${key}\``) },
  {
    what: 'OpenFlow table',
    page: 'design/pipeline.md',
    entries: Object.entries(tables).map(([name, { id }]) => `| ${id} | \`${name}\` |`),
  },
  { what: 'finding', page: 'reference/seinectl.md', entries: Object.keys(checkNames).map((name) => `| \`${name}\` |`) },
  { what: 'problem', page: 'reference/seinectl.md', entries: Object.keys(problemKinds).map((kind) => `| \`${kind}\` |`) },
  { what: 'CNI error code', page: 'cni.md', entries: Object.values(cniCodes).map((code) => `| ${code} |`) },
];

describe.each(references)('each $what', ({ page, entries }) => {
  it(`is in ${page}`, () => {
    const text = read(page);
    expect(entries.length).toBeGreaterThan(10);
    expect(entries.filter((entry) => !text.includes(entry))).toEqual([]);
  });
});
