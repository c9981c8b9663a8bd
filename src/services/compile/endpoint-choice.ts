import type { Candidate } from './endpoint-lists.ts';
import type { ServiceEndpoint } from './service-intent.ts';

/** Location of a client. */
export interface NodeLocation {
  readonly node: string;
  readonly zone?: string;
}

/** Preferred endpoints: those of the same node, of the same zone, or all alike. */
type Topology = 'node' | 'zone' | 'everywhere';

interface Choice {
  /** Endpoints for traffic policy `Cluster`. */
  readonly cluster: readonly ServiceEndpoint[];
  /** Endpoints for traffic policy `Local`. */
  readonly local: readonly ServiceEndpoint[];
  readonly anyEndpoint: boolean;
  readonly topology: Topology;
}

/**
 * Chooses the endpoints that each traffic policy uses. Source: kube-proxy's `CategorizeEndpoints`; KEP-1669 (terminating endpoints),
 * KEP-2433 (hints), KEP-3015 (`PreferSameNode`).
 *
 * These are the ready ones. If there are none (for policy `Local`: none on this node), those that still serve while they terminate.
 * Topology applies only to the ready ones.
 */
export function chooseEndpoints(all: readonly Candidate[], place: NodeLocation): Choice {
  const topology = topologyOf(all, place);
  const here = all.filter(({ nodeName }) => nodeName === place.node);
  const cluster = bare(all, (each) => each.ready && isNear(each, topology, place));
  const local = bare(here, (each) => each.ready);
  return {
    cluster: cluster.length > 0 ? cluster : bare(all, isLeaving),
    local: local.length > 0 ? local : bare(here, isLeaving),
    anyEndpoint: all.some((each) => each.ready || isLeaving(each)),
    topology,
  };
}

/**
 * Returns the topology to use. Hints count only if every ready endpoint has one, and only if one of them is for this location: the
 * controller may be late, and a remote endpoint is better than none.
 */
export function topologyOf(all: readonly Candidate[], { node, zone }: NodeLocation): Topology {
  if (!all.some(({ nodeHints, zoneHints }) => nodeHints !== undefined || zoneHints !== undefined)) return 'everywhere';
  const ready = all.filter((each) => each.ready);
  const hinted = (hints: (each: Candidate) => readonly string[] | undefined, us: string | undefined): boolean =>
    ready.length > 0 &&
    ready.every((each) => hints(each) !== undefined) &&
    ready.some((each) => us !== undefined && hints(each)?.includes(us));
  if (hinted(({ nodeHints }) => nodeHints, node)) return 'node';
  return hinted(({ zoneHints }) => zoneHints, zone) ? 'zone' : 'everywhere';
}

export function isNear({ nodeHints, zoneHints }: Candidate, topology: Topology, { node, zone }: NodeLocation): boolean {
  if (topology === 'node') return nodeHints?.includes(node) ?? false;
  if (topology === 'zone') return zone !== undefined && (zoneHints?.includes(zone) ?? false);
  return true;
}

function isLeaving({ ready, leaving }: Candidate): boolean {
  return leaving && !ready;
}

function bare(candidates: readonly Candidate[], which: (each: Candidate) => boolean): readonly ServiceEndpoint[] {
  const found: ServiceEndpoint[] = [];
  for (const each of candidates) if (which(each)) found.push({ ip: each.ip, port: each.port });
  return found;
}
