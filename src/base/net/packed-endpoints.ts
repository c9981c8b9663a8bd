/** The conditions have kube-proxy's reading of "unknown" applied: ready, serving, not terminating. */
export interface SliceEndpoint {
  /** At least one; all stand for the same backend, and consumers use the first. */
  readonly addresses: readonly string[];
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  readonly nodeName?: string;
  readonly zone?: string;
  /** `hints.forZones`: zones whose clients should use this endpoint. Absent means no hint. */
  readonly zoneHints?: readonly string[];
  /** `hints.forNodes`, as `zoneHints`. */
  readonly nodeHints?: readonly string[];
}

/** Endpoints as one text: of those there are a hundred thousand, and objects are four times as large. JSON of a row for each. */
export type PackedEndpoints = string & { readonly brand: 'PackedEndpoints' };

type EndpointRow = readonly [addresses: readonly string[], conditions: number, ...places: EndpointPlace[]];
/** Node, zone, zone hints, node hints; what is absent behind the last of them is left out. */
type EndpointPlace = string | readonly string[] | null;

const bits = { ready: 1, serving: 2, terminating: 4 } as const;

export function packEndpoints(endpoints: readonly SliceEndpoint[]): PackedEndpoints {
  return JSON.stringify(endpoints.map(rowOf)) as PackedEndpoints;
}

/** Those of one slice are asked for several times in a row: by port, by family. */
let last: { readonly packed: PackedEndpoints; readonly endpoints: readonly SliceEndpoint[] } | undefined;

export function unpackEndpoints(packed: PackedEndpoints): readonly SliceEndpoint[] {
  if (last?.packed !== packed) last = { packed, endpoints: (JSON.parse(packed) as EndpointRow[]).map(endpointOf) };
  return last.endpoints;
}

/** Whether one of these is among their addresses. Most are not unpacked for that, as all slices are asked. */
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

/** Most have a node and no more: written out, for an object that is put together from others takes four times as long and as much. */
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
