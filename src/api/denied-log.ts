/** Pods whose denied packets are logged. */
export interface DeniedLogView {
  /** Configured setting. `annotated`: pods with the annotation `seine.dev/log: denied`, or in a namespace with it. */
  readonly setting: 'off' | 'annotated' | 'all';
  /** Requests of operators, which end by themselves. */
  readonly requests: readonly LogRequestView[];
}

/** Request of an operator. Without `namespace`: all pods of this node. Without `pod`: all pods of the namespace. */
interface LogRequestView {
  readonly namespace?: string;
  readonly pod?: string;
  readonly secondsLeft: number;
}

/** Description of a denied packet. Names are printable ASCII. */
export interface DenialView {
  /** Verdict. `would deny`: the packet passed, because policies are only audited on this node. */
  readonly verdict: 'denied' | 'would deny';
  readonly direction: 'ingress' | 'egress';
  /** Policies that isolate the pod, `namespace/name`; only the first ones. If a ClusterNetworkPolicy denies, its name alone. */
  readonly policies: readonly string[];
  /** Rule of a ClusterNetworkPolicy that denies, `name spec.ingress[2]`, and its tier; absent if none does. */
  readonly rule?: string;
  readonly tier?: 'Admin' | 'Baseline';
  readonly why: string;
  /** Pod of this node, `namespace/name`. */
  readonly pod: string;
  readonly podAddress: string;
  /** Other end: `namespace/name` of a pod, `node NAME`, or the address. */
  readonly peer: string;
  readonly peerAddress: string;
  /** Protocol: `TCP`, `UDP`, `SCTP`, `ICMP`, `ICMPv6`, or its number. */
  readonly protocol: string;
  /** Destination port; absent if the protocol has none. */
  readonly port?: number;
  readonly icmpType?: number;
}

export interface DeniedPairView extends DenialView {
  /** Number of packets that OVS sent to the agent: at most about twenty a second for each pod. */
  readonly packets: number;
}

/** Connections that were admitted before and differ only in their source port. */
export interface DeniedConnectionsView extends DenialView {
  readonly connections: number;
}

/** Traffic that policies denied, or would have denied, during an observation. */
export interface WouldDenyView {
  readonly mode: 'enforce' | 'audit' | 'off';
  readonly seconds: number;
  /** Pairs, sorted by number of packets, the highest first. */
  readonly pairs: readonly DeniedPairView[];
  /** Number of packets of pairs that are not listed. */
  readonly morePackets: number;
  /**
   * Open connections, active or idle, that the policies deny at the end of the observation, sorted by number. Absent if conntrack cannot be
   * listed, as on the userspace data path.
   */
  readonly living?: readonly DeniedConnectionsView[];
  /** Number of open connections that are not listed. */
  readonly moreLiving?: number;
  /** Total number of packets counted by OVS, as text; absent if OVS could not be queried. */
  readonly counted?: { readonly ingress: string; readonly egress: string };
}
