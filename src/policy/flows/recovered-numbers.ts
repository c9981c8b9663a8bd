import { cookieOf } from '../../dataplane/pipeline/cookie.ts';
import { reg } from '../../dataplane/pipeline/fields.ts';
import type { RecoveredFlow } from '../../dataplane/pipeline/recovered-flow.ts';
import type { Mark } from '../../dataplane/pipeline/registers.ts';
import type { ContentNames } from './content.ts';
import type { RecoveredNumbers } from './number-pool.ts';
import { type DirectionTables, dictionaryPriority, otherwisePriority, relationPriority } from './rows.ts';

/** Kinds of contents that have numbers: classes of local pods, the two parts of an identity, decisions. */
export const numberKinds = ['class', 'coarse', 'fine', 'decision'] as const;
export type NumberKind = (typeof numberKinds)[number];

export type RecoveredNumbersByKind = Readonly<Record<NumberKind, RecoveredNumbers>>;

/**
 * Reads the numbers that the bridge has in one direction, and the contents they are allocated to. A row that names a number with its cookie
 * identifies the content. Any other row that matches or loads a number only keeps it from being allocated to another content. A class with
 * transition rows is not used under its name.
 */
export function recoveredNumbers(
  tables: DirectionTables,
  flows: Iterable<RecoveredFlow>,
  names: Pick<ContentNames, 'passing'>,
): RecoveredNumbersByKind {
  const lent = Object.fromEntries(numberKinds.map((kind) => [kind, new Numbers()])) as Record<NumberKind, Numbers>;
  for (const flow of flows) {
    if (![tables.entry, tables.identity, tables.relations, tables.decisions].includes(flow.table)) continue;
    for (const kind of numberKinds) {
      const [matched, loaded] = [numberIn(flow.regs, markOf(tables, kind)), numberIn(flow.loads, markOf(tables, kind))];
      if (matched !== undefined) lent[kind].see(matched, isNamedBy(tables, flow, kind) ? flow.cookie : undefined);
      if (loaded !== undefined) lent[kind].see(loaded, undefined);
    }
    const related = flow.table === tables.relations ? relatedNumbers(tables, flow) : [];
    const [subject, ...peers] = related;
    if (subject !== undefined && peers.length > 0 && cookieOf(names.passing(related)) === flow.cookie) lent.class.misname(subject);
  }
  return { class: lent.class.result(), coarse: lent.coarse.result(), fine: lent.fine.result(), decision: lent.decision.result() };
}

/** Returns the numbers that a row of relations matches: class, coarse and fine part of the peer. */
export function relatedNumbers(tables: DirectionTables, { regs }: Pick<RecoveredFlow, 'regs'>): readonly number[] {
  const told = (['class', 'coarse', 'fine'] as const).map((kind) => numberIn(regs, markOf(tables, kind)));
  const missing = told.indexOf(undefined);
  return told.slice(0, missing < 0 ? told.length : missing) as number[];
}

export function markOf(tables: DirectionTables, kind: NumberKind): (number: number) => Mark {
  if (kind === 'class') return reg.networkPolicyClass;
  return kind === 'decision' ? reg.decision : tables[kind];
}

/** Reports whether the row's owner is the content of the number. */
function isNamedBy({ identity, relations, decisions }: DirectionTables, { table, priority }: RecoveredFlow, kind: NumberKind): boolean {
  if (kind === 'class') return table === relations && priority === relationPriority.class;
  if (kind === 'decision') return table === decisions && priority === otherwisePriority;
  return table === identity && priority === dictionaryPriority[kind];
}

/** Returns the number in a register field; undefined if the row does not have all bits of the field. */
export function numberIn(regs: RecoveredFlow['regs'], of: (number: number) => Mark): number | undefined {
  const { reg: register, mask } = of(0);
  const found = regs.find((each) => each.reg === register);
  if (!found || (found.mask & mask) >>> 0 !== mask >>> 0) return undefined;
  const unit = (mask & -mask) >>> 0;
  return ((found.value & mask) >>> 0) / unit;
}

class Numbers {
  readonly #byCookie = new Map<bigint, number>();
  readonly #cookies = new Map<number, bigint>();
  readonly #doubtful = new Set<bigint>();
  readonly #misnamed = new Set<number>();
  readonly #seen = new Set<number>();

  see(number: number, cookie: bigint | undefined): void {
    this.#seen.add(number);
    if (cookie === undefined) return;
    const [otherNumber, otherCookie] = [this.#byCookie.get(cookie) ?? number, this.#cookies.get(number) ?? cookie];
    if (otherNumber !== number || otherCookie !== cookie) for (const each of [cookie, otherCookie]) this.#doubtful.add(each);
    this.#byCookie.set(cookie, number);
    this.#cookies.set(number, cookie);
  }

  /** Marks a number whose content differs from the one that a row names. */
  misname(number: number): void {
    this.#misnamed.add(number);
  }

  result(): RecoveredNumbers {
    const isSure = (cookie: bigint, number: number): boolean => !this.#doubtful.has(cookie) && !this.#misnamed.has(number);
    return { byCookie: new Map([...this.#byCookie].filter(([cookie, number]) => isSure(cookie, number))), seen: this.#seen };
  }
}
