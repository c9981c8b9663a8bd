import type { Steps } from '../../base/async/steps.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import { type PolicyDecision, type PolicyDirection, policyDirections, type SubjectClass } from '../matrix/matrix.ts';
import type { ContentNames } from './content.ts';
import type { DecisionRows } from './decision-rows.ts';
import type { DirectionRows } from './flows-matrix.ts';
import type { NumberPool } from './number-pool.ts';
import { classKindOf, type NumberKind } from './recovered-numbers.ts';

/** Move of all pods of one class to another class that has no pod yet. */
export interface ClassMove {
  readonly from: SubjectClass;
  readonly to: SubjectClass;
  readonly pods: readonly string[];
}

/**
 * Class that keeps its number while its content changes: rows that differ are edited in place, and the pods' entry flows stay. All edits
 * must take effect at once.
 */
export interface ClassEdit extends ClassMove {
  /** Keys of relations of both contents. */
  readonly keys: readonly string[];
  /** Decisions that take over the number of another one, by name. */
  readonly successors: ReadonlyMap<Owner, Owner>;
  /** Decisions that get a number of their own. */
  readonly others: ReadonlySet<Owner>;
  /** Number of flows that are added or removed. */
  readonly size: number;
}

/** Row of relations as it is written: it loads a decision, or sets a verdict. */
export interface WrittenRelation {
  readonly owner: Owner;
  readonly decision?: Owner;
  readonly outcome?: string;
}

/** Rows of a direction, as an edit needs them. */
export interface EditedRows {
  readonly names: ContentNames;
  readonly numbers: Readonly<Record<NumberKind, NumberPool>>;
  readonly podsOf: (subject: SubjectClass) => number;
  readonly relationOf: (key: string) => WrittenRelation | undefined;
  readonly decisions: Pick<DecisionRows, 'sizeOf' | 'differing'>;
}

/** Returns the class of a pod in one tier before and after a round; undefined if it has none. */
type ClassesOfPod = (pod: string) => readonly [before: SubjectClass | undefined, after: SubjectClass | undefined];

/** Returns the moves of whole classes in one tier. @param pods pods that were added, removed or changed */
export function classMoves({ names, numbers, podsOf }: EditedRows, pods: Iterable<string>, classesOf: ClassesOfPod): readonly ClassMove[] {
  const moves = new Map<SubjectClass, { readonly to: SubjectClass | undefined; readonly pods: string[]; isSplit: boolean }>();
  const joined = new Map<SubjectClass, Set<SubjectClass>>();
  for (const pod of pods) {
    const [from, to] = classesOf(pod);
    if (from === to) continue;
    if (to && from) joined.set(to, (joined.get(to) ?? new Set()).add(from));
    else if (to) joined.set(to, joined.get(to) ?? new Set());
    if (!from) continue;
    const known = moves.get(from) ?? { to, pods: [], isSplit: false };
    moves.set(from, known);
    known.pods.push(pod);
    known.isSplit ||= known.to !== to;
  }
  return [...moves].flatMap(([from, { to, pods: moved, isSplit }]) => {
    const isWhole = to !== undefined && !isSplit && podsOf(from) === moved.length && !joined.has(from);
    return isWhole && joined.get(to)?.size === 1 && !numbers[classKindOf(to)].isKnown(names.class(to)) ? [{ from, to, pods: moved }] : [];
  });
}

/** Relations of one class, by the peer part of their keys. */
interface ClassRelations {
  readonly keys: string[];
  readonly was: Map<string, WrittenRelation>;
  readonly will: Map<string, PolicyDecision>;
}

/**
 * Computes the edits of a direction.
 *
 * @param moves all moves of this direction
 * @param changed keys of relations that were added, removed or changed
 */
