import type { ClusterTier, PolicyDirection } from '../matrix/matrix.ts';
import type { ClusterIntent } from './cluster-intent.ts';
import { clusterRules, type UnknownPeers } from './cluster-rules.ts';
import type { PolicyIntent } from './intent.ts';
import { type SubjectRules, subjectRules } from './subject-rules.ts';

/** Maximum number of cached rules. A node has one or two hundred pods, most of which share their rules with others. */
const KEPT_MOST = 128;

type Intent = Pick<PolicyIntent, 'key'>;
type Ports = Readonly<Record<string, number>>;

interface MadeRules {
  /** Policies from which the rules were made. A changed policy has another intent. */
  readonly policies: readonly Intent[];
  readonly rules: SubjectRules | undefined;
}

/** Cache of rules: pods of one Deployment usually arrive one after another and have the same rules. */
export class RecentRules {
  readonly #made = new Map<string, MadeRules>();
  readonly #unknownPeers: UnknownPeers | undefined;

  constructor(unknownPeers?: UnknownPeers) {
    this.#unknownPeers = unknownPeers;
  }

  /** Like `subjectRules`, but cached. */
  of(
    direction: PolicyDirection,
    policies: readonly PolicyIntent[],
    ports: Ports,
    denial?: SubjectRules['denial'],
  ): SubjectRules | undefined {
    return this.#cached([direction, ...(denial ? [denial] : [])], policies, direction === 'ingress' ? ports : {}, () =>
      subjectRules(direction, policies, ports, denial),
    );
  }

  /** Like `clusterRules`, but cached. */
  ofTier(direction: PolicyDirection, tier: ClusterTier, policies: readonly ClusterIntent[], ports: Ports): SubjectRules | undefined {
    return this.#cached([direction, tier], policies, direction === 'ingress' ? ports : {}, () =>
      clusterRules(direction, tier, policies, ports, this.#unknownPeers),
    );
  }

  #cached(
    of: readonly string[],
    policies: readonly Intent[],
    ports: Ports,
    make: () => SubjectRules | undefined,
  ): SubjectRules | undefined {
    if (policies.length === 0) return undefined;
    const key = JSON.stringify([of, policies.map((policy) => policy.key), ports]);
    const known = this.#made.get(key);
    if (known?.policies.every((policy, at) => policy === policies[at])) return known.rules;
    const rules = make();
    this.#made.delete(key);
    this.#made.set(key, { policies, rules });
    const [oldest] = this.#made.keys();
    if (this.#made.size > KEPT_MOST && oldest !== undefined) this.#made.delete(oldest);
    return rules;
  }

  /** Drops the rules of a policy that was removed or changed. The policy may have thousands of peers, which must not stay in memory. */
  forget(policy: Intent): void {
    for (const [key, { policies }] of this.#made) if (policies.includes(policy)) this.#made.delete(key);
  }
}
