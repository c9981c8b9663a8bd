import { compileFirewall } from '../connectivity/compile-firewall.ts';
import { compileNode } from '../connectivity/compile-node.ts';
import type { NodeEnvironment } from '../connectivity/environment.ts';
import type { NodeDatapath } from '../datapath/node-datapath.ts';
import { ownerOf } from '../pipeline/cookie.ts';
import { tableNames, tables } from '../pipeline/tables.ts';
import { type TunnelType, tunnelCarriers } from '../pipeline/well-known.ts';
import type { WantedPort } from '../wanted/switch-row.ts';
import type { Agent } from './agent.ts';
import type { AgentConfig } from './config.ts';
import { firewallTable } from './data-plane.ts';
import type { Pool } from './ipam/lease.ts';

export const nodeOwner = ownerOf('node');

/** Everything that is wanted of a node whoever its peers and pods are: bridge, gateway, tunnel, addresses and packet filter. */
export function wishForNode(config: AgentConfig, datapath: NodeDatapath, environment: NodeEnvironment): void {
  wishForSwitch(config, datapath, environment);
  datapath.want(nodeOwner, compileNode(environment));
  datapath.wantFirewall(nodeOwner, firewallTable, firewallBody(environment, config.noSNAT));
}

/** @param without a port that has to go for a moment. @returns the revision of what is wanted of the switch's database */
export function wishForSwitch(config: AgentConfig, datapath: NodeDatapath, environment: NodeEnvironment, without?: string): number {
  const names = new Map(tableNames.map((name) => [tables[name].id, name]));
  return datapath.wantBridge(
    nodeOwner,
    { name: config.ovsBridge, datapathType: config.ovsDatapathType, tableNames: names, externalIds: {} },
    ownPorts(config, environment).filter(({ name }) => name !== without),
  );
}

/** What Open vSwitch calls tunnels. */
export type TunnelPortType = TunnelType | 'ip6gre';

/** The type of the tunnel's port. The kernel has one interface for GRE over IPv4 and another for GRE over IPv6; all else serves both. */
export function tunnelPortType(
  dataPath: AgentConfig['ovsDatapathType'],
  { tunnel, transport }: Pick<NodeEnvironment, 'tunnel' | 'transport'>,
): TunnelPortType {
  const overIpv6 = transport.every(({ family }) => family === 'ipv6');
  return tunnel.type === 'gre' && dataPath === 'system' && overIpv6 ? 'ip6gre' : tunnel.type;
}

/** Of this node as it is now; before it is known, of most nodes. */
export function presentTunnelPort({ config, node }: Pick<Agent, 'config' | 'node'>): TunnelPortType {
  const environment = node()?.environment;
  return environment ? tunnelPortType(config.ovsDatapathType, environment) : config.tunnelType;
}

function ownPorts(config: AgentConfig, environment: NodeEnvironment): readonly WantedPort[] {
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

function firewallBody(environment: NodeEnvironment, noSnat: boolean): string {
  return compileFirewall(environment, { noSnat })
    .map(({ name, hook, rules }) => `chain ${name} {\n${[hook, ...rules].join('\n')}\n}`)
    .join('\n');
}

export function poolsOf({ podCidrs, gateway }: NodeEnvironment): readonly Pool[] {
  return podCidrs.flatMap((cidr) => {
    const address = gateway.addresses.find(({ family }) => family === cidr.family);
    return address ? [{ cidr, gateway: address }] : [];
  });
}
