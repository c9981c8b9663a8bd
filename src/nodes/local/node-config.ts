import type { Cidr } from '../../base/net/ip.ts';
import type { NodeEnvironment, PolicyMode } from '../../dataplane/compile/environment.ts';
import type { TunnelType } from '../../dataplane/pipeline/well-known.ts';

/** What of the agent's configuration decides what this node is; docs/configuration.md explains each key. */
export interface NodeConfig {
  readonly nodeName: string;
  readonly ovsBridge: string;
  readonly ovsDatapathType: 'system' | 'netdev';
  readonly hostGateway: string;
  readonly tunnelInterface: string;
  readonly tunnelType: TunnelType;
  /** 0: the type's own. */
  readonly tunnelPort: number;
  readonly tunnelCsum: boolean;
  /** 0: the transport interface's, less what the tunnel needs. */
  readonly defaultMTU: number;
  readonly noSNAT: boolean;
  readonly policy: { readonly mode: PolicyMode; readonly liveConnections: NonNullable<NodeEnvironment['liveConnections']> };
  readonly transportInterface?: string | undefined;
  readonly transportInterfaceCIDRs: readonly Cidr[];
  readonly serviceCIDR?: Cidr | undefined;
  readonly serviceCIDRv6?: Cidr | undefined;
}
