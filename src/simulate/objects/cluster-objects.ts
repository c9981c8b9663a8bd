import { type ReachObjects, services } from '../../policy/reach/objects.ts';
import type { ForwardedObjects } from '../../policy/verify/forwarding-reference/forwarded-objects.ts';

/**
 * Objects of a cluster that decide about packets. Services and EndpointSlices are unchanged objects of the API; the others have the fields
 * that policies use.
 */
export type SimulatedObjects = ForwardedObjects;

/** @throws SeineError `INVALID_INPUT` for a Service that cannot be read */
export function reachObjectsOf({ services: served, slices: _, ...objects }: SimulatedObjects): ReachObjects {
  return { ...objects, services: served.map((each) => services.project(each)) };
}
