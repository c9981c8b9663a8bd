import * as z from 'zod';
import type { ClusterNow, ProblemGroup, ReasonDrops, VersionGroup } from '../../ui/answers/cluster-now.ts';
import type { NodeSummary } from '../cluster/node-summary.ts';
import type { Answers, NodeAnswer } from '../fleet/answers.ts';
import { grouped } from '../fleet/grouped.ts';
import { groupsOf, NAMES_LISTED, namesOf, silentGroups, TEXT_CHARACTERS_MAX } from './node-groups.ts';

/** Answers of one agent. */
export interface NodeNow {
  readonly summary: NodeSummary;
  /** Absent for an agent without `/v1/drops`, or without a relay. */
  readonly drops?: readonly NodeDrops[];
}

type NodeDrops = z.output<typeof dropSchema>;
type NodeRow = NodeAnswer<NodeNow>;

const MESSAGES_LISTED = 3;
const DROPS_MAX = 200;

const shortText = z.string().transform((text) => text.slice(0, TEXT_CHARACTERS_MAX));
const dropSchema = z.object({
  name: shortText,
  message: shortText,
  cause: shortText,
  remedy: shortText,
  packets: z.string().regex(/^\d{1,20}$/),
});

/** @throws ZodError for an answer of another form */
export function dropsOf(answer: unknown): readonly NodeDrops[] {
  return z.object({ items: z.array(dropSchema).max(DROPS_MAX) }).parse(answer).items;
}

/** Combines the answers of all agents. @param before packets by reason at the last refresh, which it replaces */
export function nowOf(cluster: string, { rows, failures, fleet }: Answers<NodeNow>, before: Map<string, bigint>): ClusterNow {
  const ages = rows.flatMap(({ answer: { summary } }) => (summary.oldestCheckSeconds === null ? [] : [summary.oldestCheckSeconds]));
  const notReady = rows.filter(({ answer }) => !answer.summary.ready);
  return {
    cluster,
    agents: rows.length + failures.length,
    answered: rows.length,
    ready: rows.length - notReady.length,
    silent: silentGroups(failures),
    withoutAgent: fleet.without,
    notReady: groupsOf(notReady, ({ answer }) => answer.summary.reason ?? 'no reason'),
    problems: problemsOf(rows),
    overdue: groupsOf(
      rows.filter(({ answer }) => answer.summary.staleChecks.length > 0),
      ({ answer }) => answer.summary.staleChecks.join(', '),
    ),
    groups: versionsOf(rows),
    drops: dropsOfFleet(rows, before),
    oldestCheckSeconds: ages.length === 0 ? null : Math.max(...ages),
  };
}

function problemsOf(rows: readonly NodeRow[]): ProblemGroup[] {
  const found = rows.flatMap(({ pod, answer }) => answer.summary.problems.map((problem) => ({ pod, problem })));
  return grouped(found, ({ problem }) => problem.kind).map(([kind, of]) => {
    const remedy = of.map(({ problem }) => problem.remedy).find((each) => each !== undefined);
    return {
      text: kind,
      ...namesOf(of.map(({ pod }) => pod.node)),
      messages: grouped(of, ({ problem }) => problem.message)
        .slice(0, MESSAGES_LISTED)
        .map(([message, same]) => `${message.slice(0, TEXT_CHARACTERS_MAX)}${same.length > 1 ? ` (${same.length} times)` : ''}`),
      ...(remedy === undefined ? {} : { remedy }),
    };
  });
}

function versionsOf(rows: readonly NodeRow[]): VersionGroup[] {
  const groups = Map.groupBy(rows, ({ pod, answer: { summary } }) =>
    JSON.stringify([pod.pool, summary.versions.seine, summary.versions.ovs, summary.dataPath, summary.policy.mode]),
  );
  return [...groups.values()]
    .flatMap((of): VersionGroup[] => {
      const [first] = of;
      if (!first) return [];
      const { versions, dataPath, policy } = first.answer.summary;
      return [{ pool: first.pod.pool, seine: versions.seine, ovs: versions.ovs, dataPath, policies: policy.mode, count: of.length }];
    })
    .toSorted((a, b) => b.count - a.count);
}

function dropsOfFleet(rows: readonly NodeRow[], before: Map<string, bigint>): ReasonDrops[] {
  const found = rows.flatMap(({ pod, answer }) => (answer.drops ?? []).map((drop) => ({ node: pod.node, drop })));
  const isFirst = before.size === 0;
  const reasons = [...Map.groupBy(found, ({ drop }) => drop.name)].flatMap(([name, of]): (ReasonDrops & { readonly total: bigint })[] => {
    const [first] = of;
    const total = of.reduce((sum, { drop }) => sum + BigInt(drop.packets), 0n);
    if (!first || total === 0n) return [];
    const since = total - (before.get(name) ?? 0n);
    const { message, cause, remedy } = first.drop;
    const nodes = of
      .filter(({ drop }) => drop.packets !== '0')
      .toSorted((a, b) => (BigInt(b.drop.packets) > BigInt(a.drop.packets) ? 1 : -1))
      .map(({ node }) => node);
    // Counters begin again when flows are installed again.
    const recent = isFirst || since < 0n ? null : String(since);
    return [{ name, message, cause, remedy, packets: String(total), recent, nodes: nodes.slice(0, NAMES_LISTED), total }];
  });
  before.clear();
  // One entry marks that there was a refresh, also without drops.
  before.set('', 0n);
  for (const { name, total } of reasons) before.set(name, total);
  return reasons.toSorted((a, b) => (b.total > a.total ? 1 : -1)).map(({ total: _, ...reason }) => reason);
}
