import type { ClusterNetworkPolicyObject, ClusterRuleObject } from '../verify/reference/objects.ts';
import type { ConvertedTier, DraftPart, DraftPolicy } from './drafts.ts';
import type { LossList } from './losses.ts';
import { chunkCount, chunks, ruleCount, rulesOf } from './rule-lists.ts';

/** ClusterNetworkPolicy as it is applied. */
export interface ConvertedPolicy extends ClusterNetworkPolicyObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ClusterNetworkPolicyObject['metadata'] & {
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

const LAST_RANK = 1_000;
/** Distance of ranks, if there are enough: a user can put a policy between two. */
const USUAL_STEP = 10;
/** Policies that one run returns: subjects and rules of one policy multiply. */
const POLICIES_MAX = 50_000;
const NAME_MAX = 253;
/** Characters for the numbers that make names unique. */
const NUMBER_MAX = 12;

/** Policy without name and rank. */
interface Sheet {
  /** Place among the policies of one draft. */
  readonly place: number;
  readonly isRejecting: boolean;
  readonly spec: Pick<ClusterNetworkPolicyObject['spec'], 'subject' | 'ingress' | 'egress'>;
}

/** Gives ranks and names. The order of evaluation stays; policies that get no rank are lost. */
export function ranked(drafts: readonly DraftPolicy[], losses: LossList): readonly ConvertedPolicy[] {
  const names = new NameList();
  const bounded = withinBounds(drafts, losses);
  return (['Admin', 'Baseline'] as const).flatMap((tier) =>
    rankedTier(
      tier,
      bounded.filter((each) => each.tier === tier),
      names,
      losses,
    ),
  );
}

/** Loses drafts that would become too many policies, before these are built. */
function withinBounds(drafts: readonly DraftPolicy[], losses: LossList): readonly DraftPolicy[] {
  let left = POLICIES_MAX;
  return drafts.filter(({ object, parts }) => {
    const pieces = parts.map(({ ingress, egress }) => Math.max(pieceCount(ingress), pieceCount(egress)));
    const policies = parts.reduce((sum, { subjects }, at) => sum + subjects.length * (pieces[at] ?? 0), 0);
    const isFine = policies <= left && pieces.every((count) => count <= LAST_RANK + 1);
    if (isFine) left -= policies;
    else {
      const reason = `it would become ${policies} policies; a run has ${POLICIES_MAX}, and a tier ${LAST_RANK + 1} priorities`;
      losses.add({ object, field: ['spec'], value: undefined, reason, leftOut: ['spec'] });
    }
    return isFine;
  });
}

function pieceCount(rules: DraftPart['ingress']): number {
  return chunkCount(rules.reduce((sum, rule) => sum + ruleCount(rule), 0));
}

function rankedTier(tier: ConvertedTier, drafts: readonly DraftPolicy[], names: NameList, losses: LossList): readonly ConvertedPolicy[] {
  const all = drafts.toSorted(compareDrafts).map((draft) => ({ draft, sheets: sheetsOf(draft) }));
  const lengths = all.map(({ sheets }) => Math.max(0, ...sheets.map(({ place }) => place + 1)));
  const areOwn = all.every(({ draft }, at) => draft.ownPriority !== undefined && (lengths[at] ?? 0) <= 1);
  const total = lengths.reduce((sum, each) => sum + each, 0);
  const step = (total - 1) * USUAL_STEP <= LAST_RANK ? USUAL_STEP : 1;
  let next = 0;
  return all.flatMap(({ draft, sheets }, at) => {
    const first = areOwn ? (draft.ownPriority ?? 0) : next * step;
    const length = lengths[at] ?? 0;
    if (first + (length - 1) * step > LAST_RANK && !areOwn) {
      const reason = `a tier has ${LAST_RANK + 1} priorities, and the policies before need them`;
      losses.add({ object: draft.object, field: ['spec', 'priority'], value: draft.order.priority, reason, leftOut: ['spec'] });
      return [];
    }
    next += length;
    return sheets.map((sheet, index) => ({
      ...headOf(draft, sheet, names.unique(sheets.length === 1 ? draft.name : `${draft.name}-${index + 1}`)),
      spec: { tier, priority: first + sheet.place * step, ...sheet.spec },
    }));
  });
}

function compareDrafts(a: DraftPolicy, b: DraftPolicy): number {
  const byAge = compareTexts(a.order.createdAt, b.order.createdAt);
  return a.order.tier - b.order.tier || a.order.priority - b.order.priority || byAge || compareTexts(a.object, b.object);
}

function compareTexts(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

/** Returns a policy for each subject and for each piece of a list of rules that the API admits. */
function sheetsOf({ parts }: DraftPolicy): readonly Sheet[] {
  const byOffset = Map.groupBy(parts, ({ offset }) => offset);
  let place = 0;
  return [...byOffset.values()].flatMap((together) => {
    const sheets = together.flatMap((part) => sheetsOfPart(part, place));
    place = Math.max(place, ...sheets.map((sheet) => sheet.place + 1));
    return sheets;
  });
}

function sheetsOfPart({ subjects, ingress, egress, isRejecting }: DraftPart, first: number): readonly Sheet[] {
  const [from, to] = [
    chunks(ingress.flatMap((rule) => rulesOf(rule, 'ingress'))),
    chunks(egress.flatMap((rule) => rulesOf(rule, 'egress'))),
  ];
  const places = Array.from({ length: Math.max(from.length, to.length) }, (_, at) => at);
  return places.flatMap((at) =>
    subjects.map((subject) => ({
      place: first + at,
      isRejecting,
      spec: { subject, ...listOf('ingress', from[at]), ...listOf('egress', to[at]) },
    })),
  );
}

function listOf(name: string, rules: readonly ClusterRuleObject[] | undefined): object {
  return rules ? { [name]: rules } : {};
}

function headOf({ labels, annotations }: DraftPolicy, { isRejecting }: Sheet, name: string) {
  const notes = { ...annotations, ...(isRejecting ? { 'seine.dev/denied': 'reject' } : {}) };
  return {
    apiVersion: 'policy.networking.k8s.io/v1beta1',
    kind: 'ClusterNetworkPolicy',
    metadata: {
      name,
      ...(Object.keys(labels).length > 0 ? { labels } : {}),
      ...(Object.keys(notes).length > 0 ? { annotations: notes } : {}),
    },
  };
}

/** Names that are taken. */
class NameList {
  readonly #taken = new Set<string>();

  unique(wanted: string): string {
    const base = wanted.slice(0, NAME_MAX - NUMBER_MAX).replace(/[-.]+$/, '');
    let name = wanted.length > NAME_MAX ? base : wanted;
    for (let number = 2; this.#taken.has(name); number++) name = `${base}-${number}`;
    this.#taken.add(name);
    return name;
  }
}
