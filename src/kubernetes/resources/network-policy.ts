import * as z from 'zod';
import { type Protocol, parseObject, portNumber, protocol, type Resource } from '../client/resource.ts';
import { network, type SelectorRequirements, labelSelector as selector } from './label-selector.ts';
import { FaultList, type FieldPath, quoted, readField, valueAt } from './object-faults.ts';

/**
 * NetworkPolicy with the API's defaults filled in. Parts of a rule that this version cannot read allow nothing and are among the faults: a
 * partly understood policy is stricter than intended, never more open.
 */
export interface NetworkPolicy {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  readonly podSelector: SelectorRequirements;
  /** Absent: the policy does not isolate its pods in this direction. */
  readonly ingress?: readonly NetworkPolicyRule[];
  readonly egress?: readonly NetworkPolicyRule[];
  /** Fields that cannot be used, with their values, as text; absent if none. */
  readonly faults?: readonly string[];
}

/** Rule at its place in `spec.ingress` or `spec.egress`. An empty list matches nothing; the API's empty list is `any`. */
export interface NetworkPolicyRule {
  readonly peers: 'any' | readonly NetworkPolicyPeer[];
  readonly ports: 'any' | readonly NetworkPolicyPort[];
  /** Limit of {@link policyLimits} that the rule exceeds. It is not read, and allows nothing. */
  readonly refused?: string;
}

/**
 * Limits of one policy and direction. With nested blocks the number of address classes grows with the number of rules. Every user of a
 * namespace may write policies, while memory and CPU time are those of the node.
 */
const policyLimits = { rules: 1_000, networks: 20_000, peers: 60_000, peersOfRule: 20_000, portsOfRule: 1_000 } as const;

export type NetworkPolicyPeer =
  /** Canonical text. */
  | { readonly cidr: string; readonly except: readonly string[] }
  /** Pods. If `namespaces` is absent, those of the policy's own namespace. */
  | { readonly namespaces?: SelectorRequirements; readonly pods: SelectorRequirements };

export interface NetworkPolicyPort {
  readonly protocol: Protocol;
  /** Absent: all ports. A string is the name of a port of the destination's containers. */
  readonly port?: number | string;
  /** Last port of a range that begins at `port`. */
  readonly endPort?: number;
}

const peer = z
  .strictObject({
    podSelector: selector.nullish(),
    namespaceSelector: selector.nullish(),
    ipBlock: z.strictObject({ cidr: network, except: z.array(network).nullish() }).nullish(),
  })
  .refine(
    ({ ipBlock, podSelector, namespaceSelector }) => (ipBlock ? !(podSelector || namespaceSelector) : podSelector || namespaceSelector),
    {
      error: 'either ipBlock, or selectors',
    },
  )
  .transform(({ ipBlock, podSelector, namespaceSelector }): NetworkPolicyPeer => {
    if (ipBlock) return { cidr: ipBlock.cidr, except: ipBlock.except ?? [] };
    return { ...(namespaceSelector ? { namespaces: namespaceSelector } : {}), pods: podSelector ?? [] };
  });

const port = z
  .strictObject({ protocol: protocol.nullish(), port: portNumber.or(z.string().min(1)).nullish(), endPort: portNumber.nullish() })
  .refine((each) => !each.endPort || (typeof each.port === 'number' && each.endPort >= each.port), {
    error: 'endPort ends a range that begins with a number',
  })
  .transform(
    (each): NetworkPolicyPort => ({
      protocol: each.protocol ?? 'TCP',
      ...(each.port ? { port: each.port } : {}),
      ...(each.endPort ? { endPort: each.endPort } : {}),
    }),
  );

const ruleList = z.array(z.unknown()).nullish();

const schema = z.object({
  metadata: z.object({ namespace: z.string(), name: z.string(), uid: z.string(), generation: z.int().nullish() }),
  spec: z
    .looseObject({ podSelector: selector.nullish(), policyTypes: z.array(z.string()).nullish(), ingress: ruleList, egress: ruleList })
    .nullish(),
});

const ruleSchemas = {
  ingress: z.strictObject({ from: ruleList, ports: ruleList }).transform(({ from, ports }) => ({ peers: from, ports })),
  egress: z.strictObject({ to: ruleList, ports: ruleList }).transform(({ to, ports }) => ({ peers: to, ports })),
};

