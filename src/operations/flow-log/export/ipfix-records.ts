import type { ElementName } from '../../../ipfix/elements.ts';
import type { DataRecord, Template } from '../../../ipfix/messages.ts';
import type { FlowRecord, RecordedEnd } from '../records/flow-record.ts';
import type { ExportCounts } from './exported-item.ts';

/** Fields of each record apart from addresses, times and counters. */
const common = [
  'protocolIdentifier',
  'sourceTransportPort',
  'destinationTransportPort',
  'firewallEvent',
  'biflowDirection',
  'sourcePodNamespace',
  'sourcePodName',
  'sourceNodeName',
  'destinationPodNamespace',
  'destinationPodName',
  'destinationNodeName',
  'destinationServicePort',
  'destinationServicePortName',
  'egressNetworkPolicyNamespace',
  'egressNetworkPolicyName',
  'ingressNetworkPolicyNamespace',
  'ingressNetworkPolicyName',
] as const satisfies readonly ElementName[];

const addresses = {
  ipv4: ['sourceIPv4Address', 'destinationIPv4Address', 'destinationClusterIPv4'],
  ipv6: ['sourceIPv6Address', 'destinationIPv6Address', 'destinationClusterIPv6'],
} as const satisfies Readonly<Record<string, readonly ElementName[]>>;

/** Counters of both directions. Source: RFC 5103, a single record for a bidirectional flow. */
const counters = [
  'flowStartMilliseconds',
  'flowEndMilliseconds',
  'packetDeltaCount',
  'octetDeltaCount',
  'reversePacketDeltaCount',
  'reverseOctetDeltaCount',
] as const satisfies readonly ElementName[];

const event = (family: 'ipv4' | 'ipv6', id: number): Template => ({
  id,
  fields: ['observationTimeMilliseconds', ...addresses[family], ...common],
});
const ended = (family: 'ipv4' | 'ipv6', id: number): Template => ({
  id,
  fields: ['observationTimeMilliseconds', ...addresses[family], ...common, ...counters],
});

/** Payload of both directions, which is not the same as their bytes. */
const estimated = (family: 'ipv4' | 'ipv6', id: number): Template => ({
  id,
  fields: ['observationTimeMilliseconds', ...addresses[family], ...common, 'initiatorOctets', 'responderOctets'],
});

/** Templates of flows, with counters and without, and of the exporter's own counts. Numbers are never used for other fields. */
const templates = {
  ipv4: { event: event('ipv4', 256), ended: ended('ipv4', 258), estimated: estimated('ipv4', 261) },
  ipv6: { event: event('ipv6', 257), ended: ended('ipv6', 259), estimated: estimated('ipv6', 262) },
} as const;

/** Counts of this exporter. Source: RFC 7011 section 4.3, of whose fields flows have no use for the others. */
const countsTemplate: Template = {
  id: 260,
  scope: 1,
  fields: ['observationDomainId', 'exportedFlowRecordTotalCount', 'notSentFlowTotalCount'],
};

export const flowTemplates: readonly Template[] = [
  templates.ipv4.event,
  templates.ipv6.event,
  templates.ipv4.ended,
  templates.ipv6.ended,
  templates.ipv4.estimated,
  templates.ipv6.estimated,
  countsTemplate,
];

/** Values of the element `firewallEvent`. Source: IANA registry "IPFIX Information Elements", 233. */
const firewallEvents = { created: 1, deleted: 2, denied: 3, alert: 4, update: 5 } as const;

/** Returns a record; `undefined` for a gap, which is no flow. Pure. */
export function ipfixRecord(flow: FlowRecord): DataRecord | undefined {
  if (flow.event === 'gap') return undefined;
  const { source, destination, service } = flow;
  const { family } = source.ip;
  const [from, to, cluster] = addresses[family];
  const [egressNamespace, egressPolicy] = policyOf(flow.egress?.by[0]);
  const [ingressNamespace, ingressPolicy] = policyOf(flow.ingress?.by[0]);
  const sameFamily = service?.ip.family === family;
  return {
    template: templates[family][countingOf(flow)],
    values: {
      observationTimeMilliseconds: flow.timeMs,
      [from]: source.ip.value,
      [to]: destination.ip.value,
      [cluster]: sameFamily ? service.ip.value : 0n,
      protocolIdentifier: flow.protocol,
      sourceTransportPort: source.port ?? 0,
      destinationTransportPort: destination.port ?? 0,
      firewallEvent: firewallEventOf(flow),
      biflowDirection: 1, // the source opened the connection
      ...podValues('source', source),
      ...podValues('destination', destination),
      destinationServicePort: service?.port ?? 0,
      destinationServicePortName: service?.name ?? '',
      egressNetworkPolicyNamespace: egressNamespace,
      egressNetworkPolicyName: egressPolicy,
      ingressNetworkPolicyNamespace: ingressNamespace,
      ingressNetworkPolicyName: ingressPolicy,
      ...countersOf(flow),
    },
  };
}

/** Returns the fields of the template of `countingOf`. Pure. */
function countersOf(flow: FlowRecord): DataRecord['values'] {
  const { packets, bytes, startedMs, endedMs } = flow;
  if (!bytes || countingOf(flow) === 'event') return {};
  if (flow.estimated) return { initiatorOctets: bytes.out, responderOctets: bytes.in };
  return {
    flowStartMilliseconds: startedMs ?? 0,
    flowEndMilliseconds: endedMs ?? 0,
    packetDeltaCount: packets?.out ?? 0,
    octetDeltaCount: bytes.out,
    reversePacketDeltaCount: packets?.in ?? 0,
    reverseOctetDeltaCount: bytes.in,
  };
}

/** Returns the kind of template for the counters that a record has. Pure. */
function countingOf({ packets, bytes, estimated, startedMs, endedMs }: FlowRecord): 'event' | 'ended' | 'estimated' {
  if (bytes && estimated) return 'estimated';
  return packets && bytes && startedMs !== undefined && endedMs !== undefined ? 'ended' : 'event';
}

/** Returns the record of the exporter's own counts. Pure. */
export function ipfixCounts({ sent, full, refused, unsent }: ExportCounts, domain: number): DataRecord {
  return {
    template: countsTemplate,
    values: { observationDomainId: domain, exportedFlowRecordTotalCount: sent, notSentFlowTotalCount: full + refused + unsent },
  };
}

function firewallEventOf({ event: kind, verdict }: FlowRecord): number {
  if (verdict === 'denied' || verdict === 'refused') return firewallEvents.denied;
  if (verdict === 'would-deny') return firewallEvents.alert;
  if (kind === 'seen') return firewallEvents.update;
  return kind === 'closed' ? firewallEvents.deleted : firewallEvents.created;
}

function podValues(side: 'source' | 'destination', { kind, name = '' }: RecordedEnd): DataRecord['values'] {
  if (kind === 'node') return { [`${side}NodeName`]: name };
  if (kind !== 'pod') return {};
  const [namespace, pod] = splitName(name);
  return { [`${side}PodNamespace`]: namespace, [`${side}PodName`]: pod };
}

/** Namespace and name of a policy in the name of its rule, e.g. `shop/db spec.ingress[0]`. */
function policyOf(rule = ''): readonly [string, string] {
  return splitName(rule.split(' ', 1)[0] ?? '');
}

function splitName(text: string): readonly [string, string] {
  const slash = text.indexOf('/');
  return slash < 0 ? ['', text] : [text.slice(0, slash), text.slice(slash + 1)];
}
