import * as z from 'zod';
import { type Protocol, parseObject, portNumber, protocol, type Resource } from '../client/resource.ts';
import { network, type SelectorRequirements, labelSelector as selector } from './label-selector.ts';
import { FaultList, type FieldPath, quoted, readField } from './object-faults.ts';

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
}

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
    for (const field of Object.keys(unknown)) faults.add(`spec.${field}: a field that this version does not know`);
    for (const type of policyTypes ?? [])
      if (type !== 'Ingress' && type !== 'Egress') faults.add(`spec.policyTypes: a type that this version does not know (${quoted(type)})`);
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

/** Returns as many rules as there are: one that cannot be read keeps its place and matches nothing. */
function rulesOf(direction: 'ingress' | 'egress', raw: readonly unknown[], faults: FaultList): readonly NetworkPolicyRule[] {
  const peersField = direction === 'ingress' ? 'from' : 'to';
  return raw.map((each, at): NetworkPolicyRule => {
    const path = ['spec', direction, at];
    const rule = readField(ruleSchemas[direction], each, path, faults);
    if (!rule) return { peers: [], ports: [] };
    return {
      peers: listOrAny(peer, rule.peers, [...path, peersField], faults),
      ports: listOrAny(port, rule.ports, [...path, 'ports'], faults),
    };
  });
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