export const networkPolicies: Resource<NetworkPolicy> = {
  kind: 'NetworkPolicy',
  path: '/apis/networking.k8s.io/v1/networkpolicies',
  revision: 2,
  project: (raw) => {
    const { metadata, spec } = parseObject(schema, raw);
    const { podSelector, policyTypes, ingress, egress, ...unknown } = spec ?? {};
    const faults = new FaultList();
    for (const field of Object.keys(unknown)) faults.add(`spec.${field}: a field unknown to this version`);
    for (const type of policyTypes ?? [])
      if (type !== 'Ingress' && type !== 'Egress') faults.add(`spec.policyTypes: a type unknown to this version (${quoted(type)})`);
    const isolates = typesOf(policyTypes ?? [], egress ?? []);
    return {
      namespace: metadata.namespace,
      name: metadata.name,
      uid: metadata.uid,
      generation: metadata.generation ?? 0,
      podSelector: podSelector ?? [],
      ...(isolates.ingress ? { ingress: rulesOf('ingress', ingress ?? [], faults) } : {}),
      ...(isolates.egress ? { egress: rulesOf('egress', egress ?? [], faults) } : {}),
      ...(faults.texts.length > 0 ? { faults: faults.texts } : {}),
    };
  },
};

function typesOf(types: readonly string[], egress: readonly unknown[]): { readonly ingress: boolean; readonly egress: boolean } {
  if (types.length > 0) return { ingress: types.includes('Ingress'), egress: types.includes('Egress') };
  return { ingress: true, egress: egress.length > 0 };
}

/** Returns the rules, as many as a policy may have: one that cannot be read keeps its place and matches nothing. */
function rulesOf(direction: 'ingress' | 'egress', raw: readonly unknown[], faults: FaultList): readonly NetworkPolicyRule[] {
  const peersField = direction === 'ingress' ? 'from' : 'to';
  const before = { networks: 0, peers: 0 };
  const { rules: most } = policyLimits;
  const rules = raw.slice(0, most).map((each, at): NetworkPolicyRule => {
    const path = ['spec', direction, at];
    const rule = readField(ruleSchemas[direction], each, path, faults);
    if (!rule) return nothingAllowed;
    const refused = exceededLimit(rule, before);
    if (refused !== undefined) return { ...nothingAllowed, refused };
    return {
      peers: listOrAny(peer, rule.peers, [...path, peersField], faults),
      ports: listOrAny(port, rule.ports, [...path, 'ports'], faults),
    };
  });
  if (raw.length <= most) return rules;
  const others = raw.length - most - 1;
  return [
    ...rules,
    { ...nothingAllowed, refused: `more than ${most} rules${others > 0 ? `; ${others} others allow nothing either` : ''}` },
  ];
}

const nothingAllowed: NetworkPolicyRule = { peers: [], ports: [] };

/** Determines the limit that a rule exceeds before its elements are read. @param before numbers of the rules up to it, which are increased */
function exceededLimit(
  { peers, ports }: { readonly peers?: readonly unknown[] | null | undefined; readonly ports?: readonly unknown[] | null | undefined },
  before: { networks: number; peers: number },
): string | undefined {
  const limits = policyLimits;
  for (const each of peers ?? []) before.networks += networksOf(each);
  before.peers += peers?.length ?? 0;
  if (before.networks > limits.networks) return `more than ${limits.networks} networks in the rules up to this one`;
  if ((peers?.length ?? 0) > limits.peersOfRule) return `more than ${limits.peersOfRule} peers`;
  if (before.peers > limits.peers) return `more than ${limits.peers} peers in the rules up to this one`;
  return (ports?.length ?? 0) > limits.portsOfRule ? `more than ${limits.portsOfRule} ports` : undefined;
}

/** Returns the number of networks of a peer that is not read yet. */
function networksOf(peer: unknown): number {
  const block = valueAt(peer, ['ipBlock']);
  if (typeof block !== 'object' || block === null) return 0;
  const except = valueAt(block, ['except']);
  return 1 + (Array.isArray(except) ? except.length : 0);
}

function listOrAny<T>(
  schema: z.ZodType<T>,
  raw: readonly unknown[] | null | undefined,
  path: FieldPath,
  faults: FaultList,
): 'any' | readonly T[] {
  if (!raw || raw.length === 0) return 'any';
  return raw.flatMap((each, at) => readField(schema, each, [...path, at], faults) ?? []);
}
