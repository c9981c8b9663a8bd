import * as z from 'zod';
import { ownValue, type Protocol, parseObject, portNumber, type Resource, stringMap } from '../client/resource.ts';
import { type DeniedAnswer, deniedAnnotation, deniedIn, deniedValues } from './denied-annotation.ts';
import { labelSelector, network, type SelectorRequirements } from './label-selector.ts';
import { FaultList, type FieldPath, quoted, readField } from './object-faults.ts';

/**
 * ClusterNetworkPolicy. What this version cannot read fails closed, as the API demands, and is among the faults: an Accept rule matches
 * nothing, a Deny or Pass rule denies.
 */
export interface ClusterNetworkPolicy {
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  /** `metadata.creationTimestamp`, RFC 3339 in UTC; empty if there is none. Of equal priorities, the older policy comes first. */
  readonly createdAt: string;
  readonly tier: ClusterPolicyTier;
  /** 0 to 1,000; the lowest comes first. */
  readonly priority: number;
  /** Pods that the policy applies to; absent if the subject cannot be read: then it applies to none. */
  readonly subject?: ClusterPods;
  readonly ingress: readonly ClusterPolicyRule[];
  readonly egress: readonly ClusterPolicyRule[];
  /** Annotation `seine.dev/denied`: answer to clients that its Deny rules deny; absent if there is none, or an invalid one. */
  readonly denied?: DeniedAnswer;
  /** Fields that cannot be used, with their values, as text; absent if none. */
  readonly faults?: readonly string[];
}

type ClusterPolicyTier = 'admin' | 'baseline';

/** Pods without host network, by labels of their namespace and their own. */
export interface ClusterPods {
  readonly namespaces: SelectorRequirements;
  readonly pods: SelectorRequirements;
}

/** Rule at its place in `spec.ingress` or `spec.egress`. `any` for peers stands only where a rule fails closed. */
export interface ClusterPolicyRule {
  /** Name given by the user; absent if there is none. */
  readonly name?: string;
  readonly action: 'accept' | 'deny' | 'pass';
  readonly peers: 'any' | readonly ClusterPolicyPeer[];
  readonly protocols: 'any' | readonly ClusterPolicyProtocol[];
}

export type ClusterPolicyPeer =
  | ClusterPods
  /** Networks, canonical text. */
  | { readonly networks: readonly string[] }
  /** Addresses of nodes with these labels. */
  | { readonly nodes: SelectorRequirements };

export type ClusterPolicyProtocol =
  | { readonly protocol: Protocol; readonly first: number; readonly last: number }
  /** Port of the destination's containers, with the protocol that it has there. */
  | { readonly portName: string };

/** Limits of one list. The API admits 25 entries; a later version may admit more. */
const limits = { rules: 100, entries: 100 } as const;
const NAME_MAX = 100;

const list = z.array(z.unknown()).nullish();

const schema = z.object({
  metadata: z.object({
    name: z.string(),
    uid: z.string(),
    generation: z.int().nullish(),
    creationTimestamp: z.string().nullish(),
    annotations: stringMap,
  }),
  spec: z.looseObject({ tier: z.unknown(), priority: z.unknown(), subject: z.unknown(), ingress: list, egress: list }),
});

const tierSchema = z.enum(['Admin', 'Baseline']);
const prioritySchema = z.int().min(0).max(1_000);
const ruleFields = { name: z.string().nullish(), action: z.enum(['Accept', 'Deny', 'Pass']), protocols: list };
const ruleSchemas = {
  ingress: z.strictObject({ ...ruleFields, from: list }).transform(({ from, ...rule }) => ({ ...rule, peers: from })),
  egress: z.strictObject({ ...ruleFields, to: list }).transform(({ to, ...rule }) => ({ ...rule, peers: to })),
};
const actions = { Accept: 'accept', Deny: 'deny', Pass: 'pass' } as const;

