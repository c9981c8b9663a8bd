/** Flow as a collector has it, whatever the protocol. Counters are absent where the record has none. */
export interface CollectedFlow {
  /** Time at which the node recorded it (Unix time, ms). */
  readonly timeMs: number;
  readonly verdict: 'allowed' | 'denied' | 'would-deny';
  readonly isEnd: boolean;
  readonly protocol: number;
  /** Address and port. */
  readonly source: string;
  readonly destination: string;
  /** `namespace/name`; empty if it is no pod. */
  readonly sourcePod: string;
  readonly destinationPod: string;
  /** `namespace/name address:port` of the Service; empty without one. */
  readonly service: string;
  /** `namespace/name` of the policy that decided about egress and about ingress; empty for none. */
  readonly egressPolicy: string;
  readonly ingressPolicy: string;
  readonly bytes?: { readonly out: bigint; readonly in: bigint };
  readonly packets?: { readonly out: bigint; readonly in: bigint };
}

/** Collector of flows that a test owns. */
export interface FlowCollector {
  /** Returns the flows that it has got, in any order. May be asked repeatedly. */
  received(): Promise<readonly CollectedFlow[]>;
  close(): Promise<void>;
}
