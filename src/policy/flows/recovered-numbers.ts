import { cookieOf } from '../../dataplane/pipeline/cookie.ts';
import { reg } from '../../dataplane/pipeline/fields.ts';
import type { RecoveredFlow } from '../../dataplane/pipeline/recovered-flow.ts';
import type { Mark } from '../../dataplane/pipeline/registers.ts';
import type { PipelineTableName } from '../../dataplane/pipeline/tables.ts';
import { type PolicyTier, policyTiers, type SubjectClass } from '../matrix/matrix.ts';
import type { ContentNames } from './content.ts';
import type { RecoveredNumbers } from './number-pool.ts';
import { type DirectionTables, dictionaryPriority, otherwisePriority, relationPriority } from './rows.ts';

/** Kinds of contents that have numbers: classes of local pods in each tier, the two parts of an identity, decisions. */
export const numberKinds = ['class', 'adminClass', 'baselineClass', 'coarse', 'fine', 'decision'] as const;
export type NumberKind = (typeof numberKinds)[number];

/** Kinds of classes: `class` is that of NetworkPolicies. */
export const classKinds = { admin: 'adminClass', networkPolicy: 'class', baseline: 'baselineClass' } as const satisfies Readonly<
  Record<PolicyTier, NumberKind>
>;
type ClassKind = (typeof classKinds)[PolicyTier];

/** Returns the kind of a class. */
export function classKindOf({ tier }: Pick<SubjectClass, 'tier'>): ClassKind {
  return classKinds[tier ?? 'networkPolicy'];
}

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
  const tiers = policyTiers.flatMap((tier) => [tables.tiers[tier].relations, tables.tiers[tier].decisions]);
  const ofDirection = new Set([tables.entry, tables.identity, ...tiers]);
  const numbersOfKind = Object.fromEntries(numberKinds.map((kind) => [kind, new Numbers()])) as Record<NumberKind, Numbers>;
  for (const flow of flows) {
    if (!ofDirection.has(flow.table)) continue;
    for (const kind of numberKinds) {
      const [matched, loaded] = [numberIn(flow.regs, markOf(tables, kind)), numberIn(flow.loads, markOf(tables, kind))];
      if (matched !== undefined) numbersOfKind[kind].see(matched, isNamedBy(tables, flow, kind) ? flow.cookie : undefined);
      if (loaded !== undefined) numbersOfKind[kind].see(loaded, undefined);
    }
    const tier = tierOfRelations(tables, flow.table);
    const related = tier ? relatedNumbers(tables, flow, tier) : [];
    const [subject, ...peers] = related;
    if (tier && subject !== undefined && peers.length > 0 && cookieOf(names.passing(related, tier)) === flow.cookie)
      numbersOfKind[classKinds[tier]].misname(subject);
  }
  return Object.fromEntries(numberKinds.map((kind) => [kind, numbersOfKind[kind].result()])) as Record<NumberKind, RecoveredNumbers>;
}

/** Returns the tier whose relations are in a table; undefined for any other table. */
export function tierOfRelations({ tiers }: DirectionTables, table: PipelineTableName): PolicyTier | undefined {
  return policyTiers.find((tier) => tiers[tier].relations === table);
}

/** Returns the numbers that a row of relations matches: class, coarse and fine part of the peer. */
export function relatedNumbers(tables: DirectionTables, { regs }: Pick<RecoveredFlow, 'regs'>, tier: PolicyTier): readonly number[] {
  const numbers = ([classKinds[tier], 'coarse', 'fine'] as const).map((kind) => numberIn(regs, markOf(tables, kind)));
  const missing = numbers.indexOf(undefined);
  return numbers.slice(0, missing < 0 ? numbers.length : missing) as number[];
}

export function markOf(tables: DirectionTables, kind: NumberKind): (number: number) => Mark {
  if (kind === 'coarse' || kind === 'fine') return tables[kind];
  if (kind === 'decision') return reg.decision;
  return { class: reg.networkPolicyClass, adminClass: reg.adminClass, baselineClass: reg.baselineClass }[kind];
}

/** Reports whether the row's owner is the content of the number. */
function isNamedBy({ identity, tiers }: DirectionTables, { table, priority }: RecoveredFlow, kind: NumberKind): boolean {
  if (kind === 'coarse' || kind === 'fine') return table === identity && priority === dictionaryPriority[kind];
  if (kind === 'decision') return policyTiers.some((tier) => table === tiers[tier].decisions) && priority === otherwisePriority;
  return policyTiers.some((tier) => classKinds[tier] === kind && table === tiers[tier].relations) && priority === relationPriority.class;
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
