import * as z from 'zod';
import { canonicalIp } from '../../base/net/ip.ts';
import { firstOf, listOf, type Networks, networkList, ownValue, parseObject, type Resource, stringMap } from '../client/resource.ts';
import { deniedAnnotation } from './denied-annotation.ts';
import { peerModesAnnotation, wireGuardKeyAnnotation, wireGuardNextKeyAnnotation } from './node-annotations.ts';

/** Node, with the properties that its peers and its own agent need. Addresses and networks are canonical text. */
export interface Node {
  readonly name: string;
  readonly uid: string;
  /** One per family, where an API server checks it; empty until a controller allocates them. */
  readonly podCidrs: readonly string[];
  /** Reasons for other entries of `spec.podCIDRs` that cannot be used; absent if none. */
  readonly refusedPodCidrs?: readonly string[];
  /** Reasons for other entries of `status.addresses` that are not used; absent if none. */
  readonly refusedAddresses?: readonly string[];
  /** `status.addresses` of type InternalIP in the Node's own order; the first of a family is the one to use. */
  readonly internalIps: readonly string[];
  /** The same of type ExternalIP, which need not be on any interface of the node; absent if there is none. */
  readonly externalIps?: readonly string[];
  /** Labels, by which cluster policies select nodes; absent if there are none. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Label `topology.kubernetes.io/zone`. */
  readonly zone?: string;
  /** Annotation `seine.dev/policy-mode` as written, truncated to slightly more than a mode; absent if there is none. */
  readonly policyMode?: string;
  /** Annotation `seine.dev/denied`, likewise. */
  readonly denied?: string;
  /** Annotation `seine.dev/peer-modes`, likewise. */
  readonly peerModes?: string;
  /** Annotation with its public key of WireGuard as written, truncated to slightly more than a key; absent if there is none. */
  readonly wireGuardKey?: string;
  /** Annotation with the key that replaces it, and a time; truncated likewise. */
  readonly wireGuardNextKey?: string;
  /** `metadata.creationTimestamp`, RFC 3339 in UTC; absent only in objects stored by an older agent. */
  readonly createdAt?: string;
  readonly deleting: boolean;
  /** Taint `ToBeDeletedByClusterAutoscaler`; absent if it has none. */
  readonly toBeDeleted?: true;
  /** Condition `NetworkUnavailable`; absent if it was never set. */
  readonly networkUnavailable?: boolean;
}

/** Value of the annotation of a node that accepts packets without a tunnel, and may send them; `tunnel`: it has ceased to. */
export const peerModesValues = { direct: 'direct', tunnel: 'tunnel' } as const;

/** Maximum number of pod networks of a Node. The API server accepts one per family. */
const NETWORKS_MAX = 16;
/** Maximum number of addresses of one type and family: a node has a few. */
const ADDRESSES_MAX = 128;
/** Maximum number of labels, in the order of their names: a node has a few dozen. */
const LABELS_MAX = 100;
/** Maximum number of reasons kept for one list. */
const REASONS_MAX = 5;

/** Maximum length of an annotation that is not a mode, for display. */
const MODE_SHOWN_MAX = 32;

/** Maximum length of the annotations with a key of 44 characters, and with a time after it. */
const KEY_MAX = 48;
const NEXT_KEY_MAX = 80;

/** The first addresses of each family, in their order: no node needs more, and other nodes store and compare all of them. */
class FirstOfFamilies {
  readonly ips: string[] = [];
  readonly #counts = { ipv4: 0, ipv6: 0 };
  #others = 0;

  /** @returns false if the text is not an address; those that are not kept are not checked */
  add(text: string): boolean {
    const family = text.includes(':') ? 'ipv6' : 'ipv4';
    if (this.#counts[family] >= ADDRESSES_MAX) {
      this.#others++;
      return true;
    }
    const ip = canonicalIp(text);
    if (ip === undefined) return false;
    this.#counts[family]++;
    this.ips.push(ip);
    return true;
  }

  get refused(): readonly string[] {
    return this.#others > 0 ? [`status.addresses: ${this.#others} are not used: at most ${ADDRESSES_MAX} of a type and family are`] : [];
  }
}

/**
 * Addresses of the types that the agent uses. The text of others need not be an address (Hostname). Of those that are not kept, only the number
 * is determined.
 */
const usedAddresses = listOf(z.object({ type: z.string(), address: z.string() })).transform((all, context) => {
  const lists = { InternalIP: new FirstOfFamilies(), ExternalIP: new FirstOfFamilies() };
  for (const [at, { type, address }] of all.entries()) {
    if (type !== 'InternalIP' && type !== 'ExternalIP') continue;
    if (lists[type].add(address) || type === 'ExternalIP') continue; // no tunnel goes to an ExternalIP, and no pod is served by it
    const message = `${JSON.stringify(address)} is not an IP address`;
    context.issues.push({ code: 'custom', message, path: [at, 'address'], input: address });
  }
  return { internal: lists.InternalIP, external: lists.ExternalIP };
});

const oneNetwork = z
  .string()
  .nullish()
  .transform((text): string[] | null | undefined => (text ? [text] : undefined))
  .pipe(networkList);

