import type { Cidr } from '../../base/net/ip.ts';
import type { NodeEnvironment, NodeWireGuard, PolicyMode } from '../../dataplane/compile/environment.ts';
import type { TunnelType } from '../../dataplane/pipeline/well-known.ts';

/** Part of the agent's configuration that defines this node; docs/configuration.md explains each key. */
export interface NodeConfig {
  readonly nodeName: string;
  readonly ovsBridge: string;
  readonly ovsDatapathType: 'system' | 'netdev';
  readonly hostGateway: string;
  readonly tunnelInterface: string;
  readonly tunnelType: TunnelType;
  /** 0: the default of the tunnel type. */
  readonly tunnelPort: number;
  readonly tunnelCsum: boolean;
  /** 0: the MTU of the transport interface, less the tunnel's overhead. */
  readonly defaultMTU: number;
  /** Absent: `encap`. */
  readonly trafficEncapMode?: 'encap' | 'noEncap' | 'hybrid';
  readonly noSNAT: boolean;
  readonly trafficEncryptionMode: 'none' | 'wireGuard';
  readonly wireGuard: { readonly port: number; readonly unencryptedPeers: NodeWireGuard['unencryptedPeers'] };
  readonly policy: {
    readonly mode: PolicyMode;
    readonly liveConnections: NonNullable<NodeEnvironment['liveConnections']>;
    readonly denied: NonNullable<NodeEnvironment['denied']>;
  };
  readonly transportInterface?: string | undefined;
  readonly transportInterfaceCIDRs: readonly Cidr[];
  readonly serviceCIDR?: Cidr | undefined;
  readonly serviceCIDRv6?: Cidr | undefined;
}
