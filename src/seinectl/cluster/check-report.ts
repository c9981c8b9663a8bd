import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { safeLine } from '../escape.ts';
import type { Answers, NodeAnswer } from '../fleet/answers.ts';
import { grouped, nodesText } from '../fleet/grouped.ts';
import type { Room, TableColumn } from '../table.ts';
import { groupTable } from './group-table.ts';

/** Findings of one node. */
export interface NodeFindings {
  readonly counts: { readonly ok: number; readonly warning: number; readonly problem: number; readonly unknown: number };
  /** Findings that are not ok. */
  readonly findings: readonly BadFinding[];
}

type BadFinding = z.output<typeof findingSchema>;

/** Agents of other releases may have checks whose names this release does not know. */
const findingSchema = z.object({
  check: z.string(),
  state: z.enum(['ok', 'warning', 'problem', 'unknown']),
  what: z.string(),
  remedy: z.string().optional(),
});
const answerSchema = z.object({ findings: z.array(findingSchema) });

/** @param text output of `seinectl check --json`. @throws SeineError `PROTOCOL` if it is invalid */
export function findingsOf(text: string): NodeFindings {
  let findings: readonly BadFinding[];
  try {
    ({ findings } = answerSchema.parse(JSON.parse(text)));
  } catch (cause) {
    throw new SeineError('PROTOCOL', 'its answer is not a check', { cause });
  }
  const of = (state: BadFinding['state']): number => findings.filter((each) => each.state === state).length;
  return {
    counts: { ok: of('ok'), warning: of('warning'), problem: of('problem'), unknown: of('unknown') },
    findings: findings.filter(({ state }) => state !== 'ok'),
  };
}

type CheckedNode = NodeAnswer<NodeFindings>;

const sum = (rows: readonly CheckedNode[], of: (row: NodeFindings['counts']) => number): string =>
  String(rows.reduce((total, { answer }) => total + of(answer.counts), 0));

const columns: readonly TableColumn<readonly CheckedNode[]>[] = [
  { title: 'POOL', of: ([first]) => first?.pod.pool ?? '' },
  { title: 'NODES', of: (rows) => String(rows.length), align: 'right' },
  { title: 'OK', of: (rows) => sum(rows, ({ ok }) => ok), align: 'right' },
  { title: 'WARNINGS', of: (rows) => sum(rows, ({ warning }) => warning), align: 'right' },
  { title: 'PROBLEMS', of: (rows) => sum(rows, ({ problem }) => problem), align: 'right' },
  { title: 'NOT KNOWN', of: (rows) => sum(rows, ({ unknown }) => unknown), align: 'right' },
];

/** Table by pool; a line for each node if there is room. */
export function checkTable({ rows }: Answers<NodeFindings>, room: Room, wide: boolean): string[] {
  return groupTable(columns, rows, ({ pod }) => pod.pool, room, wide);
}

const MESSAGES_SHOWN = 3;
const marks = {
  problem: { tone: 'bad', sign: '!' },
  unknown: { tone: 'warning', sign: '?' },
  warning: { tone: 'warning', sign: '*' },
} as const;

/** Findings that are not ok, by check. */
export function badFindings({ rows }: Answers<NodeFindings>, { paint }: Room): string[] {
  const found = rows.flatMap(({ pod, answer }) => answer.findings.map((finding) => ({ node: pod.node, finding })));
  return (['problem', 'unknown', 'warning'] as const).flatMap((state) =>
    grouped(
      found.filter(({ finding }) => finding.state === state),
      ({ finding }) => finding.check,
    ).flatMap(([check, of]) => [
      `${paint(marks[state].tone, marks[state].sign)} ${safeLine(check)} (${nodesText([...new Set(of.map(({ node }) => node))])})`,
      ...wordsOf(of.map(({ finding }) => finding)),
    ]),
  );
}

function wordsOf(findings: readonly BadFinding[]): string[] {
  const sentences = grouped(findings, ({ what }) => what);
  const more = sentences.length - MESSAGES_SHOWN;
  const remedy = findings.map(({ remedy }) => remedy).find((each) => each !== undefined);
  return [
    ...sentences.slice(0, MESSAGES_SHOWN).map(([what, of]) => `    ${safeLine(what)}${of.length > 1 ? ` (${of.length} times)` : ''}`),
    ...(more > 0 ? [`    and ${more} others`] : []),
    ...(remedy === undefined ? [] : [`    remedy: ${safeLine(remedy)}`]),
  ];
}
