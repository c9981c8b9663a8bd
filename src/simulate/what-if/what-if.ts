import type { ReachDisagreement } from '../../policy/reach/confirm.ts';
import { differenceOf, type ReachChange } from '../../policy/reach/difference.ts';
import { reachSides } from '../../policy/reach/reach.ts';
import type { Unit } from '../../policy/reach/units.ts';
import { reachObjectsOf, type SimulatedObjects } from '../objects/cluster-objects.ts';
import { addedConflicts } from './address-conflicts.ts';
import { type Proposal, type ProposedCluster, proposedCluster } from './proposal.ts';
import type { ServedChange } from './service-cells.ts';
import { serviceDifference } from './service-difference.ts';

/** Effect of a proposal on all known pods, nodes and external networks. */
export interface WhatIf extends Pick<ProposedCluster, 'changed' | 'notConsidered'> {
  /** Connections between pods, nodes and external hosts. */
  readonly connections: readonly ReachChange[];
  readonly services: readonly ServedChange[];
  /** Sentences about addresses and node ports that several objects claim after the change. */
  readonly conflicts: readonly string[];
  readonly units: readonly Unit[];
  /** Number of verdicts that the reference has confirmed. */
  readonly confirmed: number;
  readonly disagreements: readonly ReachDisagreement[];
  /** The same for Services, as text. */
  readonly serviceDisagreements: readonly string[];
}

/**
 * Computes which connections a proposal opens and closes. Each result is confirmed by the reference.
 *
 * @throws SeineError `INVALID_INPUT` for an object that cannot be read
 */
export function whatIf(before: SimulatedObjects, proposal: Proposal): WhatIf {
  const { objects: after, changed, notConsidered } = proposedCluster(before, proposal);
  const sides = reachSides(reachObjectsOf(before), reachObjectsOf(after));
  const { changes, units, confirmed, disagreements } = differenceOf(sides);
  const served = serviceDifference({ sides, units, objects: { before, after } });
  return {
    connections: changes,
    services: served.changes,
    conflicts: addedConflicts(before, after),
    units,
    changed,
    notConsidered,
    confirmed: confirmed + served.confirmed,
    disagreements,
    serviceDisagreements: served.disagreements,
  };
}