const podFields = {
  namespaces: labelSelector.optional(),
  pods: z.strictObject({ namespaceSelector: labelSelector.nullish(), podSelector: labelSelector }).optional(),
};
const networkFields = {
  networks: z.array(network).min(1).max(limits.entries).optional(),
  nodes: labelSelector.optional(),
};

const onePeer = <T extends object>(fields: T): boolean => Object.values(fields).filter((field) => field !== undefined).length === 1;
const onlyOne = { error: 'one known field is required' };
const podsSchema = z.strictObject(podFields).refine(onePeer, onlyOne).transform(podsOf);
const peerSchemas = {
  ingress: podsSchema,
  egress: z
    .strictObject({ ...podFields, ...networkFields })
    .refine(onePeer, onlyOne)
    .transform(({ networks, nodes, ...pods }): ClusterPolicyPeer => (networks ? { networks } : nodes ? { nodes } : podsOf(pods))),
};

const ports = z
  .strictObject({
    number: portNumber.optional(),
    range: z
      .strictObject({ start: portNumber, end: portNumber })
      .refine(({ start, end }) => start <= end, { error: 'a range ends at or after its start' })
      .optional(),
  })
  .refine(onePeer, onlyOne)
  .transform(({ number = 0, range = { start: number, end: number } }) => ({ first: range.start, last: range.end }));
const transport = z
  .strictObject({ destinationPort: ports.optional() })
  .transform(({ destinationPort }) => destinationPort ?? { first: 0, last: 65_535 })
  .optional();
const protocolSchema = z
  .strictObject({ tcp: transport, udp: transport, sctp: transport, destinationNamedPort: z.string().min(1).optional() })
  .refine(onePeer, onlyOne)
  .transform(({ tcp, udp, sctp, destinationNamedPort: portName = '' }): ClusterPolicyProtocol => {
    if (tcp) return { protocol: 'TCP', ...tcp };
    if (udp) return { protocol: 'UDP', ...udp };
    return sctp ? { protocol: 'SCTP', ...sctp } : { portName };
  });

const group = 'policy.networking.k8s.io';

/** API group, and its versions that can be read, the preferred one first. */
export const clusterPolicyGroup = { group, versions: ['v1beta1', 'v1alpha2'] } as const;
type ClusterNetworkPolicyVersion = (typeof clusterPolicyGroup.versions)[number];

/** Returns the resource as a version of the API serves it. The versions have the same fields. */
export function clusterNetworkPoliciesOf(version: ClusterNetworkPolicyVersion): Resource<ClusterNetworkPolicy> {
  return {
    kind: 'ClusterNetworkPolicy',
    path: `/apis/${group}/${version}/clusternetworkpolicies`,
    revision: 2,
    project,
  };
}

function project(raw: unknown): ClusterNetworkPolicy {
  const { metadata, spec } = parseObject(schema, raw);
  const { tier, priority, subject, ingress, egress, ...unknown } = spec;
  const faults = new FaultList();
  for (const field of Object.keys(unknown)) faults.add(`spec.${field}: a field unknown to this version (${quoted(unknown[field])})`);
  const [ofTier, rank] = [
    readField(tierSchema, tier, ['spec', 'tier'], faults),
    readField(prioritySchema, priority, ['spec', 'priority'], faults),
  ];
  const pods = readField(podsSchema, subject, ['spec', 'subject'], faults);
  const denied = deniedOf(metadata.annotations, faults);
  const isPlaced = ofTier !== undefined && rank !== undefined;
  return {
    name: metadata.name,
    uid: metadata.uid,
    generation: metadata.generation ?? 0,
    createdAt: metadata.creationTimestamp ?? '',
    tier: ofTier === 'Baseline' ? 'baseline' : 'admin',
    priority: rank ?? 0,
    ...(pods && isPlaced ? { subject: pods } : {}),
    ingress: rulesOf('ingress', ingress ?? [], faults),
    egress: rulesOf('egress', egress ?? [], faults),
    ...denied,
    ...(faults.texts.length > 0 ? { faults: faults.texts } : {}),
  };
}

