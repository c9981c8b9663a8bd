import { SeineError } from '../../base/errors/seine-error.ts';
import type { Family } from '../../base/net/ip.ts';
import { keyOf } from '../../policy/reach/objects.ts';
import { decidersOf, type ReachRange } from '../../policy/reach/ranges.ts';
import { Reach } from '../../policy/reach/reach.ts';
import { type ReachRow, reachTable } from '../../policy/reach/table.ts';
import { pairOf, type Unit, unitsOf } from '../../policy/reach/units.ts';
import type { CellUse, RowUse } from '../../ui/answers/cell-use.ts';
import { answersOf } from '../fleet/answers.ts';
import type { AgentReply } from '../fleet/query-agent.ts';
import { readObjects } from '../reach/sources.ts';
import { UsedConnections } from '../what-if/used-by-row.ts';
import { FILTER_NAMES_MAX, joinedRecords, noConnections, recordsQuestion } from '../what-if/used-connections.ts';
import type { ClusterConnection } from './cluster-connection.ts';
import { namesOf, silentGroups } from './node-groups.ts';

/** How far back connections count: as in `seinectl whatif` (s). */
const USED_SECONDS = 86_400;
/** Agents that are asked, and the time limit of each (ms). */
const NODES_MAX = 64;
const AGENT_TIMEOUT_MS = 15_000;

/** Answers how much the connections of a cell of the policy matrix were used. @throws SeineError `INVALID_INPUT` that names the field, `REFUSED`, `UNAVAILABLE` */
export async function usedAnswer(query: URLSearchParams, connection: ClusterConnection, signal: AbortSignal): Promise<CellUse> {
  const { kubeconfig, context, env } = connection.cluster;
  const reach = new Reach(await readObjects({ ...(kubeconfig && { kubeconfig }), ...(context && { context }) }, env, () => undefined));
  const units = unitsOf(reach);
  const [from, to] = [unitNamed(units, 'source', query), unitNamed(units, 'destination', query)];
  const rows = rowsBetween(reach, from, to);
  const pods = [...new Set([...from.parties, ...to.parties])].flatMap((party) => (party.is === 'pod' ? [party.pod] : []));
  const nodes = new Set(pods.flatMap(({ spec }) => spec.nodeName ?? []));
  const fleet = await connection.fleet(signal);
  const concerned = fleet.pods.filter(({ node }) => nodes.has(node));
  const { path, ...question } = recordsQuestion({ names: filterNames([from, to]), sinceSeconds: USED_SECONDS });
  const asked = { request: { path }, ...question, timeoutMs: AGENT_TIMEOUT_MS };
  const replies = await connection.ask(fleet, concerned.slice(0, NODES_MAX), asked, signal);
  connection.assertExecAllowed(answersOf(fleet, replies));
  const served = new Set(concerned.map(({ node }) => node));
  const without = [...nodes].filter((node) => !served.has(node));
  return {
    from: from.name,
    to: to.name,
    ...usedOf({ rows, units, replies, without, names: { from: from.name, to: to.name } }),
    notAsked: concerned.length - replies.length,
  };
}

/**
 * Names for the filter of the flow log, which compares the beginning: of workloads with many pods their own names, because without a filter each
 * node answers with all of its records.
 */
function filterNames(units: readonly Unit[]): readonly string[] {
  const podsOf = ({ parties }: Unit): string[] => parties.flatMap((party) => (party.is === 'pod' ? [keyOf(party.pod)] : []));
  const pods = units.flatMap(podsOf);
  if (pods.length <= FILTER_NAMES_MAX) return pods;
  return units.flatMap((unit) => {
    const own = podsOf(unit);
    return own.length > 1 && own.every((name) => name.startsWith(unit.name)) ? [unit.name] : own;
  });
}

/** @throws SeineError `INVALID_INPUT` for a name that no unit has */
function unitNamed(units: readonly Unit[], field: string, query: URLSearchParams): Unit {
  const name = query.get(field) ?? '';
  const unit = units.find((each) => each.name === name);
  if (!unit)
    throw new SeineError('INVALID_INPUT', `${field}: ${JSON.stringify(name.slice(0, 300))} is not one workload of the cluster now`);
  return unit;
}

type UnitRow = ReachRow & { readonly ranges: readonly ReachRange[] };

/** Returns the rows of the matrix's cell, with their ports as numbers. */
function rowsBetween(reach: Reach, from: Unit, to: Unit): readonly UnitRow[] {
  const pair = pairOf(from, to);
  if (!pair) return [];
  const { families } = reach.between(...pair);
  const { rows } = reachTable(reach, { from: ({ name }) => name === from.name, to: ({ name }) => name === to.name, range: () => true });
  const [anyFamily = []] = families.values();
  return rows.map((row) => {
    const ranges = row.family === undefined ? anyFamily : (families.get(row.family) ?? []);
    const isOfRow = (range: ReachRange): boolean => range.verdict === row.verdict && decidersOf(range).join('\n') === row.by.join('\n');
    return { ...row, ranges: ranges.filter(isOfRow) };
  });
}

type AgentRecords = ReturnType<ReturnType<typeof recordsQuestion>['understand']>;

interface CellEvidence {
  readonly names: { readonly from: string; readonly to: string };
  readonly rows: readonly UnitRow[];
  readonly units: readonly Unit[];
  readonly replies: readonly AgentReply<AgentRecords>[];
  /** Nodes of the pods without an agent's pod. */
  readonly without: readonly string[];
}

/** Counts the records of each row. Pure. */
function usedOf({ names, rows, units, replies, without }: CellEvidence): Omit<CellUse, 'from' | 'to' | 'notAsked'> {
  const { logged, flows, completeFrom, lost } = joinedRecords([...replies]);
  const uses = new UsedConnections({ ...noConnections, flows }, units, new Map());
  const failures = replies.flatMap((reply) => ('failure' in reply ? [reply] : []));
  const off = replies.flatMap((reply) => ('answer' in reply && !reply.answer.isOn ? [reply.pod.node] : []));
  return {
    seconds: USED_SECONDS,
    rows: rows.map((row) => rowUse(row, logged.length > 0 ? uses.of(askedOf(names, row)) : undefined)),
    logged: logged.length,
    completeFrom: completeFrom ?? null,
    lost,
    unknown: [
      ...(off.length > 0 ? [{ text: 'The flow log is off.', ...namesOf(off) }] : []),
      ...(without.length > 0 ? [{ text: "There is no agent's pod.", ...namesOf(without) }] : []),
      ...silentGroups(failures),
    ],
  };
}

function askedOf({ from, to }: CellEvidence['names'], { family, ranges, verdict }: UnitRow): Parameters<UsedConnections['of']>[0] {
  const change = verdict === 'allow' ? 'closed' : 'opened';
  return { from: [from], to: [to], family: family as Family | undefined, ranges, change };
}

function rowUse({ ports, verdict, family }: UnitRow, use: ReturnType<UsedConnections['of']> | undefined): RowUse {
  return { ports, verdict, ...(family && { family }), recorded: use?.recorded ?? null, last: use?.last ?? null };
}
