import * as z from 'zod';
import type { FieldPath } from '../../kubernetes/resources/object-faults.ts';
import type { ClusterPeerObject } from '../verify/reference/objects.ts';
import type { AntreaGroups } from './antrea-groups.ts';
import { protocolsOfPorts } from './antrea-ports.ts';
import {
  type AntreaSelection,
  type Converted,
  networksOfBlock,
  peerOfName,
  podsOfSelectors,
  refusalOf,
  selectionSchema,
} from './antrea-selection.ts';
import { type DraftRule, list, peerFields, RULE_NAME_MAX, type RuleDirection } from './drafts.ts';
import type { ReadObject } from './losses.ts';

const ruleSchema = z.strictObject({
  name: z.string().max(RULE_NAME_MAX).nullish(),
  action: z.enum(['Allow', 'Drop', 'Reject', 'Pass']),
  from: list,
  to: list,
  ports: list,
  protocols: list,
  l7Protocols: list,
  toServices: list,
  appliedTo: list,
  enableLogging: z.boolean().nullish(),
  logLabel: z.string().nullish(),
});

type AntreaRule = z.output<typeof ruleSchema>;

const actions = { Allow: 'Accept', Drop: 'Deny', Reject: 'Deny', Pass: 'Pass' } as const;
const everyAddress = ['0.0.0.0/0', '::/0'];

/** Policy that a rule is in. */
interface RuleContext {
  readonly direction: RuleDirection;
  /** Namespace of the policy; undefined for one of the cluster. */
  readonly namespace: string | undefined;
  readonly groups: AntreaGroups;
  readonly into: ReadObject;
}

/** Rule, and its own subjects as they were written. */
export interface ConvertedRule {
  readonly rule: DraftRule;
  readonly appliedTo: readonly unknown[] | undefined;
}

/** Converts a rule. @returns undefined if nothing is left of it */
export function convertRule(raw: unknown, path: FieldPath, context: RuleContext): ConvertedRule | undefined {
  const { into, direction } = context;
  const rule = into.read(ruleSchema, raw, path);
  if (!rule || isRefused(rule, path, context)) return undefined;
  loseLogging(rule, path, into);
  const peers = peersOf(rule, path, context);
  const ports = protocolsOfPorts(rule.ports ?? [], [...path, 'ports'], into);
  for (const [at, protocol] of (rule.protocols ?? []).entries())
    into.lose([...path, 'protocols', at], protocol, 'ICMP and IGMP are not in the API');
  const isLimited = (rule.ports ?? []).length > 0 || (rule.protocols ?? []).length > 0;
  if (peers === 'nothing' || (isLimited && ports.length === 0)) {
    const field = peers === 'nothing' ? peerFields[direction] : (rule.ports ?? []).length > 0 ? 'ports' : 'protocols';
    into.lose([...path, field], rule[field], 'no entry is left', path);
    return undefined;
  }
  const hasNamed = ports.some(({ destinationNamedPort }) => destinationNamedPort !== undefined);
  return {
    appliedTo: rule.appliedTo ?? undefined,
    rule: {
      ...(rule.name ? { name: rule.name } : {}),
      action: actions[rule.action],
      isRejecting: rule.action === 'Reject',
      peers: peers === 'everything' ? everything(direction, hasNamed) : peers,
      ...(ports.length > 0 ? { protocols: ports } : {}),
    },
  };
}

/** Reports whether a rule has a field without which it would mean more than it does. */
function isRefused({ l7Protocols, toServices, from, to }: AntreaRule, path: FieldPath, { direction, into }: RuleContext): boolean {
  const [other, entries] = direction === 'ingress' ? (['to', to] as const) : (['from', from] as const);
  const found = [
    { field: 'l7Protocols', entries: l7Protocols, reason: 'protocols of the application are not in the API' },
    { field: 'toServices', entries: toServices, reason: 'a Service is not a peer of the API' },
    { field: other, entries, reason: 'peers of the other direction' },
  ].find((each) => (each.entries ?? []).length > 0);
  if (found) into.lose([...path, found.field], found.entries, found.reason, path);
  return found !== undefined;
}

function loseLogging({ enableLogging, logLabel }: AntreaRule, path: FieldPath, into: ReadObject): void {
  if (enableLogging) into.lose([...path, 'enableLogging'], true, 'logging is not in the API; denied connections are in the denied log');
  if (logLabel) into.lose([...path, 'logLabel'], logLabel, 'logging is not in the API');
}

/** Peers for a rule that names none. Only pods have named ports. */
function everything(direction: RuleDirection, hasNamedPorts: boolean): readonly ClusterPeerObject[] {
  if (direction === 'ingress') return [{ namespaces: {} }];
  return [...(hasNamedPorts ? [{ namespaces: {} }] : []), { networks: everyAddress }];
}

/** @returns `nothing` if all entries are lost; an empty list if those that are left select nothing */
function peersOf(rule: AntreaRule, path: FieldPath, context: RuleContext): readonly ClusterPeerObject[] | 'everything' | 'nothing' {
  const field = peerFields[context.direction];
  const entries = rule[field] ?? [];
  if (entries.length === 0) {
    if (context.direction === 'ingress')
      context.into.lose([...path, field], undefined, 'sources other than pods: the API has no networks and nodes in ingress rules');
    return 'everything';
  }
  const peers = entries.map((raw, at) => peersOfEntry(raw, [...path, field, at], rule.action, context));
  const read = peers.filter((each) => each !== undefined);
  return read.length === 0 ? 'nothing' : read.flat();
}

function peersOfEntry(raw: unknown, path: FieldPath, action: string, context: RuleContext): readonly ClusterPeerObject[] | undefined {
  const selection = context.into.read(selectionSchema, raw, path);
  if (!selection) return undefined;
  const peers = convertPeer(selection, action, context);
  if ('refused' in peers) {
    context.into.lose(path, raw, peers.refused);
    return undefined;
  }
  const isOfPods = ({ namespaces, pods }: ClusterPeerObject): boolean => (namespaces ?? pods) !== undefined;
  if (context.direction === 'egress' || peers.value.every(isOfPods)) return peers.value;
  context.into.lose(path, raw, 'the API has no networks and nodes in ingress rules');
  return undefined;
}

function convertPeer(
  selection: AntreaSelection,
  action: string,
  { groups, namespace }: RuleContext,
): Converted<readonly ClusterPeerObject[]> {
  const { podSelector, namespaceSelector, group, ipBlock, nodeSelector, fqdn } = selection;
  const refused = refusalOf(selection);
  if (refused !== undefined) return { refused };
  const given = [podSelector ?? namespaceSelector, group || undefined, ipBlock, nodeSelector, fqdn || undefined].filter(Boolean);
  if (given.length !== 1) return { refused: 'one kind of peer is required' };
  if (group) return groups.members(namespace, group);
  if (fqdn) return peerOfName(fqdn, action);
  if (nodeSelector) return { value: [{ nodes: nodeSelector }] };
  if (!ipBlock) return { value: [podsOfSelectors(selection, namespace)] };
  const networks = networksOfBlock(ipBlock);
  if ('refused' in networks) return { refused: `ipBlock: ${networks.refused}` };
  return { value: networks.value.length > 0 ? [{ networks: networks.value }] : [] };
}