const schema = z.object({
  metadata: z.object({
    name: z.string(),
    uid: z.string(),
    labels: stringMap,
    annotations: stringMap,
    creationTimestamp: z.string().nullish(),
    deletionTimestamp: z.string().nullish(),
  }),
  spec: z.object({ podCIDR: oneNetwork, podCIDRs: firstOf(networkList, NETWORKS_MAX), taints: z.unknown().optional() }).nullish(),
  status: z.object({ addresses: usedAddresses, conditions: z.unknown().optional() }).nullish(),
});

export const nodes: Resource<Node> = {
  kind: 'Node',
  path: '/api/v1/nodes',
  revision: 8,
  project: (raw) => {
    const { metadata, spec, status } = parseObject(schema, raw);
    const { cidrs, refused } = networksOf(spec);
    const { internal, external } = status?.addresses ?? noAddresses;
    const refusedAddresses = [...internal.refused, ...external.refused];
    const zone = ownValue(metadata.labels, 'topology.kubernetes.io/zone');
    const policyMode = ownValue(metadata.annotations, 'seine.dev/policy-mode');
    const denied = ownValue(metadata.annotations, deniedAnnotation);
    const wireGuardKey = ownValue(metadata.annotations, wireGuardKeyAnnotation);
    const wireGuardNextKey = ownValue(metadata.annotations, wireGuardNextKeyAnnotation);
    const peerModes = ownValue(metadata.annotations, peerModesAnnotation);
    return {
      name: metadata.name,
      uid: metadata.uid,
      podCidrs: cidrs,
      ...boundedRefusals(refused, spec?.podCIDRs?.others ?? 0),
      ...(refusedAddresses.length > 0 ? { refusedAddresses } : {}),
      internalIps: internal.ips,
      ...(external.ips.length > 0 ? { externalIps: external.ips } : {}),
      ...labelsOf(metadata.labels),
      ...(zone === undefined ? {} : { zone }),
      ...(policyMode === undefined ? {} : { policyMode: policyMode.slice(0, MODE_SHOWN_MAX) }),
      ...(denied === undefined ? {} : { denied: denied.slice(0, MODE_SHOWN_MAX) }),
      ...(peerModes === undefined ? {} : { peerModes: peerModes.slice(0, MODE_SHOWN_MAX) }),
      ...(wireGuardKey === undefined ? {} : { wireGuardKey: wireGuardKey.slice(0, KEY_MAX) }),
      ...(wireGuardNextKey === undefined ? {} : { wireGuardNextKey: wireGuardNextKey.slice(0, NEXT_KEY_MAX) }),
      ...(metadata.creationTimestamp ? { createdAt: metadata.creationTimestamp } : {}),
      deleting: typeof metadata.deletionTimestamp === 'string',
      ...(isToBeDeleted(spec?.taints) ? { toBeDeleted: true as const } : {}),
      ...networkCondition(status?.conditions),
    };
  },
};

/** Returns the labels that can be labels: others, and those beyond the limit, match no selector. */
function labelsOf(labels: Readonly<Record<string, string>> | null | undefined): Pick<Node, 'labels'> {
  const kept = Object.entries(labels ?? {})
    .filter(([key, value]) => key.length <= LABEL_KEY_MAX && value.length <= LABEL_VALUE_MAX)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .slice(0, LABELS_MAX);
  return kept.length > 0 ? { labels: Object.fromEntries(kept) } : {};
}

/** Lengths of a prefix, `/` and a name, and of a value, which the API server admits. */
const LABEL_KEY_MAX = 253 + 1 + 63;
const LABEL_VALUE_MAX = 63;

/** Returns the networks. `podCIDR` is the first of `podCIDRs`, for clients that know only one. */
function networksOf(spec: z.output<typeof schema>['spec']): Networks {
  const podCIDRs = spec?.podCIDRs.first ?? noNetworks;
  const podCIDR = spec?.podCIDR ?? noNetworks;
  return podCIDRs.cidrs.length + podCIDRs.refused.length > 0 ? podCIDRs : podCIDR;
}

/** Returns the reasons of a list that may be long: the first, and the number of the others. */
function boundedRefusals(refused: Networks['refused'], unread: number): Pick<Node, 'refusedPodCidrs'> {
  const reasons = refused.slice(0, REASONS_MAX - 1).map(({ why }) => `spec.podCIDRs: ${why}`);
  const others = refused.length - reasons.length + unread;
  if (others > 0) reasons.push(`spec.podCIDRs: ${others} other networks are not used: a Node has at most ${NETWORKS_MAX}, each valid`);
  return reasons.length > 0 ? { refusedPodCidrs: reasons } : {};
}

const noAddresses: z.output<typeof usedAddresses> = { internal: new FirstOfFamilies(), external: new FirstOfFamilies() };
const noNetworks: Networks = { cidrs: [], refused: [] };

/**
 * Reports whether the node has the taint that the cluster autoscaler sets before it drains and deletes a node, and that kube-proxy's health
 * check uses.
 */
function isToBeDeleted(taints: unknown): boolean {
  return Array.isArray(taints) && taints.some((one: unknown) => isRecord(one) && one['key'] === 'ToBeDeletedByClusterAutoscaler');
}

/**
 * Returns the condition. Searched without a schema: every node has several conditions, which change all the time, and only this one
 * matters.
 */
function networkCondition(conditions: unknown): Pick<Node, 'networkUnavailable'> {
  if (!Array.isArray(conditions)) return {};
  const found: unknown = conditions.find((one: unknown) => isRecord(one) && one['type'] === 'NetworkUnavailable');
  return isRecord(found) ? { networkUnavailable: found['status'] !== 'False' } : {};
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
