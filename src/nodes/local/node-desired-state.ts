import type { Cidr, Ip } from '../../base/net/ip.ts';
import { announcementsOwner, compileAnnouncements } from '../../dataplane/compile/compile-announcements.ts';
import { firewallBody, firewallTable } from '../../dataplane/compile/compile-firewall.ts';
import { compileNode } from '../../dataplane/compile/compile-node.ts';
import { compileUnservedPorts, unservedPortsOwner } from '../../dataplane/compile/compile-unserved-ports.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { WantedPort } from '../../dataplane/desired/switch-row.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { tableNames, tables } from '../../dataplane/pipeline/tables.ts';
import { type TunnelType, tunnelCarriers } from '../../dataplane/pipeline/well-known.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { NodeConfig } from './node-config.ts';

export const nodeOwner = ownerOf('node');

/** Where the node's own part is wanted. */
type NodeWants = Pick<NodeState, 'want' | 'wantBridge' | 'wantFirewall'>;

/** What is wanted of a node whatever its peers and pods are: bridge, gateway, tunnel, addresses and packet filter. */
export function wantNode(config: NodeConfig, nodeState: NodeWants, environment: NodeEnvironment): void {
  wantSwitch(config, nodeState, environment);
  nodeState.want(nodeOwner, compileNode(environment));
  nodeState.want(announcementsOwner, compileAnnouncements());
  nodeState.want(unservedPortsOwner, compileUnservedPorts(environment));
  nodeState.wantFirewall(nodeOwner, firewallTable, firewallBody(environment, { dataPath: config.ovsDatapathType, noSnat: config.noSNAT }));
}

/** @param without a port that has to go for a moment. @returns the revision of what is wanted of the switch's database */
export function wantSwitch(
  config: NodeConfig,
  nodeState: Pick<NodeWants, 'wantBridge'>,
  environment: NodeEnvironment,
  without?: string,
): number {
  const names = new Map(tableNames.map((name) => [tables[name].id, name]));
  return nodeState.wantBridge(
    nodeOwner,
    { name: config.ovsBridge, datapathType: config.ovsDatapathType, tableNames: names },
    ownPorts(config, environment).filter(({ name }) => name !== without),
  );
}

/** What Open vSwitch calls tunnels. */
export type TunnelPortType = TunnelType | 'ip6gre';

/** The type of the tunnel's port. The kernel has one interface for GRE over IPv4 and another for GRE over IPv6; all else serves both. */
export function tunnelPortType(
  dataPath: NodeConfig['ovsDatapathType'],
  { tunnel, transport }: Pick<NodeEnvironment, 'tunnel' | 'transport'>,
): TunnelPortType {
  const overIpv6 = transport.every(({ family }) => family === 'ipv6');
  return tunnel.type === 'gre' && dataPath === 'system' && overIpv6 ? 'ip6gre' : tunnel.type;
}

/** Of this node as it is now; before it is known, of most nodes. */
export function presentTunnelPort(
  config: Pick<NodeConfig, 'ovsDatapathType' | 'tunnelType'>,
  environment: NodeEnvironment | undefined,
): TunnelPortType {
  return environment ? tunnelPortType(config.ovsDatapathType, environment) : config.tunnelType;
}

function ownPorts(config: NodeConfig, environment: NodeEnvironment): readonly WantedPort[] {
  const { gateway, tunnel } = environment;
  const carrier = tunnelCarriers[tunnel.type];
  const ownPort = carrier.protocol === 'udp' && carrier.port !== tunnel.port;
  return [
    { name: gateway.name, type: 'internal', ofPort: gateway.ofPort, options: {}, externalIds: {}, mac: gateway.mac, mtu: gateway.mtu },
    {
      name: config.tunnelInterface,
      type: tunnelPortType(config.ovsDatapathType, environment),
      ofPort: tunnel.ofPort,
      options: {
        remote_ip: 'flow',
        key: 'flow',
        local_ip: 'flow',
        ...(ownPort ? { dst_port: String(tunnel.port) } : {}),
        ...(config.tunnelCsum ? { csum: 'true' } : {}),
      },
      externalIds: {},
    },
  ];
}

/** Where pods of this node get their addresses from. */
export function podPoolsOf({ podCidrs, gateway }: NodeEnvironment): readonly { readonly cidr: Cidr; readonly gateway: Ip }[] {
  return podCidrs.flatMap((cidr) => {
    const address = gateway.addresses.find(({ family }) => family === cidr.family);
    return address ? [{ cidr, gateway: address }] : [];
  });
}
