import type { Family } from '../../base/net/ip.ts';
import type { PodObject, PolicyObjects } from '../verify/reference/objects.ts';
import { judge } from '../verify/reference/reference-verdict.ts';
import { addressesOf, type ReachParty } from './party.ts';
import type { ReachRange } from './ranges.ts';
import type { Reachability } from './reach.ts';

/** Range in which the engine and the reference differ. */
export interface ReachDisagreement {
  readonly from: ReachParty;
  readonly to: ReachParty;
  readonly family: Family;
  readonly range: ReachRange;
  readonly reference: 'allow' | 'deny';
  /** Rules that the engine names and the reference does not. */
  readonly rules: readonly string[];
}

/**
 * Compares results of the engine with the reference semantics (`verify/reference`), which shares no code with it. Evaluates the first and the
 * last port of each range.
 */
export class Confirmation {
  readonly #policies: ReadonlyMap<string, PolicyObjects['networkPolicies']>;
  readonly #clusterPolicies: PolicyObjects['clusterNetworkPolicies'];
  readonly #namespaces: ReadonlyMap<string, PolicyObjects['namespaces'][number]>;
  /** Number of verdicts that were compared. */
  compared = 0;

  constructor({ networkPolicies, clusterNetworkPolicies = [], namespaces }: PolicyObjects) {
    this.#clusterPolicies = clusterNetworkPolicies;
    this.#policies = Map.groupBy(networkPolicies, ({ metadata }) => metadata.namespace);
    this.#namespaces = new Map(namespaces.map((each) => [each.metadata.name, each]));
  }

  /** Returns the ranges in which the reference differs. */
  differences(from: ReachParty, to: ReachParty, { families }: Reachability): readonly ReachDisagreement[] {
    const objects = this.#objectsFor(from, to);
    const found: ReachDisagreement[] = [];
    for (const [family, ranges] of families) {
      const tuple = { from: addressesOf(from).get(family) ?? '', to: addressesOf(to).get(family) ?? '' };
      for (const range of ranges)
        for (const port of new Set([range.first, range.last])) {
          const connection = range.protocol === 'other' ? { ...tuple, protocol: 'GRE' } : { ...tuple, protocol: range.protocol, port };
          const judged = judge(objects, connection, { source: partyOf(from), destination: partyOf(to) });
          this.compared++;
          const rules = (['egress', 'ingress'] as const).flatMap((end) => {
            const { decidedBy, allowedBy = [], isolatedBy = [] } = judged[end] ?? {};
            const known = new Set(decidedBy === undefined ? [...allowedBy, ...isolatedBy] : [decidedBy]);
            return range[end].by.filter((rule) => !known.has(rule));
          });
          if (judged.verdict !== range.verdict || rules.length > 0)
            found.push({ from, to, family, range, reference: judged.verdict, rules });
        }
    }
    return found;
  }

  /** Selects what can matter: the reference scans every object that it is given. */
  #objectsFor(from: ReachParty, to: ReachParty): PolicyObjects {
    const names = new Set([from, to].flatMap((party) => (party.is === 'pod' ? [party.pod.metadata.namespace] : [])));
    return {
      namespaces: [...names].flatMap((name) => this.#namespaces.get(name) ?? []),
      clusterNetworkPolicies: this.#clusterPolicies ?? [],
      networkPolicies: [...names].flatMap((name) => this.#policies.get(name) ?? []),
      pods: [],
      nodes: [],
    };
  }
}

function partyOf(party: ReachParty) {
  if (party.is === 'pod') return { is: 'pod', pod: party.pod } as const satisfies { readonly is: 'pod'; readonly pod: PodObject };
  return party.is === 'node' ? ({ is: 'node', node: party.node } as const) : ({ is: 'external' } as const);
}