export function* classEdits(
  rows: EditedRows,
  moves: readonly ClassMove[],
  changed: ReadonlySet<string>,
  { relations }: Pick<DirectionRows, 'relations'>,
): Steps<readonly ClassEdit[]> {
  const byClass = new Map<string, ClassRelations>();
  for (const { from, to } of moves) {
    const both: ClassRelations = { keys: [], was: new Map(), will: new Map() };
    byClass.set(`${from.id}`, both).set(`${to.id}`, both);
  }
  const named = new Set<Owner>();
  for (const key of changed) {
    const [id = '', ...peers] = key.split(' ');
    const [was, will, both] = [rows.relationOf(key), relations.get(key), byClass.get(id)];
    both?.keys.push(key);
    if (was) both?.was.set(peers.join(), was);
    if (will) both?.will.set(peers.join(), will);
    if (will && will.ranges.length > 0) named.add(rows.names.decision(will));
    yield;
  }
  const edits: ClassEdit[] = [];
  const inherited = new Set<Owner>();
  for (const move of moves) {
    const both = byClass.get(`${move.from.id}`);
    if (!both) continue;
    const edit = editOf(rows, move, both, { named, inherited });
    for (const name of edit.successors.keys()) inherited.add(name);
    edits.push(edit);
    yield;
  }
  return edits;
}

interface RoundDecisions {
  /** Decisions to which changed relations will refer. */
  readonly named: ReadonlySet<Owner>;
  /** Decisions among them that already take over a number. */
  readonly inherited: ReadonlySet<Owner>;
}

function editOf(rows: EditedRows, move: ClassMove, { keys, was, will }: ClassRelations, round: RoundDecisions): ClassEdit {
  const { names, numbers, decisions } = rows;
  const successors = successorsOf(rows, was, will, round);
  const others = new Set<Owner>();
  let size = 1; // the row that names the class by its number
  for (const peers of new Set([...was.keys(), ...will.keys()])) {
    const [before, after] = [was.get(peers), will.get(peers)];
    const name = after && after.ranges.length > 0 ? names.decision(after) : undefined;
    if (name !== undefined && !successors.has(name) && !round.inherited.has(name) && !numbers.decision.isKnown(name) && !others.has(name)) {
      others.add(name);
      size += after ? decisions.sizeOf(after) : 0;
    }
    const isKept =
      name === undefined ? after && before?.outcome === names.outcome(after.otherwise) : leadsOn(before?.decision, name, successors);
    if (!isKept) size++;
  }
  for (const [name, from] of successors) {
    const next = [...will.values()].find((each) => each.ranges.length > 0 && names.decision(each) === name);
    size += next ? decisions.differing(from, next) : 0;
  }
  return { ...move, keys, successors, others, size };
}

function leadsOn(before: Owner | undefined, name: Owner, successors: ReadonlyMap<Owner, Owner>): boolean {
  return before !== undefined && (before === name || successors.get(name) === before);
}

/**
 * Pairs decisions with successors. A decision that only relations of this class use, and none of them from now on, passes its number to the
 * decision that replaces it.
 */
function successorsOf(
  { names, numbers }: EditedRows,
  was: ReadonlyMap<string, WrittenRelation>,
  will: ReadonlyMap<string, PolicyDecision>,
  { named, inherited }: RoundDecisions,
): ReadonlyMap<Owner, Owner> {
  const uses = new Map<Owner, number>();
  for (const { decision } of was.values()) if (decision !== undefined) uses.set(decision, (uses.get(decision) ?? 0) + 1);
  const successors = new Map<Owner, Owner>();
  const left = new Set<Owner>();
  for (const [peers, after] of will) {
    const before = was.get(peers)?.decision;
    if (before === undefined || after.ranges.length === 0 || named.has(before) || left.has(before)) continue;
    const name = names.decision(after);
    if (successors.has(name) || inherited.has(name) || numbers.decision.isKnown(name)) continue;
    if (numbers.decision.usesOf(before) !== uses.get(before)) continue;
    successors.set(name, before);
    left.add(before);
  }
  return successors;
}

/** Pods of moves, by direction and tier. */
export function podsByPlace(moves: Readonly<Record<PolicyDirection, readonly ClassMove[]>>): ReadonlyMap<string, ReadonlySet<string>> {
  const places = new Map<string, Set<string>>();
  for (const direction of policyDirections)
    for (const { from, pods } of moves[direction]) {
      const place = `${direction} ${from.tier ?? 'networkPolicy'}`;
      places.set(place, new Set([...(places.get(place) ?? []), ...pods]));
    }
  return places;
}
