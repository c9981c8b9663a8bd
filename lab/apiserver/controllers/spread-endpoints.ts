import type { Endpoint, EndpointPort } from 'kubernetes-types/discovery/v1.d.ts';
import { equalJson } from '../object/json.ts';
import type { EndpointGroup } from './endpoints-of-service.ts';

export interface Slice {
  readonly name: string;
  readonly ports: readonly EndpointPort[];
  readonly endpoints: readonly Endpoint[];
}

export interface SliceChanges {
  readonly updates: readonly Slice[];
  readonly creations: readonly Omit<Slice, 'name'>[];
  readonly removals: readonly string[];
}

export const endpointsPerSlice = 100;

/**
 * Changes that make the slices of one family contain the groups. An endpoint stays in its slice; new ones fill the slices that have room;
 * slices that lost all are removed, except one, so that a Service without endpoints shows an empty slice.
 */
export function spread(groups: readonly EndpointGroup[], current: readonly Slice[]): SliceChanges {
  const updates: Slice[] = [];
  const creations: Omit<Slice, 'name'>[] = [];
  const kept = new Set<string>();
  for (const { ports, endpoints } of groups) {
    const mine = current.filter((slice) => equalJson(slice.ports, ports));
    const { slices, rest } = settle(mine, endpoints);
    for (const [index, slice] of slices.entries()) {
      const before = mine[index];
      if (slice.endpoints.length === 0 || before === undefined) continue;
      kept.add(slice.name);
      if (!equalJson(slice.endpoints, before.endpoints)) updates.push(slice);
    }
    for (let from = 0; from < rest.length; from += endpointsPerSlice)
      creations.push({ ports, endpoints: rest.slice(from, from + endpointsPerSlice) });
  }
  const unused = current.filter(({ name }) => !kept.has(name));
  if (kept.size > 0 || creations.length > 0) return reuse(unused, updates, creations);
  const [placeholder, ...others] = unused;
  if (placeholder === undefined) return { updates, creations: [{ ports: [], endpoints: [] }], removals: [] };
  const isEmpty = placeholder.endpoints.length === 0 && placeholder.ports.length === 0;
  return {
    updates: isEmpty ? [] : [{ name: placeholder.name, ports: [], endpoints: [] }],
    creations: [],
    removals: others.map(({ name }) => name),
  };
}

/** Fills a slice that would be removed with endpoints that would need a new one. */
function reuse(unused: readonly Slice[], updates: readonly Slice[], creations: readonly Omit<Slice, 'name'>[]): SliceChanges {
  const filled = unused.slice(0, creations.length).flatMap(({ name }, index) => {
    const content = creations[index];
    return content === undefined ? [] : [{ name, ...content }];
  });
  return {
    updates: [...updates, ...filled],
    creations: creations.slice(filled.length),
    removals: unused.slice(filled.length).map(({ name }) => name),
  };
}

/** Keeps endpoints in their slices, with their new content, then adds the others. */
function settle(
  slices: readonly Slice[],
  endpoints: readonly Endpoint[],
): { readonly slices: readonly Slice[]; readonly rest: readonly Endpoint[] } {
  const left = new Map(endpoints.map((endpoint) => [identity(endpoint), endpoint]));
  const staying = slices.map((slice) => ({
    ...slice,
    endpoints: slice.endpoints.flatMap((endpoint) => {
      const now = left.get(identity(endpoint));
      left.delete(identity(endpoint));
      return now ?? [];
    }),
  }));
  const rest = Array.from(left.values());
  const filled = staying.map((slice) => {
    const room = slice.endpoints.length === 0 ? 0 : endpointsPerSlice - slice.endpoints.length;
    return room <= 0 ? slice : { ...slice, endpoints: [...slice.endpoints, ...rest.splice(0, room)] };
  });
  return { slices: filled, rest };
}

function identity({ addresses, targetRef }: Endpoint): string {
  return `${addresses[0] ?? ''} ${targetRef?.uid ?? ''}`;
}
