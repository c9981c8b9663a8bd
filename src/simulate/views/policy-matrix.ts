import { SeineError } from '../../base/errors/seine-error.ts';
import type { ReachObjects } from '../../policy/reach/objects.ts';
import { Reach } from '../../policy/reach/reach.ts';
import { reachTable } from '../../policy/reach/table.ts';
import type { MatrixCell, ReachMatrix } from '../../ui/answers/policy-matrix.ts';

/** Parties that a matrix shows. */
const NAMES_MAX = 80;

/** Computes the matrix of a namespace. @throws SeineError `INVALID_INPUT` for a namespace without pods */
export function matrixOf(objects: ReachObjects, namespace: string): ReachMatrix {
  const reach = new Reach(objects);
  const isOwn = (name: string): boolean => name.startsWith(`${namespace}/`);
  const everything = { range: () => true };
  const inside = reachTable(reach, { from: ({ name }) => isOwn(name), to: () => true, ...everything });
  const outside = reachTable(reach, { from: ({ name }) => !isOwn(name), to: ({ name }) => isOwn(name), ...everything });
  const rows = [...inside.rows, ...outside.rows];
  const all = [...new Set(rows.flatMap(({ from, to }) => [from, to]))];
  const own = all.filter(isOwn).toSorted();
  if (own.length === 0) throw new SeineError('INVALID_INPUT', `namespace ${namespace} has no pod with an address`);
  const decided = new Set(rows.filter(({ by, verdict }) => by.length > 0 || verdict === 'deny').flatMap(({ from, to }) => [from, to]));
  // Parties about which a policy decides first: the others are all alike.
  const others = all.filter((name) => !isOwn(name)).toSorted((a, b) => Number(decided.has(b)) - Number(decided.has(a)) || (a < b ? -1 : 1));
  const names = [...own, ...others].slice(0, NAMES_MAX);
  const shown = new Set(names);
  const cells = [...Map.groupBy(rows, ({ from, to }) => `${from}\n${to}`).values()].flatMap((of): MatrixCell[] => {
    const [first] = of;
    if (!first || !shown.has(first.from) || !shown.has(first.to)) return [];
    return [{ from: first.from, to: first.to, rows: of.map(({ from: _from, to: _to, ...row }) => row) }];
  });
  return {
    namespace,
    names,
    own: Math.min(own.length, NAMES_MAX),
    cells,
    more: all.length - names.length,
    confirmed: inside.confirmed + outside.confirmed,
    contradicted: inside.disagreements.length + outside.disagreements.length,
  };
}
