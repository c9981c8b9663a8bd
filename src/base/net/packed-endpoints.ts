/**
 * Endpoint of a slice. Its conditions are resolved like in kube-proxy, which defines the meaning of "unknown": ready, serving, not
 * terminating.
 */
export interface SliceEndpoint {
  /** Addresses, at least one. All belong to the same backend, and consumers use the first. */
  readonly addresses: readonly string[];
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  readonly nodeName?: string;
  readonly zone?: string;
  /** Zones whose clients should use this endpoint (`hints.forZones`); absent without a hint. */
  readonly zoneHints?: readonly string[];
  /** Nodes whose clients should use this endpoint (`hints.forNodes`); absent without a hint. */
  readonly nodeHints?: readonly string[];
}

/**
 * Endpoints as one text: JSON with a row for each. There may be a hundred thousand endpoints, and objects need four times as much memory.
 */
export type PackedEndpoints = string & { readonly brand: 'PackedEndpoints' };

type EndpointRow = readonly [addresses: readonly string[], conditions: number, ...places: EndpointPlace[]];
/** Node, zone, zone hints, node hints; absent ones at the end are omitted. */
type EndpointPlace = string | readonly string[] | null;

const bits = { ready: 1, serving: 2, terminating: 4 } as const;

export function packEndpoints(endpoints: readonly SliceEndpoint[]): PackedEndpoints {
  return JSON.stringify(endpoints.map(rowOf)) as PackedEndpoints;
}

/** Last result: the endpoints of one slice are needed several times in a row, by port and by family. */
let last: { readonly packed: PackedEndpoints; readonly endpoints: readonly SliceEndpoint[] } | undefined;

export function unpackEndpoints(packed: PackedEndpoints): readonly SliceEndpoint[] {
  if (last?.packed !== packed) last = { packed, endpoints: (JSON.parse(packed) as EndpointRow[]).map(endpointOf) };
  return last.endpoints;
}

/** Reports whether any of these addresses is among their addresses. All slices are searched, so most are not unpacked for it. */
export function haveAddress(packed: PackedEndpoints, addresses: ReadonlySet<string>): boolean {
  for (const address of addresses)
    if (packed.includes(JSON.stringify(address)) && unpackEndpoints(packed).some((each) => each.addresses.includes(address))) return true;
  return false;
}

function rowOf({ addresses, ready, serving, terminating, nodeName, zone, zoneHints, nodeHints }: SliceEndpoint): EndpointRow {
  const conditions = (ready ? bits.ready : 0) + (serving ? bits.serving : 0) + (terminating ? bits.terminating : 0);
  const places: EndpointPlace[] = [nodeName ?? null, zone ?? null, zoneHints ?? null, nodeHints ?? null];
  while (places.at(-1) === null) places.pop();
  return [addresses, conditions, ...places];
}

/**
 * Converts a row. Most endpoints have a node and nothing more, so that case is written out: an object spread from others takes four times
 * as much time and memory.
 */
function endpointOf(row: EndpointRow): SliceEndpoint {
  const [addresses, conditions, nodeName] = row;
  const ready = (conditions & bits.ready) !== 0;
  const serving = (conditions & bits.serving) !== 0;
  const terminating = (conditions & bits.terminating) !== 0;
  if (row.length > 3) return { addresses, ready, serving, terminating, ...placesOf(row) };
  return typeof nodeName === 'string' ? { addresses, ready, serving, terminating, nodeName } : { addresses, ready, serving, terminating };
}

function placesOf([, , nodeName, zone, zoneHints, nodeHints]: EndpointRow): Partial<SliceEndpoint> {
  return {
    ...(typeof nodeName === 'string' ? { nodeName } : {}),
    ...(typeof zone === 'string' ? { zone } : {}),
    ...(Array.isArray(zoneHints) ? { zoneHints } : {}),
    ...(Array.isArray(nodeHints) ? { nodeHints } : {}),
  };
}