function deniedOf(annotations: Parameters<typeof deniedIn>[0], faults: FaultList): ReturnType<typeof deniedIn> {
  const denied = deniedIn(annotations);
  const text = ownValue(annotations, deniedAnnotation);
  if (text !== undefined && !denied.denied)
    faults.add(`metadata.annotations["${deniedAnnotation}"]: ${quoted(text)} is not one of ${deniedValues.join(', ')}`);
  return denied;
}

const denyAll: ClusterPolicyRule = { action: 'deny', peers: 'any', protocols: 'any' };

/** Returns a rule for each of the API's rules, at its place; rules beyond the limit are replaced by one that denies everything. */
function rulesOf(direction: 'ingress' | 'egress', raw: readonly unknown[], faults: FaultList): readonly ClusterPolicyRule[] {
  const rules = raw.slice(0, limits.rules).map((each, at) => ruleOf(direction, each, ['spec', direction, at], faults));
  if (raw.length <= limits.rules) return rules;
  faults.add(`spec.${direction}: more than ${limits.rules} rules (${raw.length})`);
  return [...rules, denyAll];
}

function ruleOf(direction: 'ingress' | 'egress', raw: unknown, path: FieldPath, faults: FaultList): ClusterPolicyRule {
  const rule = readField(ruleSchemas[direction], raw, path, faults);
  if (!rule) return failed(actionOf(raw));
  const name = rule.name ? { name: rule.name.slice(0, NAME_MAX) } : {};
  const action = actions[rule.action];
  const peers = readAll(peerSchemas[direction], rule.peers ?? [], [...path, direction === 'ingress' ? 'from' : 'to'], faults);
  if (peers === 'unreadable') return { ...name, ...failed(action) };
  if (!rule.protocols) return { ...name, action, peers, protocols: 'any' };
  const before = faults.count;
  const protocols = readAll(protocolSchema, rule.protocols, [...path, 'protocols'], faults, 'skip');
  const areKnown = faults.count === before && protocols !== 'unreadable';
  // A Pass of every protocol would open what the rule does not name.
  if (!areKnown && action !== 'accept') return { ...name, action: 'deny', peers, protocols: 'any' };
  return { ...name, action, peers, protocols: protocols === 'unreadable' ? [] : protocols };
}

/** Returns the effect of a rule that cannot be read. */
function failed(action: ClusterPolicyRule['action'] | undefined): ClusterPolicyRule {
  return action === 'accept' ? { action, peers: [], protocols: 'any' } : denyAll;
}

function actionOf(raw: unknown): ClusterPolicyRule['action'] | undefined {
  const parsed = z.object({ action: ruleFields.action }).safeParse(raw);
  return parsed.success ? actions[parsed.data.action] : undefined;
}

/** @param invalid effect of an invalid entry: the list cannot be read, or it lacks the entry */
function readAll<T>(
  schema: z.ZodType<T>,
  raw: readonly unknown[],
  path: FieldPath,
  faults: FaultList,
  invalid: 'unreadable' | 'skip' = 'unreadable',
): readonly T[] | 'unreadable' {
  if (raw.length === 0 || raw.length > limits.entries) {
    faults.add(`${path.slice(0, 2).join('.')}[${path[2]}].${path[3]}: 1 to ${limits.entries} entries are required (${raw.length})`);
    return 'unreadable';
  }
  const entries = raw.map((each, at) => readField(schema, each, [...path, at], faults));
  const read = entries.flatMap((entry) => entry ?? []);
  return read.length < entries.length && invalid === 'unreadable' ? 'unreadable' : read;
}

function podsOf({ namespaces, pods }: z.output<z.ZodObject<typeof podFields>>): ClusterPods {
  return { namespaces: namespaces ?? pods?.namespaceSelector ?? [], pods: pods?.podSelector ?? [] };
}
