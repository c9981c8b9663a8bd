import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { isMappedIpv4, parseCidr } from '../../base/net/ip.ts';
import { formatPath, type Protocol, parseObject, portNumber, protocol, type Resource } from '../client/resource.ts';

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

/** All requirements have to match; none: everything matches. `matchLabels` are requirements `In` with one value. */
type SelectorRequirements = readonly LabelRequirement[];

export interface LabelRequirement {
  readonly key: string;
  readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
  /** Empty for `Exists` and `DoesNotExist`. */
  readonly values: readonly string[];
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

/** Labels. A key that JSON can have and a JavaScript object cannot must not be lost: the selector would match more. */
const labelMap = z
  .unknown()
  .refine((raw) => typeof raw !== 'object' || raw === null || !Object.hasOwn(raw, '__proto__'), '__proto__ is no label')
  .pipe(z.record(z.string(), z.string()).nullish())
  .optional();

const requirement = z
  .strictObject({
    key: z.string().min(1),
    operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']),
    values: z.array(z.string()).nullish(),
  })
  .transform(({ key, operator, values }) => ({ key, operator, values: values ?? [] }))
  .refine(({ operator, values }) => (operator === 'In' || operator === 'NotIn') === values.length > 0, {
    error: 'In and NotIn need values, Exists and DoesNotExist have none',
  });

const selector = z
  .strictObject({ matchLabels: labelMap, matchExpressions: z.array(requirement).nullish() })
  .transform(
    ({ matchLabels, matchExpressions }): SelectorRequirements => [
      ...Object.entries(matchLabels ?? {}).map(([key, value]) => ({ key, operator: 'In' as const, values: [value] })),
      ...(matchExpressions ?? []),
    ],
  );

/** Network. Host bits are cleared, as by the API; a network that no packet has (IPv4 written as IPv6) or that is ambiguous is refused. */
const network = z.string().transform((text, context) => {
  try {
    const cidr = parseCidr(text);
    if (!isMappedIpv4(cidr) && !/\/0\d/.test(text)) return cidr.text;
    context.issues.push({ code: 'custom', message: 'a network that can be read in two ways', input: text });
  } catch (thrown) {
    context.issues.push({ code: 'custom', message: SeineError.from(thrown, 'parse').rawMessage, input: text });
  }
  return z.NEVER;
});

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
    const rule = read(ruleSchemas[direction], each, path, faults);
    if (!rule) return { peers: [], ports: [] };
    return {
      peers: listOrAny(peer, rule.peers, [...path, peersField], faults),
      ports: listOrAny(port, rule.ports, [...path, 'ports'], faults),
    };
  });
}

type Path = readonly (string | number)[];

function listOrAny<T>(
  schema: z.ZodType<T>,
  raw: readonly unknown[] | null | undefined,
  path: Path,
  faults: FaultList,
): 'any' | readonly T[] {
  if (!raw || raw.length === 0) return 'any';
  return raw.flatMap((each, at) => read(schema, each, [...path, at], faults) ?? []);
}

function read<T>(schema: z.ZodType<T>, raw: unknown, path: Path, faults: FaultList): T | undefined {
  const parsed = schema.safeParse(raw);
  if (parsed.success) return parsed.data;
  for (const issue of parsed.error.issues)
    faults.add(`${formatPath([...path, ...issue.path])}: ${issue.message} (${quoted(valueAt(raw, issue.path))})`);
  return undefined;
}

function valueAt(raw: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, part) => (typeof value === 'object' && value !== null && Object.hasOwn(value, part) ? Reflect.get(value, part) : undefined),
    raw,
  );
}

function quoted(value: unknown): string {
  const text = JSON.stringify(value) ?? 'absent';
  return text.length > QUOTED_MAX ? `${text.slice(0, QUOTED_MAX)}…` : text;
}

const QUOTED_MAX = 100;
const FAULTS_MAX = 5;

/** List of the first few faults: they are stored with the object, and reported in an event. */
class FaultList {
  readonly #texts: string[] = [];
  #more = 0;

  add(text: string): void {
    if (this.#texts.length < FAULTS_MAX) this.#texts.push(text);
    else this.#more++;
  }

  get texts(): readonly string[] {
    return this.#more === 0 ? this.#texts : [...this.#texts, `and ${this.#more} more`];
  }
}
