import type { ClusterPeerObject } from '../verify/reference/objects.ts';
import { type Converted, groupSchema, networksOfBlock, podsOfSelectors } from './antrea-selection.ts';

const DEPTH_MAX = 8;
/** Entries that the groups of one run may become: nested lists grow by multiplication. */
const ENTRIES_MAX = 100_000;

/** ClusterGroups, and the Groups of namespaces. */
export class AntreaGroups {
  readonly #specs = new Map<string, unknown>();
  #entries = 0;

  /** @param namespace undefined for a ClusterGroup. @returns false if there is such a group */
  add(namespace: string | undefined, name: string, spec: unknown): boolean {
    const key = keyOf(namespace, name);
    if (this.#specs.has(key)) return false;
    this.#specs.set(key, spec);
    return true;
  }

  /** Reports whether a group selects namespaces: then it cannot be the subject of a policy of a namespace. */
  selectsNamespaces(namespace: string | undefined, name: string): boolean {
    const parsed = groupSchema.safeParse(this.#specs.get(keyOf(namespace, name)));
    if (!parsed.success) return false;
    const { namespaceSelector, childGroups } = parsed.data;
    const isNested = (child: unknown): boolean => {
      const nested = groupSchema.safeParse(this.#specs.get(keyOf(namespace, String(child))));
      return nested.success && (nested.data.namespaceSelector ?? undefined) !== undefined;
    };
    return (namespaceSelector ?? undefined) !== undefined || (childGroups ?? []).some(isNested);
  }

  /** Returns the members as peers. */
  members(namespace: string | undefined, name: string, depth = 0): Converted<readonly ClusterPeerObject[]> {
    const of = `group ${JSON.stringify(name)}`;
    const spec = this.#specs.get(keyOf(namespace, name));
    if (spec === undefined) return { refused: `${of} is not among the objects` };
    if (depth === DEPTH_MAX) return { refused: `${of}: groups are nested more than ${DEPTH_MAX} deep` };
    const parsed = groupSchema.safeParse(spec);
    if (!parsed.success) return { refused: `${of}: ${parsed.error.issues[0]?.message ?? 'invalid'}` };
    const { podSelector, namespaceSelector, ipBlocks, childGroups, serviceReference, externalEntitySelector } = parsed.data;
    if (serviceReference) return { refused: `${of}: serviceReference: a Service is not a peer of the API` };
    if (externalEntitySelector) return { refused: `${of}: externalEntitySelector: external entities are not in the API` };
    const found: ClusterPeerObject[] =
      podSelector || namespaceSelector ? [podsOfSelectors({ podSelector, namespaceSelector }, namespace)] : [];
    for (const block of ipBlocks ?? []) {
      const networks = networksOfBlock(block);
      if ('refused' in networks) return { refused: `${of}: ${JSON.stringify(block.cidr)}: ${networks.refused}` };
      if (networks.value.length > 0) found.push({ networks: networks.value });
    }
    for (const child of childGroups ?? []) {
      const members = this.members(namespace, String(child), depth + 1);
      if ('refused' in members) return { refused: `${of}: ${members.refused}` };
      found.push(...members.value);
    }
    this.#entries += 1 + found.length;
    return this.#entries > ENTRIES_MAX ? { refused: `${of}: all groups together have more than ${ENTRIES_MAX} entries` } : { value: found };
  }
}

function keyOf(namespace: string | undefined, name: string): string {
  return `${namespace ?? ''}/${name}`;
}
