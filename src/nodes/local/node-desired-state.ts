import type { Cidr, Ip } from '../../base/net/ip.ts';
import { announcementsOwner, compileAnnouncements } from '../../dataplane/compile/compile-announcements.ts';
import { compileRefusals, refusalsOwner } from '../../dataplane/compile/compile-denied-packets.ts';
import { clearTable, clearTableBody, firewallBody, firewallTable } from '../../dataplane/compile/compile-firewall.ts';
import { compileNode } from '../../dataplane/compile/compile-node.ts';
import { compileProbes, probesOwner } from '../../dataplane/compile/compile-probes.ts';
import { compileUnservedPorts, unservedPortsOwner } from '../../dataplane/compile/compile-service-path.ts';
import { compileTimeExceeded, timeExceededOwner } from '../../dataplane/compile/compile-time-exceeded.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { WantedPort } from '../../dataplane/desired/switch-row.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { tableNames, tables } from '../../dataplane/pipeline/tables.ts';
import { type TunnelType, tunnelCarriers } from '../../dataplane/pipeline/well-known.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { NodeConfig } from './node-config.ts';

export const nodeOwner = ownerOf('node');

/** Owner of the nftables table against cleartext. */
export const clearOwner = ownerOf('node', 'cleartext');

/** State that receives the node's own entries. */
type NodeWants = Pick<NodeState, 'want' | 'wantBridge' | 'wantFirewall' | 'wantElements'>;

/** Sets the entries of a node that are independent of its peers and pods: bridge, gateway, tunnel, addresses and nftables. */
export function wantNode(config: NodeConfig, nodeState: NodeWants, environment: NodeEnvironment): void {
  wantSwitch(config, nodeState, environment);
  nodeState.want(nodeOwner, compileNode(environment));
  nodeState.want(announcementsOwner, compileAnnouncements());
  nodeState.want(unservedPortsOwner, compileUnservedPorts(environment));
  nodeState.want(timeExceededOwner, compileTimeExceeded(environment));
  nodeState.want(refusalsOwner, compileRefusals(environment));
  nodeState.want(probesOwner, compileProbes(environment));
  wantClearTable(config, nodeState, environment);
  nodeState.wantFirewall(nodeOwner, firewallTable, firewallBody(environment, { dataPath: config.ovsDatapathType, noSnat: config.noSNAT }));
}

/** Without encryption there is no such table. */
function wantClearTable({ noSNAT }: NodeConfig, nodeState: NodeWants, environment: NodeEnvironment): void {
  const { wireGuard } = environment;
  if (wireGuard) nodeState.wantFirewall(clearOwner, clearTable, clearTableBody(environment, wireGuard, { noSnat: noSNAT }));
  else nodeState.wantElements(clearOwner, new Map());
}

/** @param without a port that has to be removed for a moment. @returns the revision of OVSDB's desired state */
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

/** Type of a tunnel in Open vSwitch. */
export type TunnelPortType = TunnelType | 'ip6gre';

/**
 * Returns the type of the tunnel's port. The kernel has one interface for GRE over IPv4 and another for GRE over IPv6; all others carry
 * both.
 */
export function tunnelPortType(
  dataPath: NodeConfig['ovsDatapathType'],
  { tunnel, transport }: Pick<NodeEnvironment, 'tunnel' | 'transport'>,
): TunnelPortType {
  const overIpv6 = transport.every(({ family }) => family === 'ipv6');
  return tunnel.type === 'gre' && dataPath === 'system' && overIpv6 ? 'ip6gre' : tunnel.type;
}

/** Returns the port for this node's current environment; before that is known, the port of most nodes. */
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

/** Returns the pools from which pods of this node get their addresses. */
export function podPoolsOf({ podCidrs, gateway }: NodeEnvironment): readonly { readonly cidr: Cidr; readonly gateway: Ip }[] {
  return podCidrs.flatMap((cidr) => {
    const address = gateway.addresses.find(({ family }) => family === cidr.family);
    return address ? [{ cidr, gateway: address }] : [];
  });
}
