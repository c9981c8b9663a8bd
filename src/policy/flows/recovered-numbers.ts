import { cookieOf } from '../../dataplane/pipeline/cookie.ts';
import { reg } from '../../dataplane/pipeline/fields.ts';
import type { RecoveredFlow } from '../../dataplane/pipeline/recovered-flow.ts';
import type { Mark } from '../../dataplane/pipeline/registers.ts';
import type { ContentNames } from './content.ts';
import type { RecoveredNumbers } from './number-pool.ts';
import { type DirectionTables, dictionaryPriority, otherwisePriority, relationPriority } from './rows.ts';

/** What numbers are lent to: classes of local pods, the two parts of an identity, decisions. */
export const numberKinds = ['class', 'coarse', 'fine', 'decision'] as const;
export type NumberKind = (typeof numberKinds)[number];

export type RecoveredNumbersByKind = Readonly<Record<NumberKind, RecoveredNumbers>>;

/**
 * Which numbers the bridge has in one direction, and to which contents they are lent. A row that names one by its cookie says so; any other row that
 * has one, or only gives it to packets, keeps it from being lent to something else. A class of which there are rows of a transition is not what it is named for.
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

/** Of a row of relations: class, coarse and fine part of the peer, as far as it matches them. */
export function relatedNumbers(tables: DirectionTables, { regs }: Pick<RecoveredFlow, 'regs'>): readonly number[] {
  const told = (['class', 'coarse', 'fine'] as const).map((kind) => numberIn(regs, markOf(tables, kind)));
  const missing = told.indexOf(undefined);
  return told.slice(0, missing < 0 ? told.length : missing) as number[];
}

export function markOf(tables: DirectionTables, kind: NumberKind): (number: number) => Mark {
  if (kind === 'class') return reg.networkPolicyClass;
  return kind === 'decision' ? reg.decision : tables[kind];
}

/** Whether the row's owner is the content that the number stands for. */
function isNamedBy({ identity, relations, decisions }: DirectionTables, { table, priority }: RecoveredFlow, kind: NumberKind): boolean {
  if (kind === 'class') return table === relations && priority === relationPriority.class;
  if (kind === 'decision') return table === decisions && priority === otherwisePriority;
  return table === identity && priority === dictionaryPriority[kind];
}

/** Undefined: the row does not have all bits of the field. */
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

  /** What the number stands for is not what a row names. */
  misname(number: number): void {
    this.#misnamed.add(number);
  }

  result(): RecoveredNumbers {
    const isSure = (cookie: bigint, number: number): boolean => !this.#doubtful.has(cookie) && !this.#misnamed.has(number);
    return { byCookie: new Map([...this.#byCookie].filter(([cookie, number]) => isSure(cookie, number))), seen: this.#seen };
  }
}
