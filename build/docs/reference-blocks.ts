import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { Command, Option } from 'commander';
import { parse } from 'yaml';
import { operatorActions, operatorRoutes, publicRoutes } from '../../src/operations/admin/routes.ts';
import { plain } from '../../src/seinectl/paint.ts';
import { programFor } from '../../src/seinectl/program.ts';
import { apiPaths } from './api-paths.ts';
import { commandExamples } from './command-examples.ts';

/*
 * Blocks of `docs/reference/{seinectl,api,alerts}.md`. A command without an example and a path without a description are errors, and so are
 * an example or a description of an unknown command or path.
 */

/** One section for each command: synopsis, description, options, example. */
export function commandSections(): string {
  const terminal = { room: { width: 100, paint: plain }, line: () => undefined, remark: () => undefined };
  const leaves = leavesOf(programFor(terminal, Readable.from([])).command);
  sameNames(
    'commands',
    leaves.map(({ words }) => words),
    Object.keys(commandExamples),
  );
  const common = commonOptions(leaves);
  const sections = leaves.map((leaf) => commandSection(leaf, common));
  return ['Common options:', optionsTable([...common]), ...sections].join('\n\n');
}

interface Leaf {
  readonly words: string;
  readonly command: Command;
}

/** A command with options of its own runs also without one of its inner commands. */
function leavesOf(command: Command, words = ''): readonly Leaf[] {
  if (command.commands.length === 0) return [{ words, command }];
  const own = words !== '' && command.options.length > 0 ? [{ words, command }] : [];
  return [...own, ...command.commands.flatMap((each) => leavesOf(each, `${words} ${each.name()}`.trim()))];
}

/** An option with one description that this many commands have is described once, above all sections. */
const COMMON_FROM = 4;

function commonOptions(leaves: readonly Leaf[]): ReadonlySet<string> {
  const rows = leaves.flatMap(({ command }) => command.options.filter(({ hidden }) => !hidden).map(optionRow));
  return new Set(rows.filter((row) => rows.filter((other) => other === row).length >= COMMON_FROM));
}

const optionRow = ({ flags, description }: Pick<Option, 'flags' | 'description'>): string => `| \`${flags}\` | ${cell(description)} |`;
const optionsTable = (rows: readonly string[]): string => ['| Option | Meaning |', '|---|---|', ...rows].join('\n');

function commandSection({ words, command }: Leaf, common: ReadonlySet<string>): string {
  const values = command.registeredArguments.map((each) => {
    const name = `${each.name().toUpperCase()}${each.variadic ? '…' : ''}`;
    return each.required ? name : `[${name}]`;
  });
  const own = command.options
    .filter(({ hidden }) => !hidden)
    .map(optionRow)
    .filter((row) => !common.has(row));
  const shared = command.options.filter((option) => common.has(optionRow(option))).map(({ long }) => `\`${long}\``);
  return [
    `### ${words}`,
    `\`${['seinectl', words, ...values].join(' ')}\`: ${command.description()}.`,
    ...(own.length === 0 ? [] : [optionsTable(own)]),
    ...(shared.length === 0 ? [] : [`Common options: ${shared.join(', ')}.`]),
    ['```sh', commandExamples[words], '```'].join('\n'),
  ].join('\n\n');
}

/** A row for each path: permitted callers, parameters, answer. */
export function pathsTable(): string {
  // Handlers use their sources only when called; none is called here.
  const noSources = { agent: {} } as never;
  const anyone = Object.keys(publicRoutes(noSources));
  const served = [
    ...Object.keys(operatorRoutes(noSources)).map((path) => `GET ${path}`),
    ...Object.keys(operatorActions(noSources)).map((path) => `POST ${path}`),
  ];
  sameNames('paths', served, Object.keys(apiPaths));
  const rows = served.map((name) => {
    const [method = '', path = ''] = name.split(' ');
    const { parameters = [], does } = apiPaths[name] ?? { does: '' };
    const caller = method === 'GET' && anyone.includes(path) ? 'root; local processes' : 'root';
    return `| \`${method}\` | \`${path}\` | ${caller} | ${parameters.map((each) => `\`${each}\``).join(', ')} | ${does} |`;
  });
  return ['| Method | Path | Caller | Parameters | Answer |', '|---|---|---|---|---|', ...rows].join('\n');
}

interface Alert {
  readonly alert: string;
  readonly for?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<'summary' | 'runbook', string>>;
}

/** A row for each rule of `alerts.yaml`. */
export function alertsTable(): string {
  const rows = alertRules().map(({ alert, labels, annotations, for: lasting = '' }) => {
    const runbook = annotations.runbook.replace(/^docs\/(?:reference\/)?/, (folder) => (folder === 'docs/' ? '../' : ''));
    return `| \`${alert}\` | ${labels['severity']} | ${lasting} | ${cell(filled(annotations.summary))} | [runbook](${runbook}) |`;
  });
  return ['| Alert | Severity | For | Meaning | Remedy |', '|---|---|---|---|---|', ...rows].join('\n');
}

function alertRules(): readonly Alert[] {
  const file = join(import.meta.dirname, '..', 'observability', 'alerts.yaml');
  const { groups } = parse(readFileSync(file, 'utf8')) as { groups: readonly { rules: readonly Alert[] }[] };
  return groups.flatMap(({ rules }) => rules);
}

/** Replaces Prometheus' templates by the names of their values. */
function filled(text: string): string {
  return text.trim().replaceAll(/\{\{ \$(?:labels\.)?(\w+)[^}]*\}\}/g, '*$1*');
}

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

function sameNames(what: string, there: readonly string[], described: readonly string[]): void {
  const missing = there.filter((name) => !described.includes(name));
  const extra = described.filter((name) => !there.includes(name));
  if (missing.length + extra.length > 0)
    throw new Error(`${what} without a description: ${missing.join(', ')}; descriptions of none: ${extra.join(', ')}`);
}
