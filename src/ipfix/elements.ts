/** Types of information elements (RFC 7012 section 3.1) that this exporter uses. */
export type ElementType =
  | 'unsigned8'
  | 'unsigned16'
  | 'unsigned32'
  | 'unsigned64'
  | 'ipv4Address'
  | 'ipv6Address'
  | 'dateTimeMilliseconds'
  | 'string';

export interface InformationElement {
  readonly id: number;
  readonly type: ElementType;
  /** Private enterprise number; absent for elements of IANA. */
  readonly enterprise?: number;
}

/** Enterprise of reverse elements. Source: RFC 5103 section 6.1. */
const REVERSE = 29_305;
/**
 * Enterprise whose elements for pods, Services and policies collectors know. Source: registry_antrea.csv of github.com/vmware/go-ipfix. An
 * exporter may use elements of any enterprise, if it uses them as they are defined (RFC 7011 section 3.2).
 */
const KUBERNETES = 56_506;

/** Elements by name. Source: IANA registry "IPFIX Information Elements". */
export const elements = {
  octetDeltaCount: { id: 1, type: 'unsigned64' },
  packetDeltaCount: { id: 2, type: 'unsigned64' },
  protocolIdentifier: { id: 4, type: 'unsigned8' },
  sourceTransportPort: { id: 7, type: 'unsigned16' },
  sourceIPv4Address: { id: 8, type: 'ipv4Address' },
  destinationTransportPort: { id: 11, type: 'unsigned16' },
  destinationIPv4Address: { id: 12, type: 'ipv4Address' },
  sourceIPv6Address: { id: 27, type: 'ipv6Address' },
  destinationIPv6Address: { id: 28, type: 'ipv6Address' },
  exportedFlowRecordTotalCount: { id: 42, type: 'unsigned64' },
  observationDomainId: { id: 149, type: 'unsigned32' },
  flowStartMilliseconds: { id: 152, type: 'dateTimeMilliseconds' },
  flowEndMilliseconds: { id: 153, type: 'dateTimeMilliseconds' },
  notSentFlowTotalCount: { id: 166, type: 'unsigned64' },
  initiatorOctets: { id: 231, type: 'unsigned64' },
  responderOctets: { id: 232, type: 'unsigned64' },
  firewallEvent: { id: 233, type: 'unsigned8' },
  biflowDirection: { id: 239, type: 'unsigned8' },
  observationTimeMilliseconds: { id: 323, type: 'dateTimeMilliseconds' },
  reverseOctetDeltaCount: { id: 1, type: 'unsigned64', enterprise: REVERSE },
  reversePacketDeltaCount: { id: 2, type: 'unsigned64', enterprise: REVERSE },
  sourcePodNamespace: { id: 100, type: 'string', enterprise: KUBERNETES },
  sourcePodName: { id: 101, type: 'string', enterprise: KUBERNETES },
  destinationPodNamespace: { id: 102, type: 'string', enterprise: KUBERNETES },
  destinationPodName: { id: 103, type: 'string', enterprise: KUBERNETES },
  sourceNodeName: { id: 104, type: 'string', enterprise: KUBERNETES },
  destinationNodeName: { id: 105, type: 'string', enterprise: KUBERNETES },
  destinationClusterIPv4: { id: 106, type: 'ipv4Address', enterprise: KUBERNETES },
  destinationClusterIPv6: { id: 107, type: 'ipv6Address', enterprise: KUBERNETES },
  destinationServicePort: { id: 108, type: 'unsigned16', enterprise: KUBERNETES },
  destinationServicePortName: { id: 109, type: 'string', enterprise: KUBERNETES },
  ingressNetworkPolicyName: { id: 110, type: 'string', enterprise: KUBERNETES },
  ingressNetworkPolicyNamespace: { id: 111, type: 'string', enterprise: KUBERNETES },
  egressNetworkPolicyName: { id: 112, type: 'string', enterprise: KUBERNETES },
  egressNetworkPolicyNamespace: { id: 113, type: 'string', enterprise: KUBERNETES },
} as const satisfies Readonly<Record<string, InformationElement>>;

export type ElementName = keyof typeof elements;

/** Value of an element: a number or its 64-bit form, an address as its number, text. Times are Unix times in ms. */
export type ElementValue = number | bigint | string;
