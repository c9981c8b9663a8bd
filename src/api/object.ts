import type { EntryState } from './entry.ts';
import type { Failure } from './failure.ts';

/** Number of required entries that are present: on the bridge (flows and groups), or in the node's network stack. */
export interface Share {
  readonly wanted: number;
  /** Number of entries that are present and in sync. */
  readonly held: number;
  /** Number of entries that are present but different. */
  readonly changed: number;
}

/** Pod, node or Service, with the node's entries for it. */
export interface ObjectView {
  readonly name: string;
  /** Worst state of its entries, or `ok`. */
  readonly state: Extract<EntryState, 'ok' | 'missing' | 'changed'> | 'idle';
  readonly owners: readonly string[];
  readonly flows: Share;
  readonly host: Share;
  /** Differences from the desired state, one sentence each. */
  readonly differences: readonly string[];
  readonly error?: Failure;
}

export interface PodView extends ObjectView {
  readonly containerId: string;
  /** Name of the interface inside the pod. */
  readonly interface: string;
  readonly hostInterface: string;
  readonly addresses: readonly string[];
  readonly mac: string;
  readonly netns: string;
  readonly wantedOfPort: number | null;
  readonly ofPort: number | null;
  readonly link: 'up' | 'down' | 'missing';
  readonly mtu: number | null;
  /**
   * Limit of what it may send through the bridge (bits a second, bits); null without a limit, or if a chained `bandwidth` plugin applies
   * it.
   */
  readonly egress: { readonly rate: number; readonly burst: number } | null;
  /** Limit of what it may receive, in the same units; null under the same conditions. */
  readonly ingress: { readonly rate: number; readonly burst: number } | null;
  /** Host ports that are translated to it, such as `8080/tcp to 80`, with the address if it is limited to one. */
  readonly hostPorts: readonly string[];
}

/** How a node sends to a peer in one family. */
export interface PeerModeView {
  readonly family: 'ipv4' | 'ipv6';
  readonly mode: 'tunnel' | 'direct' | 'wireguard' | 'blocked';
  readonly reason: string;
  /** Time of the last change of the mode (RFC 3339). */
  readonly since: string;
}

/** WireGuard key of a node. */
export interface WireGuardPeerView {
  readonly publicKey: string;
  /** Time since the last handshake with this peer (s); null if there was none, and for this node. */
  readonly handshakeSeconds: number | null;
}

export interface NodeView extends ObjectView {
  readonly role: 'self' | 'peer';
  readonly podCidrs: readonly string[];
  readonly transport: readonly string[];
  /** How this node sends to the pods of a peer, by family; absent for this node. */
  readonly modes?: readonly PeerModeView[];
  /** Key of the node in the WireGuard device of this one; absent without encryption. */
  readonly wireGuard?: WireGuardPeerView;
}

export interface ServiceView extends ObjectView {
  readonly type: string;
  readonly clusterIps: readonly string[];
  /** Addresses at which it is served, each once, including `node port 30080`. */
  readonly addresses: readonly string[];
  /** Ports, such as `80/TCP`, or `http:80/TCP` for a named port. */
  readonly ports: readonly string[];
  /** Number of endpoints that receive connections, over all ports and addresses. */
  readonly endpoints: number;
  /** Numbers of endpoints that receive no connections from this node, counted over ports and families, with the reason. */
  readonly unused: readonly { readonly why: string; readonly count: number }[];
  /** Ids of its groups on the bridge. */
  readonly groups: readonly number[];
  /** Time of the last change on the bridge (RFC 3339); null if there was none since the agent began to serve it. */
  readonly lastChange: string | null;
  /** Duration of the last change, from the event to the acknowledgement by OVS (ms); null while it is not acknowledged. */
  readonly programmedMs: number | null;
  /** Parts of the Service that are not served as specified, or the reason why none is. */
  readonly notServed: readonly string[];
}

/** Behaviour of a Service for clients on this node, with reasons. */
export interface ServiceExplanation {
  readonly name: string;
  readonly lines: readonly string[];
}

/** Flows of a pod in one table. */
export interface PodFlows {
  readonly table: string;
  readonly wanted: number;
  readonly held: number;
}

/** Port of a Service that has the pod as an endpoint. */
export interface PodService {
  /** `namespace/name`. */
  readonly service: string;
  readonly port: string;
  /** Addresses that clients on this node use. */
  readonly addresses: readonly string[];
  /** Reason why no client on this node is forwarded to it; absent if some are. */
  readonly why?: string;
}

export interface PodRepair {
  /** Time (RFC 3339). */
  readonly at: string;
  /** Repaired part: a target of the node, or `interface`. */
  readonly what: string;
  /** Number of entries; null if too much was repaired at once to count by owner. */
  readonly entries: number | null;
}

/** Network of a pod, with its problems. */
export interface PodExplanation {
  readonly name: string;
  readonly state: 'ok' | 'wrong';
  readonly lines: readonly string[];
  /** Problems, one sentence each, without the full stop. */
  readonly problems: readonly string[];
  readonly attachments: readonly (PodView & {
    readonly gateways: readonly string[];
    readonly tables: readonly PodFlows[];
    readonly ageSeconds: number | null;
    readonly rivals: readonly string[];
  })[];
  readonly services: readonly PodService[];
  readonly repairs: readonly PodRepair[];
}
