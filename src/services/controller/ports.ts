import type { LoopTurns } from '../../base/async/loop-turns.ts';
import type { Cidr, Ip } from '../../base/net/ip.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { EventPoster } from '../../kubernetes/client/events.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import type { EndpointSlice } from '../../kubernetes/resources/endpoint-slice.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import type { PeerSource } from '../../kubernetes/resources/peer-source.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';

/* Interfaces of this folder to the rest of the agent, which injects them. */

/** Part of the agent's configuration that decides what is served and where, with the same names. */
export interface ServeConfig {
  readonly nodeName: string;
  readonly hostGateway: string;
  readonly ovsDatapathType: 'system' | 'netdev';
  readonly metricsAddress?: string;
  readonly metricsTLSAddress?: string;
  readonly proxy: ServiceProxySettings;
}

/** Section `proxy` of the configuration; `docs/services.md` describes each key. */
export interface ServiceProxySettings {
  readonly proxyAll?: boolean | undefined;
  readonly nodePortAddresses: readonly (Cidr | 'primary')[];
  readonly skipServices: readonly string[];
  readonly proxyLoadBalancerIPs: boolean;
  readonly serviceProxyName: string;
  readonly externalIPRanges: readonly Cidr[];
  readonly bucketTranslation: boolean;
  readonly disableServiceHealthCheckServer: boolean;
  readonly healthzBindAddress: string;
  readonly forgetTCPConnections: boolean;
}

/** Objects from the API server. */
export interface ServeSources {
  readonly services: Replica<Service>;
  readonly slices: Replica<EndpointSlice>;
  readonly nodes: Replica<Node>;
  readonly peers: PeerSource;
  readonly events: Pick<EventPoster, 'post'>;
  /** Host of the API server's URL, address or name. */
  readonly apiServer: string;
  readonly apiServerPort: number;
  /** Returns the reason why the node forwards nothing now; undefined if it does. */
  readonly obstacle: () => string | undefined;
  /** Turns of the event loop: thousands of Services may change at once, and pods start meanwhile. */
  readonly turns: LoopTurns;
}

/** Part of the desired state that Services write. */
export type ServedState = Pick<
  NodeState,
  'want' | 'replace' | 'wantEndpoint' | 'wantElements' | 'forget' | 'overtaking' | 'bringAlong' | 'bridge' | 'learned' | 'reconcilers'
>;

/** The node and its bridge. */
export interface ServeNode {
  readonly state: ServedState;
  readonly bridge: Pick<OpenFlowConnection, 'send' | 'barrier' | 'dumpFlows' | 'gather' | 'bundle' | 'untilUp'>;
  /** Socket of protocol `route`. */
  readonly routeSocket: NetlinkSocket;
  readonly environment: LiveNodeEnvironment;
  /** Called when the kernel reports a change of the node's addresses, before Services are compared. */
  readonly addressesChanged?: () => void;
}

interface LiveNodeEnvironment {
  readonly current: NodeEnvironment;
  subscribe(changed: () => void): void;
}

export interface AddressHolders {
  /**
   * Returns the current holder of this address, as text for operators: a Service must not replace a node or a pod.
   *
   * @param service requests the address as its cluster address
   */
  holderOf(ip: Ip, service?: { readonly createdAt?: string }): string | undefined;
  /** Calls back with networks for which `holderOf` may have changed. @returns a function that ends it */
  subscribe(changed: (networks: readonly Cidr[]) => void): () => void;
}

/** Records a duration in seconds for `/metrics`. */
export type ObserveProgramming = (
  name: 'service_programming_duration_seconds' | 'network_programming_duration_seconds',
  labels: Readonly<Record<string, string>>,
  seconds: number,
) => void;
