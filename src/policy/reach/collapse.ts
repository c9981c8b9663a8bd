import type { Unit } from './units.ts';

/** Rows with the same outcome, for all pairs of `from` and `to`. */
interface CollapsedRow<T> {
  /** Names: `shop/api`, `shop/*` for all of a namespace, `*` for all pods. */
  readonly from: readonly string[];
  readonly to: readonly string[];
  readonly outcome: T;
}

interface PairRow {
  readonly from: string;
  readonly to: string;
}

/** Merges rows that differ in their ends only, and names whole namespaces. Sorted as the first of the merged rows were. */
export function collapse<T extends PairRow>(rows: readonly T[], units: readonly Unit[]): readonly CollapsedRow<Omit<T, 'from' | 'to'>>[] {
  const names = new UnitNames(units);
  const byOutcome = Map.groupBy(rows, ({ from, to, ...outcome }) => JSON.stringify(outcome));
  return [...byOutcome.values()].flatMap((same) => {
    const [first] = same;
    if (!first) return [];
    const { from, to, ...outcome } = first;
    const byFrom = Map.groupBy(same, (row) => row.from);
    const destinations = [...byFrom].map(([source, own]) => ({
      source,
      to: names.shortened(
        own.map((row) => row.to),
        source,
      ),
    }));
    const merged = Map.groupBy(destinations, (each) => JSON.stringify(each.to));
    return [...merged.values()].map((group) => ({
      from: names.shortened(group.map(({ source }) => source)),
      to: group[0]?.to ?? [],
      outcome,
    }));
  });
}

class UnitNames {
  readonly #namespaces: ReadonlyMap<string, readonly string[]>;
  readonly #pods: ReadonlySet<string>;
  readonly #alone: ReadonlySet<string>;

  constructor(units: readonly Unit[]) {
    const pods = units.filter(({ parties }) => parties[0]?.is === 'pod').map(({ name }) => name);
    this.#pods = new Set(pods);
    this.#namespaces = Map.groupBy(pods, namespaceOf);
    this.#alone = new Set(units.filter(({ parties }) => parties.length === 1).map(({ name }) => name));
  }

  /** @param source end that has no row with itself if it is a single pod */
  shortened(names: readonly string[], source?: string): readonly string[] {
    const given = new Set(names);
    const isThere = (name: string): boolean => given.has(name) || (name === source && this.#alone.has(name));
    const whole = new Set([...this.#namespaces].flatMap(([namespace, own]) => (own.length > 1 && own.every(isThere) ? [namespace] : [])));
    const isEveryPod = this.#namespaces.size > 1 && [...this.#namespaces.values()].every((own) => own.every(isThere));
    const others = [...given].filter((name) => !(this.#pods.has(name) && (isEveryPod || whole.has(namespaceOf(name)))));
    return isEveryPod ? ['*', ...others] : [...[...whole].map((namespace) => `${namespace}/*`), ...others].sort();
  }
}

function namespaceOf(name: string): string {
  return name.slice(0, name.indexOf('/'));
}
