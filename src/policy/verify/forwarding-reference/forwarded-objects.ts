import type { PolicyObjects } from '../reference/objects.ts';

/** Service (core/v1), with the fields that decide where its clients' packets go. */
export interface ServedObject {
  readonly metadata: { readonly namespace: string; readonly name: string; readonly creationTimestamp?: string | null };
  readonly spec: {
    readonly type?: string | null;
    readonly clusterIPs?: readonly string[] | null;
    readonly ports?: readonly ServedPortObject[] | null;
    readonly internalTrafficPolicy?: string | null;
    /** Policy for clients outside the cluster. */
    readonly externalTrafficPolicy?: string | null;
    readonly externalIPs?: readonly string[] | null;
    readonly loadBalancerSourceRanges?: readonly string[] | null;
    readonly publishNotReadyAddresses?: boolean | null;
  };
  readonly status?: {
    readonly loadBalancer?: { readonly ingress?: readonly IngressObject[] | null } | null;
  } | null;
}

/** Address of a load balancer. With mode `Proxy` nodes leave it to the load balancer. */
interface IngressObject {
  readonly ip?: string | null;
  readonly ipMode?: string | null;
}

export interface ServedPortObject {
  readonly name?: string | null;
  readonly protocol?: string | null;
  readonly port: number;
  readonly nodePort?: number | null;
}

/** EndpointSlice (discovery.k8s.io/v1). */
export interface SliceObject {
  readonly metadata: { readonly namespace: string; readonly labels?: Readonly<Record<string, string>> | null };
  readonly addressType: string;
  readonly endpoints?: readonly EndpointObject[] | null;
  readonly ports?: readonly { readonly name?: string | null; readonly protocol?: string | null; readonly port?: number | null }[] | null;
}

export interface EndpointObject {
  readonly addresses: readonly string[];
  readonly nodeName?: string | null;
  readonly conditions?: {
    readonly ready?: boolean | null;
    readonly serving?: boolean | null;
    readonly terminating?: boolean | null;
  } | null;
  readonly hints?: {
    readonly forZones?: readonly { readonly name: string }[] | null;
    readonly forNodes?: readonly { readonly name: string }[] | null;
  } | null;
}

/** Objects of a cluster that decide about a packet. */
export interface ForwardedObjects extends PolicyObjects {
  readonly services: readonly ServedObject[];
  readonly slices: readonly SliceObject[];
}

/** Packet that opens a connection, as its sender sends it. */
export interface ForwardedPacket {
  readonly source: string;
  readonly destination: string;
  /** `TCP`, `UDP`, `SCTP`, or another, which has no ports. */
  readonly protocol: string;
  readonly port?: number;
  /** Node of the sender; of a sender outside, the node that the packet enters. */
  readonly node: string;
}
