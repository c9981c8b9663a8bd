import type { EntryState } from './entry.ts';
import type { Failure } from './failure.ts';

/** How much of what an object needs is there: of the bridge (flows and groups) and of the node's own stack. */
export interface Share {
  readonly wanted: number;
  /** There, and as wanted. */
  readonly held: number;
  /** There, and otherwise. */
  readonly changed: number;
}

/** A pod, node or Service, with what the node holds for it. */
export interface ObjectView {
  readonly name: string;
  /** `ok`, or the worst that holds for something of it. */
  readonly state: Extract<EntryState, 'ok' | 'missing' | 'changed'> | 'idle';
  readonly owners: readonly string[];
  readonly flows: Share;
  readonly host: Share;
  /** What is not as it should be, a sentence each. */
  readonly differences: readonly string[];
  readonly error?: Failure;
}

export interface PodView extends ObjectView {
  readonly containerId: string;
  /** Inside the pod. */
  readonly interface: string;
  readonly hostInterface: string;
  readonly addresses: readonly string[];
  readonly mac: string;
  readonly netns: string;
  readonly wantedOfPort: number | null;
  readonly ofPort: number | null;
  readonly link: 'up' | 'down' | 'missing';
  readonly mtu: number | null;
  /** What the bridge lets it send (bits a second, bits); null without limit, and where a chained `bandwidth` plugin sees to it. */
  readonly egress: { readonly rate: number; readonly burst: number } | null;
  /** What it lets it receive, likewise. */
  readonly ingress: { readonly rate: number; readonly burst: number } | null;
  /** Ports of the node that lead to it, `8080/tcp to 80`, with the address where it is at one alone. */
  readonly hostPorts: readonly string[];
}

export interface NodeView extends ObjectView {
  readonly role: 'self' | 'peer';
  readonly podCidrs: readonly string[];
  readonly transport: readonly string[];
}

export interface ServiceView extends ObjectView {
  readonly type: string;
  readonly clusterIps: readonly string[];
  /** Where it is served, each once: addresses, and `node port 30080`. */
  readonly addresses: readonly string[];
  /** `80/TCP`, or `http:80/TCP` for a named port. */
  readonly ports: readonly string[];
  /** Endpoints that connections are spread over, over all ports and addresses. */
  readonly endpoints: number;
  /** Endpoints that are named and get no connections from here, counted over ports and families, and why. */
  readonly unused: readonly { readonly why: string; readonly count: number }[];
  /** Numbers of its groups on the bridge. */
  readonly groups: readonly number[];
  /** When something of it was last changed on the bridge (RFC 3339); null: not since the agent began to serve it. */
  readonly lastChange: string | null;
  /** How long that took, from the news to the switch’s acknowledgement; null while it is not acknowledged. */
  readonly programmedMs: number | null;
  /** What of the Service is not served as specified, or why nothing is. */
  readonly notServed: readonly string[];
}

/** What clients of a Service get on this node, and why. */
export interface ServiceExplanation {
  readonly name: string;
  readonly lines: readonly string[];
}

/** A pod's flows in one table. */
export interface PodFlows {
  readonly table: string;
  readonly wanted: number;
  readonly held: number;
}

/** A port of a Service that names the pod as endpoint. */
export interface PodService {
  /** `namespace/name`. */
  readonly service: string;
  readonly port: string;
  /** Where clients of this node ask. */
  readonly addresses: readonly string[];
  /** Why no client of this node is sent to it; absent if some are. */
  readonly why?: string;
}

export interface PodRepair {
  /** RFC 3339. */
  readonly at: string;
  /** What of the node: a part of it, or `interface`. */
  readonly what: string;
  /** Null where too much was repaired at once to count by owner. */
  readonly entries: number | null;
}

/** What the network of a pod is, and what is wrong with it. */
export interface PodExplanation {
  readonly name: string;
  readonly state: 'ok' | 'wrong';
  readonly lines: readonly string[];
  /** A sentence each, without the full stop. */
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
