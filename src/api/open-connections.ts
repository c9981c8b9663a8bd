/** Connections in the tracker that differ only in the port of their client. */
export interface OpenConnections {
  /** `TCP`, `UDP` or `SCTP`. */
  readonly protocol: string;
  readonly source: string;
  /** Address and port of the endpoint that answers. */
  readonly destination: string;
  readonly port: number;
  /** Address and port of the Service that the client requested, if they differ. */
  readonly service?: { readonly address: string; readonly port: number };
  /** Number of them. */
  readonly connections: number;
}

/** Answer of `/v1/open-connections`. */
export interface OpenConnectionsView {
  readonly node: string;
  /** `not listed` on the userspace data path: listing its tracker stops all forwarding. */
  readonly tracker: 'kernel' | 'not listed';
  readonly items: readonly OpenConnections[];
  /** Connections that are in no item, because there were too many different ones. */
  readonly others: number;
}
