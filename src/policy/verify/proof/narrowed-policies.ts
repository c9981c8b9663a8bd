import type { NetworkPolicyObject, PodObject } from '../reference/objects.ts';
import { isolates } from '../reference/reference-verdict.ts';
import type { MatchedRules } from './peer-visibility.ts';

/** Policies for the reference, with the names that their rules have among all. */
export interface PolicySelection {
  readonly policies: readonly NetworkPolicyObject[];
  /** Returns the names of all policies that isolate the pod. */
  readonly isolating: () => readonly string[];
  /** Returns the name of a rule, from its name among `policies`. */
  readonly ruleName: (name: string) => string;
}

/** Selection for a pod to which no policy applies. */
export const noPolicies: PolicySelection = { policies: [], isolating: () => [], ruleName: (name) => name };

/**
 * Policies that matter to one pod in one direction and to one class of addresses, for the reference scans all rules that it is given: those
 * that isolate the pod, with the rules that an address of the class can match.
 */
export class NarrowedPolicies {
  readonly #direction: 'ingress' | 'egress';
  readonly #isolating: ReadonlySet<NetworkPolicyObject>;
  readonly #found = new Map<MatchedRules, PolicySelection>();

  constructor(policies: readonly NetworkPolicyObject[], subject: PodObject, direction: 'ingress' | 'egress') {
    this.#direction = direction;
    this.#isolating = new Set(policies.filter((policy) => isolates(policy, subject, direction)));
  }

  of(matched: MatchedRules): PolicySelection {
    const found = this.#found.get(matched) ?? this.#select(matched);
    this.#found.set(matched, found);
    return found;
  }

  #select(matched: MatchedRules): PolicySelection {
    const names = new Map<string, string>();
    const policies: NetworkPolicyObject[] = [];
    for (const [policy, places] of matched) {
      if (!this.#isolating.has(policy)) continue;
      policies.push(this.#withRules(policy, places));
      for (const [at, place] of places.entries()) names.set(this.#nameOf(policy, at), this.#nameOf(policy, place));
    }
    // A pod stays isolated where no rule matters.
    const [first] = this.#isolating;
    if (policies.length === 0 && first) policies.push(this.#withRules(first, []));
    return {
      policies,
      isolating: () => [...this.#isolating].map(({ metadata }) => `${metadata.namespace}/${metadata.name}`).toSorted(),
      ruleName: (name) => names.get(name) ?? name,
    };
  }

  /** Returns the policy with some rules in this direction, and none in the other. */
  #withRules(policy: NetworkPolicyObject, places: readonly number[]): NetworkPolicyObject {
    const rules = places.flatMap((at) => policy.spec[this.#direction]?.[at] ?? []);
    return { ...policy, spec: { podSelector: policy.spec.podSelector, policyTypes: [this.#direction], [this.#direction]: rules } };
  }

  /** Returns a rule's name, as the reference prints it. */
  #nameOf({ metadata }: NetworkPolicyObject, place: number): string {
    return `${metadata.namespace}/${metadata.name} spec.${this.#direction}[${place}]`;
  }
}
