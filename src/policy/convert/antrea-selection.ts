import * as z from 'zod';
import type { ClusterPeerObject, ClusterPodsObject } from '../verify/reference/objects.ts';
import { list, selectorSchema } from './drafts.ts';
import { NETWORKS_MAX, networksWithout } from './networks.ts';

const NAMESPACE_LABEL = 'kubernetes.io/metadata.name';

const NAME_MAX = 253;
const objectName = z.string().min(1).max(NAME_MAX);
const reference = z.strictObject({ name: objectName, namespace: objectName });

/** Entry of `appliedTo`, `from` or `to`. */
export const selectionSchema = z.strictObject({
  podSelector: selectorSchema.nullish(),
  namespaceSelector: selectorSchema.nullish(),
  group: z.string().max(NAME_MAX).nullish(),
  ipBlock: z.strictObject({ cidr: z.string(), except: z.array(z.string()).max(NETWORKS_MAX).nullish() }).nullish(),
  nodeSelector: selectorSchema.nullish(),
  fqdn: z.string().nullish(),
  namespaces: z.looseObject({}).nullish(),
  externalEntitySelector: z.looseObject({}).nullish(),
  serviceAccount: z.looseObject({}).nullish(),
  service: reference.nullish(),
  scope: z.enum(['Cluster', 'ClusterSet']).nullish(),
});

export type AntreaSelection = z.output<typeof selectionSchema>;

/** Members of a ClusterGroup or Group. */
export const groupSchema = z.strictObject({
  podSelector: selectorSchema.nullish(),
  namespaceSelector: selectorSchema.nullish(),
  ipBlocks: z
    .array(z.strictObject({ cidr: z.string(), except: z.array(z.string()).max(NETWORKS_MAX).nullish() }))
    .max(1_000)
    .nullish(),
  serviceReference: z.looseObject({}).nullish(),
  externalEntitySelector: z.looseObject({}).nullish(),
  childGroups: list,
});

/** Result of a conversion, or the reason why there is none. */
export type Converted<T> = { readonly value: T } | { readonly refused: string };

/**
 * Returns the pods that selectors mean: without a selector of namespaces those of the policy's own namespace, or of all for a policy of the
 * cluster.
 */
export function podsOfSelectors(
  { podSelector, namespaceSelector }: Pick<AntreaSelection, 'podSelector' | 'namespaceSelector'>,
  namespace: string | undefined,
): ClusterPodsObject {
  const own = namespace === undefined ? {} : { matchLabels: { [NAMESPACE_LABEL]: namespace } };
  const namespaces = namespaceSelector ?? own;
  return podSelector ? { pods: { namespaceSelector: namespaces, podSelector } } : { namespaces };
}

/** Returns the networks of a block. None are left if its exceptions contain all of it. */
export function networksOfBlock({ cidr, except }: NonNullable<AntreaSelection['ipBlock']>): Converted<readonly string[]> {
  try {
    const networks = networksWithout(cidr, except ?? []);
    return networks.length > NETWORKS_MAX ? { refused: `${networks.length} networks, at most ${NETWORKS_MAX}` } : { value: networks };
  } catch {
    return { refused: 'not a network' };
  }
}

const domainName = /^(\*\.)?([a-zA-Z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?\.)+[a-zA-Z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?\.?$/;

/** Returns the peer for a name, or for the names below one. Other patterns match parts of labels, which the API does not have. */
export function peerOfName(name: string, action: string): Converted<readonly ClusterPeerObject[]> {
  if (action !== 'Allow') return { refused: `names are for rules that allow, and the action is ${action}` };
  if (name.length > NAME_MAX || !domainName.test(name)) return { refused: 'neither a name nor *. and a name' };
  return { value: [{ domainNames: [name] }] };
}

/** Fields that no ClusterNetworkPolicy has, with the reason. */
const unsupported = {
  namespaces: 'a peer cannot depend on the namespace of the subject',
  externalEntitySelector: 'external entities are not in the API',
  serviceAccount: 'service accounts are not in the API',
  service: 'a Service is not a subject of the API',
} as const;

/** Returns the reason why an entry cannot be converted; undefined if its fields are known. */
export function refusalOf(selection: AntreaSelection): string | undefined {
  for (const [field, reason] of Object.entries(unsupported)) if (selection[field as keyof typeof unsupported]) return `${field}: ${reason}`;
  return selection.scope === 'ClusterSet' ? 'scope: other clusters are not in the API' : undefined;
}
