/** Of which pods what policies deny is logged. */
export interface DeniedLogView {
  /** As configured. `annotated`: of pods with the annotation `seine.dev/log: denied`, or in a namespace with it. */
  readonly setting: 'off' | 'annotated' | 'all';
  /** What operators want to see for a while. */
  readonly requests: readonly LogRequestView[];
}

/** Without `namespace`: all pods of this node. Without `pod`: all of the namespace. */
interface LogRequestView {
  readonly namespace?: string;
  readonly pod?: string;
  readonly secondsLeft: number;
}

/** What a packet was, and whose. Names are printable ASCII. */
export interface DenialView {
  /** `would deny`: it passed, for policies are audited on this node. */
  readonly verdict: 'denied' | 'would deny';
  readonly direction: 'ingress' | 'egress';
  /** That isolate the pod, `namespace/name`; the first of them. */
  readonly policies: readonly string[];
  readonly why: string;
  /** `namespace/name`, of this node. */
  readonly pod: string;
  readonly podAddress: string;
  /** `namespace/name` of a pod, `node NAME`, or the address. */
  readonly peer: string;
  readonly peerAddress: string;
  /** `TCP`, `UDP`, `SCTP`, `ICMP`, `ICMPv6`, or its number. */
  readonly protocol: string;
  /** Of who was asked; absent where the protocol has none. */
  readonly port?: number;
  readonly icmpType?: number;
}

export interface DeniedPairView extends DenialView {
  /** That the switch showed to the agent: of each pod some twenty a second, and not more. */
  readonly packets: number;
}

/** Connections that were let in once, alike but for the port of who asks. */
export interface DeniedConnectionsView extends DenialView {
  readonly connections: number;
}

/** What policies denied while somebody looked, or would have. */
export interface WouldDenyView {
  readonly mode: 'enforce' | 'audit' | 'off';
  readonly seconds: number;
  /** Most packets first. */
  readonly pairs: readonly DeniedPairView[];
  /** Packets of pairs that are not listed. */
  readonly morePackets: number;
  /**
   * Connections that live, whether they carry anything or not, and that policies deny as they are at the end; most first. Absent: the tracker
   * cannot be listed, as that of the userspace data path.
   */
  readonly living?: readonly DeniedConnectionsView[];
  /** Living connections that are not listed. */
  readonly moreLiving?: number;
  /** All that the switch counted, as text; absent if it could not be asked. */
  readonly counted?: { readonly ingress: string; readonly egress: string };
}
