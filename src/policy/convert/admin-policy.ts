import * as z from 'zod';
import { parseObject } from '../../kubernetes/client/resource.ts';
import type { FieldPath } from '../../kubernetes/resources/object-faults.ts';
import type { ClusterPeerObject, ClusterPodsObject, ClusterProtocolObject } from '../verify/reference/objects.ts';
import {
  type DraftPolicy,
  type DraftRule,
  keptAnnotations,
  list,
  metadataSchema,
  peerFields,
  portNumber,
  protocolOf,
  RULE_NAME_MAX,
  type RuleDirection,
  selectorSchema,
} from './drafts.ts';
import type { ReadObject } from './losses.ts';
import { networksWithout } from './networks.ts';

/** Places of these policies among Antrea's tiers. */
const tierPriorities = { AdminNetworkPolicy: 251, BaselineAdminNetworkPolicy: 254 } as const;

export type AdminPolicyKind = keyof typeof tierPriorities;

const object = z.looseObject({
  metadata: metadataSchema,
  spec: z.looseObject({ priority: z.unknown().optional(), subject: z.unknown().optional(), ingress: list, egress: list }),
});
const withPriority = z.looseObject({ spec: z.looseObject({ priority: z.int().min(0).max(1_000) }) });

const podFields = {
  namespaces: selectorSchema.optional(),
  pods: z.strictObject({ namespaceSelector: selectorSchema, podSelector: selectorSchema }).optional(),
};
const NAMES_MAX = 1_000;
const domainName = /^(\*\.)?([a-zA-Z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?\.)+[a-zA-Z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?\.?$/;
const strings = z.array(z.string()).min(1).max(NAMES_MAX).optional();
const names = z.array(z.string().max(NAMES_MAX).regex(domainName)).min(1).max(NAMES_MAX).optional();
const hasOne = (fields: object): boolean => Object.values(fields).filter((field) => field !== undefined).length === 1;
const oneField = { error: 'one known field is required' };

const podsSchema = z.strictObject(podFields).refine(hasOne, oneField);
const peerSchemas = {
  ingress: podsSchema,
  egress: z
    .strictObject({ ...podFields, nodes: selectorSchema.optional(), networks: strings, domainNames: names })
    .refine(hasOne, oneField),
};
const transport = z.enum(['TCP', 'UDP', 'SCTP']);
const portSchema = z
  .strictObject({
    portNumber: z.strictObject({ protocol: transport.default('TCP'), port: portNumber }).optional(),
    portRange: z
      .strictObject({ protocol: transport.default('TCP'), start: portNumber, end: portNumber })
      .refine(({ start, end }) => start <= end, { error: 'a range ends at or after its start' })
      .optional(),
    namedPort: z.string().min(1).max(RULE_NAME_MAX).optional(),
  })
  .refine(hasOne, oneField);
const ruleFields = { name: z.string().max(RULE_NAME_MAX).nullish(), from: list, to: list, ports: list };
const ruleSchemas = {
  AdminNetworkPolicy: z.strictObject({ ...ruleFields, action: z.enum(['Allow', 'Deny', 'Pass']) }),
  BaselineAdminNetworkPolicy: z.strictObject({ ...ruleFields, action: z.enum(['Allow', 'Deny']) }),
};

/**
 * Converts an AdminNetworkPolicy or BaselineAdminNetworkPolicy, field by field.
 *
 * @returns undefined if nothing is left of it
 * @throws SeineError `INVALID_INPUT` if it is not such an object
 */
export function draftOfAdminPolicy(kind: AdminPolicyKind, raw: unknown, into: ReadObject): DraftPolicy | undefined {
  const { metadata, spec } = parseObject(object, raw);
  const { priority: _, subject, ingress, egress, ...unknown } = spec;
  const own = kind === 'AdminNetworkPolicy' ? parseObject(withPriority, raw).spec.priority : 0;
  into.loseUnknown(unknown, ['spec']);
  const pods = podsSchema.safeParse(subject);
  if (!pods.success) {
    into.lose(['spec', 'subject'], subject, pods.error.issues[0]?.message ?? 'invalid', ['spec']);
    return undefined;
  }
  const rules = (direction: RuleDirection, all: readonly unknown[]): readonly DraftRule[] =>
    all.flatMap((each, at) => ruleOf(kind, direction, each, ['spec', direction, at], into) ?? []);
  const part = { offset: 0, isRejecting: false, ingress: rules('ingress', ingress ?? []), egress: rules('egress', egress ?? []) };
  return {
    object: into.name,
    name: metadata.name,
    labels: metadata.labels ?? {},
    annotations: keptAnnotations(metadata.annotations),
    tier: kind === 'AdminNetworkPolicy' ? 'Admin' : 'Baseline',
    order: { tier: tierPriorities[kind], priority: own, createdAt: metadata.creationTimestamp ?? '' },
    ownPriority: own,
    parts: [{ ...part, subjects: [podsOf(pods.data)] }],
  };
}

function ruleOf(kind: AdminPolicyKind, direction: RuleDirection, raw: unknown, path: FieldPath, into: ReadObject): DraftRule | undefined {
  const rule = into.read(ruleSchemas[kind], raw, path);
  if (!rule) return undefined;
  const field = peerFields[direction];
  const entries = rule[field] ?? [];
  const other = direction === 'ingress' ? rule.to : rule.from;
  if (entries.length === 0 || other) {
    into.lose([...path, field], rule[field], other ? 'peers of the other direction' : 'one or more entries are required', path);
    return undefined;
  }
  const peers = entries.flatMap((each, at) => peerOf(direction, each, [...path, field, at], into) ?? []);
  const ports = (rule.ports ?? []).flatMap((each, at) => portOf(each, [...path, 'ports', at], into) ?? []);
  const lost = peers.length === 0 ? field : ports.length === 0 && (rule.ports ?? []).length > 0 ? 'ports' : undefined;
  if (lost) {
    into.lose([...path, lost], rule[lost], 'no entry is left', path);
    return undefined;
  }
  return {
    ...(rule.name ? { name: rule.name } : {}),
    action: rule.action === 'Allow' ? 'Accept' : rule.action,
    peers,
    ...(ports.length > 0 ? { protocols: ports } : {}),
  };
}

function peerOf(direction: RuleDirection, raw: unknown, path: FieldPath, into: ReadObject): ClusterPeerObject | undefined {
  if (direction === 'ingress') {
    const pods = into.read(peerSchemas.ingress, raw, path);
    return pods && podsOf(pods);
  }
  const peer = into.read(peerSchemas.egress, raw, path);
  if (!peer) return undefined;
  if (peer.networks) {
    const networks = networksOf(peer.networks);
    if (networks) return { networks };
    into.lose(path, raw, 'networks: an entry is not a network');
    return undefined;
  }
  if (peer.domainNames) return { domainNames: peer.domainNames };
  return peer.nodes ? { nodes: peer.nodes } : podsOf(peer);
}

function networksOf(texts: readonly string[]): readonly string[] | undefined {
  try {
    return texts.flatMap((text) => networksWithout(text, []));
  } catch {
    return undefined;
  }
}

function podsOf({ namespaces, pods }: z.output<typeof podsSchema>): ClusterPodsObject {
  return namespaces ? { namespaces } : pods ? { pods } : {};
}

function portOf(raw: unknown, path: FieldPath, into: ReadObject): ClusterProtocolObject | undefined {
  const read = into.read(portSchema, raw, path);
  if (!read) return undefined;
  const { portNumber: single, portRange: range, namedPort } = read;
  if (single) return protocolOf(single.protocol, single.port, single.port);
  if (range) return protocolOf(range.protocol, range.start, range.end);
  return { destinationNamedPort: namedPort ?? '' };
}
