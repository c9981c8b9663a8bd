import type { EndKind, FlowDecision, FlowEvent, FlowVerdict } from '../../../api/flow-log.ts';
import type { Ip } from '../../../base/net/ip.ts';

/** End of a connection as it is recorded. */
export interface RecordedEnd {
  readonly ip: Ip;
  /** Absent if the protocol has none. */
  readonly port?: number;
  readonly kind: EndKind;
  /** `namespace/name` of a pod, name of a node; absent for others. */
  readonly name?: string;
}

/** Address of a Service that a client requested. */
export interface RecordedService {
  readonly ip: Ip;
  readonly port?: number;
  /** `namespace/name`; absent if no Service has the address. */
  readonly name?: string;
}

/** Record of one event of a connection, with names. Times are Unix times in ms. */
export interface FlowRecord {
  readonly timeMs: number;
  readonly event: FlowEvent;
  readonly verdict: FlowVerdict;
  readonly reporter: 'source' | 'destination' | 'both';
  /** IP protocol number. */
  readonly protocol: number;
  readonly source: RecordedEnd;
  readonly destination: RecordedEnd;
  readonly service?: RecordedService;
  readonly egress?: FlowDecision;
  readonly ingress?: FlowDecision;
  readonly reason?: string;
  readonly repeated?: number;
  readonly packets?: { readonly out: number; readonly in: number };
  readonly bytes?: { readonly out: number; readonly in: number };
  /** True if the bytes are an estimate; then the packets are not known. */
  readonly estimated?: true;
  readonly startedMs?: number;
  /** End of a closed connection; only with `startedMs`. */
  readonly endedMs?: number;
}

/** Record with its number on this node. */
export type NumberedFlow = FlowRecord & { readonly number: number };
