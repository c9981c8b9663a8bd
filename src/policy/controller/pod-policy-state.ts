import type { SubjectIntent } from '../../dataplane/compile/compile-entry.ts';
import type { PolicyMode } from '../../dataplane/compile/environment.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { PolicyEngine } from '../engine/policy-engine.ts';
import type { PodClasses, PolicyFlows } from '../flows/policy-flows.ts';
import { classesIn, type PolicyMatrix } from '../matrix/matrix.ts';
import { type LocalSubject, type LocalSubjects, podKeyOf } from './local-subjects.ts';
import type { Suspension } from './suspension-records.ts';
import type { Suspensions } from './suspensions.ts';

/** Handling of a pod of which it is not known whether a policy applies to it. */
export type WhenUnknown = 'closed' | 'refuse' | 'open';

/** Effect of policies on an attachment. */
export type SubjectStanding =
  | { readonly is: 'free' }
  | { readonly is: 'suspended'; readonly why: string }
  | { readonly is: 'policed'; readonly classes: Exclude<PodClasses, string> }
  | { readonly is: 'closed'; readonly why: string };

/** Effect of policies on a pod of this node. */
export interface PodStanding {
  /** Standing of the pod. `undecided`: adopted and not known well enough since; it keeps the flows that the bridge has for it. */
  readonly is: SubjectStanding['is'] | 'undecided';
  /** Reason, for a pod that is blocked or whose policies are suspended. */
  readonly why?: string;
  /** Policies that isolate the pod, `namespace/name`, and names of cluster policies with rules for it. */
  readonly ingress: readonly string[];
  readonly egress: readonly string[];
}

interface StandingsOptions {
  readonly engine: Pick<PolicyEngine, 'matrix' | 'hasPolicies' | 'lacksNamespace'>;
  readonly flows: Pick<PolicyFlows, 'classesOf'>;
  readonly suspensions: Pick<Suspensions, 'of'>;
  readonly whenUnknown: WhenUnknown;
  readonly subjects: Pick<LocalSubjects, 'isCurrent'>;
  /** Returns the current mode. */
  readonly mode: () => PolicyMode;
  /** Reports whether policies and namespaces are known, and all that was known at the start has been processed. */
  readonly rulesKnown: () => boolean;
}

/** Determines the standing of an attachment from what is known now. */
export class Standings {
  readonly #options: StandingsOptions;

  constructor(options: StandingsOptions) {
    this.#options = options;
  }

  of(subject: LocalSubject): SubjectStanding {
    const { engine, suspensions, whenUnknown, flows, mode, subjects } = this.#options;
    const key = podKeyOf(subject);
    if (key === undefined || mode() === 'off') return { is: 'free' };
    const suspension = suspensions.of(key);
    if (suspension) return { is: 'suspended', why: whyOf(suspension) };
    const why = this.lackOf(subject);
    if (why !== undefined) return whenUnknown === 'open' ? { is: 'free' } : { is: 'closed', why };
    if (!engine.matrix.subjects.has(key) || !subjects.isCurrent(subject)) return { is: 'free' };
    const classes = flows.classesOf(key);
    if (classes === 'closed') return { is: 'closed', why: 'there is no number for its class' };
    return classes === 'free' ? { is: 'free' } : { is: 'policed', classes };
  }

  /** Returns a description of what must be known to decide whether a policy applies to a pod; undefined if nothing is missing. */
  lackOf(subject: LocalSubject): string | undefined {
    const { pod } = subject;
    if (pod === undefined) return undefined;
    const { engine, rulesKnown, subjects } = this.#options;
    if (!rulesKnown()) return 'policies are not known yet';
    if (!engine.hasPolicies(pod.namespace)) return undefined;
    const isKnown = engine.matrix.subjects.has(`${pod.namespace}/${pod.name}`) && subjects.isCurrent(subject);
    if (!isKnown) return 'the labels of the pod are not known yet';
    return engine.lacksNamespace(pod.namespace) ? 'the labels of its namespace are not known yet' : undefined;
  }
}

/** Returns the standing of each pod with an attachment, by `namespace/name`. A pod is closed if any of its attachments is. */
export function podStandings(
  attachments: Iterable<LocalSubject>,
  standings: ReadonlyMap<Owner, SubjectStanding>,
  { subjects }: Pick<PolicyMatrix, 'subjects'>,
): ReadonlyMap<string, PodStanding> {
  const pods = new Map<string, PodStanding>();
  for (const subject of attachments) {
    const key = podKeyOf(subject);
    if (key === undefined || pods.get(key)?.is === 'closed') continue;
    const standing = standings.get(subject.owner) ?? { is: 'undecided' };
    const rules = standing.is === 'policed' || standing.is === 'suspended' ? subjects.get(key) : undefined;
    pods.set(key, {
      is: standing.is,
      ...('why' in standing ? { why: standing.why } : {}),
      ingress: classesIn(rules, 'ingress').flatMap(({ isolatedBy }) => isolatedBy),
      egress: classesIn(rules, 'egress').flatMap(({ isolatedBy }) => isolatedBy),
    });
  }
  return pods;
}

/** Returns the end and the reason of a suspension, for operators. Pure. */
export function whyOf({ untilMs, reason }: Suspension): string {
  return `until ${new Date(untilMs).toISOString()}: ${reason}`;
}

/** Returns the intent from which its flows in the entry tables are compiled. */
export function intentOf({ ofPort, addresses }: LocalSubject, standing: SubjectStanding, openings?: number): SubjectIntent {
  const classes: Pick<SubjectIntent, 'ingress' | 'egress' | 'cluster'> =
    standing.is === 'policed' ? standing.classes : standing.is === 'closed' ? closed : {};
  const isPoliced = classes.egress !== undefined || classes.cluster?.egress !== undefined;
  return { ofPort, addresses, ...classes, ...(isPoliced && openings !== undefined ? { openings } : {}) };
}

const closed = { ingress: 'closed', egress: 'closed' } as const;

/** Returns the names of classes that have a number, for each direction and tier. */
export function classNames(classes: PodClasses): readonly string[] {
  if (typeof classes === 'string') return [];
  const { cluster = {}, ...own } = classes;
  const ofTiers = Object.entries(cluster).flatMap(([direction, tiers]) =>
    Object.entries(tiers).map(([tier, number]) => `${direction} ${tier} ${number}`),
  );
  return [...Object.entries(own).map(([direction, number]) => `${direction} ${number}`), ...ofTiers];
}

/** Reports whether the entry flows of both resubmit to the same rows. */
export function isSameStanding(a: SubjectStanding, b: SubjectStanding): boolean {
  if (a.is !== 'policed' || b.is !== 'policed') return a.is === b.is;
  return classNames(a.classes).join() === classNames(b.classes).join();
}
