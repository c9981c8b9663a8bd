import type { PolicyDirection } from '../matrix/matrix.ts';
import type { PolicyIntent } from './intent.ts';
import { type SubjectRules, subjectRules } from './subject-rules.ts';

/** What pods have had lately. A node has a hundred pods or two, most of which share their rules with others. */
const KEPT_MOST = 128;

interface MadeRules {
  /** Of which they were made: a policy that was changed has another intent. */
  readonly policies: readonly PolicyIntent[];
  readonly rules: SubjectRules | undefined;
}

/** The rules of pods, made once for those that have the same: pods of one deployment come one after another. */
export class RecentRules {
  readonly #made = new Map<string, MadeRules>();

  /** As `subjectRules`. */
  of(direction: PolicyDirection, policies: readonly PolicyIntent[], ports: Readonly<Record<string, number>>): SubjectRules | undefined {
    if (policies.length === 0) return undefined;
    const key = JSON.stringify([direction, policies.map((policy) => policy.key), direction === 'ingress' ? ports : {}]);
    const known = this.#made.get(key);
    if (known?.policies.every((policy, at) => policy === policies[at])) return known.rules;
    const rules = subjectRules(direction, policies, ports);
    this.#made.delete(key);
    this.#made.set(key, { policies, rules });
    const [oldest] = this.#made.keys();
    if (this.#made.size > KEPT_MOST && oldest !== undefined) this.#made.delete(oldest);
    return rules;
  }
  /** A policy is gone, or another than it was: its peers, of which there may be thousands, are not kept for it. */
  forget(policy: PolicyIntent): void {
    for (const [key, { policies }] of this.#made) if (policies.includes(policy)) this.#made.delete(key);
  }
}
