import { SeineError } from '../base/errors/seine-error.ts';
import { deleteLink, type Link, listLinks } from '../netlink/links.ts';
import { Batch } from '../netlink/message.ts';
import { Nftables } from '../netlink/nftables/nftables.ts';
import { PortsMount } from '../netlink/pod-interfaces/ports-namespace.ts';
import { deleteRoute, listRoutes, localTable, ourProtocol, type Route } from '../netlink/routing/routes.ts';
import { deleteListedRule, listRules } from '../netlink/routing/rules.ts';
import { NetlinkSocket } from '../netlink/socket.ts';
import type { Leftover } from './leftover.ts';

/** nftables tables: for the node, against cleartext, for node ports and external addresses of Services, and for host ports. */
const firewallTables = ['seine', 'seine-clear', 'seine-services', 'seine-external', 'seine-host-ports'];
/** Device of encryption between nodes; its peers and the node's key in the kernel are removed with it. */
const wireGuardDevice = 'antrea-wg0';
/** Names of the node's ends of pods' interfaces; their alias begins with `NAMESPACE/POD`. */
const podLinkName = /^[a-z0-9]{1,7}-[0-9a-f]{7}$/;
const standingPortName = /^sp-\d{1,5}$/;

interface KernelLeftovers {
  readonly first: readonly Leftover[];
  /** Interfaces that remain if OVS has not removed them with its bridge. */
  readonly links: readonly Leftover[];
  /** `namespace/pod` of existing pod interfaces. */
  readonly pods: readonly string[];
  /** Names of all interfaces, except pre-plugged ports without a pod: they stay when a pod is removed. */
  readonly names: ReadonlySet<string>;
}

interface KernelPlaces {
  readonly gateway: string;
  readonly bridge: string;
  /** Mount point of the namespace of pre-plugged ports. */
  readonly portsPath: string;
}

/** Lists Seine's nftables tables, routing rules, routes and interfaces in this network namespace. */
export function kernelLeftovers({ gateway, bridge, portsPath }: KernelPlaces): KernelLeftovers {
  const socket = NetlinkSocket.open();
  try {
    const links = listLinks(socket);
    const standing = standingEnds(links, portsPath);
    const ofPods = [
      ...links.filter(({ name, kind, alias }) => kind === 'veth' && podLinkName.test(name) && (alias ?? '').includes('/')),
      ...standing,
    ];
    // With the kernel data path these belong to Open vSwitch and are removed with the bridge; otherwise they are taps that stay.
    const ofNode = links.filter(({ name }) => name === gateway || name === bridge || name === wireGuardDevice);
    return {
      first: [...packetFilter(), ...rules(socket), ...routes(socket, links)],
      links: [...ofPods, ...ofNode].map(linkLeftover),
      pods: ofPods.flatMap(({ alias }) => (alias === undefined ? [] : [alias.split(' ', 1)[0] ?? ''])),
      names: new Set(links.map(({ name }) => name).filter((name) => !standing.some((end) => end.name === name && end.alias === undefined))),
    };
  } finally {
    socket.close();
  }
}

/**
 * Returns the node's ends of pre-plugged ports, with the pod's alias if a pod's interface is up on the far end. The pod's interface is
 * removed with the port.
 */
function standingEnds(links: readonly Link[], portsPath: string): readonly Link[] {
  const ports = new PortsMount(portsPath);
  try {
    const fars = new Map(ports.current && listLinks(ports.current.socket, { kind: 'veth' }).map((far) => [far.index, far]));
    return links.flatMap((link) => {
      const far = link.kind === 'veth' && standingPortName.test(link.name) && link.peerIndex !== undefined && fars.get(link.peerIndex);
      return far && far.peerIndex === link.index ? [{ ...link, alias: far.promiscuity > 0 ? far.alias : undefined }] : [];
    });
  } finally {
    ports.close();
  }
}

function packetFilter(): Leftover[] {
  const nftables = Nftables.open();
  try {
    return firewallTables.filter((table) => nftables.listTable('inet', table) !== undefined).map(tableLeftover);
  } finally {
    nftables.close();
  }
}

function tableLeftover(table: string): Leftover {
  const remove = (): void => {
    const own = Nftables.open();
    try {
      own.run(`add table inet ${table}\ndelete table inet ${table}`);
    } finally {
      own.close();
    }
  };
  return { what: `nftables table inet ${table}`, remove };
}

function routes(socket: NetlinkSocket, links: readonly Link[]): Leftover[] {
  const names = new Map(links.map(({ index, name }) => [index, name]));
  const found = (['ipv4', 'ipv6'] as const)
    .flatMap((family) => listRoutes(socket, { family, protocol: ourProtocol }))
    .filter(({ table }) => table !== localTable);
  return found.map((route) => {
    const over = route.link === undefined ? '' : ` dev ${names.get(route.link) ?? route.link}`;
    return { what: `route ${route.destination.text}${over}`, remove: () => change((batch) => deleteRoute(batch, keyOf(route)), 'ESRCH') };
  });
}

function rules(socket: NetlinkSocket): Leftover[] {
  const found = (['ipv4', 'ipv6'] as const).flatMap((family) =>
    listRules(socket, family).filter(({ protocol }) => protocol === ourProtocol),
  );
  return found.map((rule) => ({
    what: `${rule.family} rule of the routing policy at priority ${rule.priority}, for table ${rule.table}`,
    remove: () => change((batch) => deleteListedRule(batch, rule), 'ENOENT'),
  }));
}

function keyOf({ destination, metric, table, gateway, link }: Route): Parameters<typeof deleteRoute>[1] {
  return { destination, metric, table, gateway, link, protocol: ourProtocol };
}

function linkLeftover({ name, alias }: Link): Leftover {
  const whose = alias === undefined ? '' : ` (${alias.split(' ', 1)[0]})`;
  // A link that the kernel refuses to delete by name belongs to Open vSwitch, and is already reported.
  return { what: `interface ${name}${whose}`, remove: () => change((batch) => deleteLink(batch, name), 'ENODEV') };
}

/** @param gone errno for an object that no longer exists */
function change(write: (batch: Batch) => void, gone: 'ESRCH' | 'ENODEV' | 'ENOENT'): void {
  const socket = NetlinkSocket.open();
  try {
    const batch = new Batch();
    write(batch);
    socket.transact(batch);
  } catch (thrown) {
    const error = SeineError.from(thrown, 'clean up');
    if (error.context['errno'] !== gone) throw error;
  } finally {
    socket.close();
  }
}
