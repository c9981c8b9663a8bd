import { reg } from '../pipeline/fields.ts';
import type { RecoveredFlow } from '../pipeline/recovered-flow.ts';
import type { Mark } from '../pipeline/registers.ts';
import type { RecoveredNumbers } from './lent-numbers.ts';
import { type DirectionTables, dictionaryPriority, otherwisePriority, relationPriority } from './rows.ts';

/** What numbers are lent to: classes of local pods, the two parts of an identity, decisions. */
export const numberKinds = ['class', 'coarse', 'fine', 'decision'] as const;
export type NumberKind = (typeof numberKinds)[number];

/**
 * Which numbers the bridge has in one direction, and to which contents they are lent. A row that names one by its cookie says so; any other row that
 * has one, or only gives it to packets, keeps it from being lent to something else.
 */
export function recoveredNumbers(tables: DirectionTables, flows: Iterable<RecoveredFlow>): Readonly<Record<NumberKind, RecoveredNumbers>> {
  const lent = Object.fromEntries(numberKinds.map((kind) => [kind, new Numbers()])) as Record<NumberKind, Numbers>;
  for (const flow of flows) {
    if (![tables.entry, tables.identity, tables.relations, tables.decisions].includes(flow.table)) continue;
    for (const kind of numberKinds) {
      const [matched, loaded] = [flow.regs, flow.loads].map((bits) => numberIn(bits, markOf(tables, kind)));
      if (matched !== undefined) lent[kind].see(matched, names(tables, flow, kind) ? flow.cookie : undefined);
      if (loaded !== undefined) lent[kind].see(loaded, undefined);
    }
  }
  return { class: lent.class.result(), coarse: lent.coarse.result(), fine: lent.fine.result(), decision: lent.decision.result() };
}

function markOf(tables: DirectionTables, kind: NumberKind): (number: number) => Mark {
  if (kind === 'class') return reg.networkPolicyClass;
  return kind === 'decision' ? reg.decision : tables[kind];
}

/** Whether the row's owner is the content that the number stands for. */
function names({ identity, relations, decisions }: DirectionTables, { table, priority }: RecoveredFlow, kind: NumberKind): boolean {
  if (kind === 'class') return table === relations && priority === relationPriority.class;
  if (kind === 'decision') return table === decisions && priority === otherwisePriority;
  return table === identity && priority === dictionaryPriority[kind];
}

/** Undefined: the row does not have all bits of the field. */
function numberIn(regs: RecoveredFlow['regs'], of: (number: number) => Mark): number | undefined {
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
  readonly #seen = new Set<number>();

  see(number: number, cookie: bigint | undefined): void {
    this.#seen.add(number);
    if (cookie === undefined) return;
    const [otherNumber, otherCookie] = [this.#byCookie.get(cookie) ?? number, this.#cookies.get(number) ?? cookie];
    if (otherNumber !== number || otherCookie !== cookie) for (const each of [cookie, otherCookie]) this.#doubtful.add(each);
    this.#byCookie.set(cookie, number);
    this.#cookies.set(number, cookie);
  }

  result(): RecoveredNumbers {
    return { byCookie: new Map([...this.#byCookie].filter(([cookie]) => !this.#doubtful.has(cookie))), seen: this.#seen };
  }
}
