import type { PolicyDirection } from '../matrix/matrix.ts';
import type { PolicyIntent } from './intent.ts';
import { type SubjectRules, subjectRules } from './subject-rules.ts';

/** Maximum number of cached rules. A node has one or two hundred pods, most of which share their rules with others. */
const KEPT_MOST = 128;

interface MadeRules {
  /** Policies from which the rules were made. A changed policy has another intent. */
  readonly policies: readonly PolicyIntent[];
  readonly rules: SubjectRules | undefined;
}

/** Cache of rules: pods of one Deployment usually arrive one after another and have the same rules. */
export class RecentRules {
  readonly #made = new Map<string, MadeRules>();

  /** Like `subjectRules`, but cached. */
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
  /** Drops the rules of a policy that was removed or changed. The policy may have thousands of peers, which must not stay in memory. */
  forget(policy: PolicyIntent): void {
    for (const [key, { policies }] of this.#made) if (policies.includes(policy)) this.#made.delete(key);
  }
}
