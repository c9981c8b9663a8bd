import { Debouncer } from '../base/async/debouncer.ts';
import { within } from '../base/async/time-limit.ts';
import type { Log } from '../base/log/log.ts';
import { clearTable, firewallTable } from '../dataplane/compile/compile-firewall.ts';
import { wireGuardDevice } from '../dataplane/pipeline/well-known.ts';
import { BridgeTarget } from '../dataplane/targets/bridge/bridge-target.ts';
import { LearnedFlows } from '../dataplane/targets/bridge/learned-flows.ts';
import type { OperatorOverrides } from '../dataplane/targets/bridge/operator-overrides.ts';
import { RowPacking } from '../dataplane/targets/bridge/row-packing.ts';
import { FirewallTarget } from '../dataplane/targets/host/firewall-target.ts';
import { HostTarget } from '../dataplane/targets/host/host-target.ts';
import { SettingsTarget } from '../dataplane/targets/host/settings-target.ts';
import { LinksTarget } from '../dataplane/targets/links/links-target.ts';
import { StandingLinks, standingPortPattern } from '../dataplane/targets/links/pre-plugged-links.ts';
import { LinksWatch } from '../dataplane/targets/links-watch.ts';
import { NodeState } from '../dataplane/targets/node-state.ts';
import { unplugPort } from '../dataplane/targets/switch/replug-port.ts';
import { RouteChanges } from '../dataplane/targets/switch/route-changes.ts';
import type { StaleMegaflows } from '../dataplane/targets/switch/stale-megaflows.ts';
import { SwitchTarget } from '../dataplane/targets/switch/switch-target.ts';
import type { NodeStateEvents, TargetName } from '../dataplane/targets/target-options.ts';
import { WireGuardTarget } from '../dataplane/targets/wireguard/wireguard-target.ts';
import { LinkRemover } from '../netlink/link-remover.ts';
import { getLink } from '../netlink/links.ts';
import { FirewallEvents } from '../netlink/nftables/firewall-events.ts';
import { Nftables } from '../netlink/nftables/nftables.ts';
import type { HostLinks } from '../netlink/pod-interfaces/pod-interface.ts';
import { PortsMount, portsPathNextTo } from '../netlink/pod-interfaces/ports-namespace.ts';
import { NetlinkSocket } from '../netlink/socket.ts';
import { watchHost } from '../nodes/local/host-watch.ts';
import { hostPortsTable } from '../pods/host-ports/host-port-firewall.ts';
import { hostInterfacePattern, isPodInterface } from '../pods/network/attachment-names.ts';
import { podWarnings } from '../pods/network/pod-warnings.ts';
import { addressRows } from '../policy/flows/address-rows.ts';
import { externalTable, servicesTable } from '../services/controller/service-firewall.ts';
import type { AgentConfig } from './config/agent-config.ts';
import type { NodeChanges } from './node-changes.ts';
import type { SwitchConnections } from './switch-connections.ts';

/** Time to wait for more reports of foreign changes before the part is observed again (ms). */
const SETTLE_MS = 20;

/** Limits observations to a fifth of the agent's time if a program changes entries all the time. */
const PAUSE_FOR_EACH_CHECK = 4;

/** nftables tables of Seine. */
const tableNames: readonly string[] = [firewallTable, clearTable, servicesTable, externalTable, hostPortsTable];

/** Network stack of the node: its kernel and its nftables. */
export interface NodeStack {
  readonly links: HostLinks;
  readonly ports: PortsMount;
  readonly target: HostTarget;
  /** Absent on the kernel's data path, which finds the way of tunnel packets itself. */
  readonly routeChanges: RouteChanges | undefined;
  readonly wireGuard: WireGuardTarget;
  readonly nftables: Nftables;
  /** A second handle for the target alone: it works off the main thread. */
  readonly ownTables: Nftables;
  /** Reads counters of nftables. */
  readonly netfilter: NetlinkSocket;
  close(): Promise<void>;
}

/** Opens the sockets. The namespace of pre-plugged ports is mounted next to the socket of the plugin, if it is. */
export function openNodeStack(config: AgentConfig): NodeStack {
  const {
    hostGateway: gateway,
    cniSocket,
    wireGuard: { socketFolder },
    ovsRunDir: runDir,
  } = config;
  const ports = new PortsMount(portsPathNextTo(cniSocket));
  const links = { socket: NetlinkSocket.open(), remover: LinkRemover.open() };
  const nftables = Nftables.open();
  const ownTables = Nftables.open();
  const netfilter = NetlinkSocket.open({ protocol: 'netfilter' });
  const routeChanges = config.ovsDatapathType === 'netdev' ? new RouteChanges({ runDir, now: () => performance.now() }) : undefined;
  const target = new HostTarget(gateway, routeChanges && { beforeRoutes: () => routeChanges.next() });
  const wireGuard = new WireGuardTarget({ device: wireGuardDevice, socketFolder });
  const close = async (): Promise<void> => {
    await Promise.all([links.remover.close(), target.close(), wireGuard.close()]);
    links.socket.close();
    nftables.close();
    ownTables.close();
    netfilter.close();
    ports.close();
  };
  return { links, ports, target, routeChanges, wireGuard, nftables, ownTables, netfilter, close };
}

type StateConnections = Pick<SwitchConnections, 'database' | 'lock' | 'openflow'>;

interface NodeStateHooks {
  readonly events: NodeStateEvents;
  /** Changes made inside pods, as sentences. Called after each check of all of them. */
  readonly podsChecked: (sentences: readonly string[]) => void;
  readonly log: Log;
}

/** Opens the desired state of the node. Nothing is written while another agent has the bridge. */
export function openNodeState(
  config: AgentConfig,
  ovs: StateConnections,
  stack: NodeStack,
  { events, podsChecked, log }: NodeStateHooks,
): { readonly nodeState: NodeState; readonly links: LinksTarget; readonly operatorOverrides: OperatorOverrides } {
  const { database, openflow, lock } = ovs;
  const learned = new LearnedFlows();
  const links = new LinksTarget({
    host: stack.links,
    standing: new StandingLinks(stack.links, () => stack.ports.current),
    wanted: () => nodeState.links,
    isPodInterface,
    ports: {
      plug: (name) => nodeState.linkedPorts.plug(name),
      unplug: (name, signal) => unplugLink({ database, bridge: config.ovsBridge, lock: lock.name, nodeState }, name, signal),
    },
    repairPods: config.repairPods,
    looked: (inside) => podsChecked(podWarnings(inside, config.repairPods)),
    notRemoved: (name, { message: cause }) => log.error('a pod interface could not be removed', { interface: name, cause }),
  });
  const packings = Object.values(addressRows).map((rows) => new RowPacking(rows));
  const bridge = new BridgeTarget(openflow, learned, packings);
  const targets = {
    bridge,
    switch: new SwitchTarget(database, config.ovsBridge, lock.name),
    host: stack.target,
    firewall: new FirewallTarget(stack.ownTables, tableNames, (tables, refusal) => events.notInPlace?.(tables, refusal)),
    settings: new SettingsTarget({
      socket: stack.links.socket,
      wanted: () => nodeState.settings,
      mode: config.hostSettings,
      changed: (setting, before, after) => log.info('kernel setting changed', { setting, before, after }),
    }),
    links,
    wireguard: stack.wireGuard,
  };
  // A refusal for a pod that is being created is reported by its ADD.
  const isComing = (owner: string): boolean =>
    nodeState.links.keysOf(owner).every((key) => {
      const link = nodeState.links.wanted(key)?.link;
      return link !== undefined && link.made === undefined && links.madeOf(link.hostName) === undefined;
    });
  const refused: NodeStateEvents['refused'] = (part, owner, error) => {
    if (part !== 'links' || !isComing(owner)) events.refused(part, owner, error);
  };
  const nodeState = new NodeState(targets, { ...events, refused }, () => lock.blockedBy(), learned, packings);
  return { nodeState, links, operatorOverrides: bridge.operatorOverrides };
}

/** Maximum time for ovs-vswitchd to release a port whose interface is recreated (ms). New pods wait that long as well. */
const UNPLUG_PATIENCE_MS = 1_000;

type UnplugPorts = Parameters<typeof unplugPort>[0] & { readonly nodeState: NodeState };

/**
 * A new pair has no port yet, so nothing is waited for. For others it is not sufficient that the row is deleted: ovs-vswitchd may not have
 * read that.
 */
async function unplugLink({ nodeState, ...ovs }: UnplugPorts, name: string, signal: AbortSignal): Promise<void> {
  const patience = within(signal, UNPLUG_PATIENCE_MS);
  const hadPort = ovs.database.tables.Interface.find('name', name) !== undefined;
  await nodeState.linkedPorts.unplug(name, patience);
  if (hadPort) await unplugPort(ovs, name, patience);
}

/** Bell to ring when a part may have changed otherwise: it is observed once there are no more rings, with pauses in between. */
export function debouncedRecheck(part: () => { readonly observeTookMs: number; recheck(): void }, signal: AbortSignal): Debouncer {
  const restMs = (): number => PAUSE_FOR_EACH_CHECK * part().observeTookMs;
  return new Debouncer({ waitMs: SETTLE_MS, restMs }, () => part().recheck(), signal);
}

/** Reports whether a desired route uses an interface. Called for interfaces of the node itself, which change rarely. */
function hasRouteOver(desired: NodeState['host'], name: string): boolean {
  for (const key of desired.keys()) {
    const entry = key.startsWith('route/') ? desired.wanted(key) : undefined;
    if (entry?.kind === 'route' && entry.route.dev === name) return true;
  }
  return false;
}

interface NodeWatchOptions {
  readonly gateway: string;
  readonly ovs: Pick<SwitchConnections, 'database'>;
  readonly stack: NodeStack;
  readonly nodeState: NodeState;
  readonly changes: NodeChanges;
}

/** Keeps everything connected and in sync until the signal is aborted. @throws SeineError `INVARIANT` */
export async function keepNode(options: NodeWatchOptions & { readonly ovs: SwitchConnections }, signal: AbortSignal): Promise<void> {
  const { ovs, stack, nodeState } = options;
  const endWatch = watchNode(options, signal);
  try {
    await Promise.all([ovs.run(signal), nodeState.run(signal)]);
  } finally {
    endWatch();
  }
  // After a bug the process ends, and with it objects that other parts may be using.
  await stack.close();
}

/** Observes each part again when another program has changed it, and reports changes to followers. @returns the function that ends it */
function watchNode({ gateway, ovs, stack, nodeState, changes }: NodeWatchOptions, signal: AbortSignal): () => void {
  const { reconcilers } = nodeState;
  const rows = debouncedRecheck(() => reconcilers.switch, signal);
  ovs.database.onChange((changed) => {
    rows.ring();
    if (changed.some(({ table }) => table === 'Datapath')) changes.datapath.ring();
  }, signal);
  const host = debouncedRecheck(() => reconcilers.host, signal);
  const settings = debouncedRecheck(() => reconcilers.settings, signal);
  const wireGuard = debouncedRecheck(() => reconcilers.wireguard, signal);
  const now = {
    onNode: (name: string) => getLink(stack.links.socket, name),
    far: (name: string) => stack.ports.current && getLink(stack.ports.current.socket, name),
  };
  const links = new LinksWatch(nodeState, now, signal);
  stack.ports.watch((event) => (event.kind === 'link' ? links.noteFar(event.link) : links.checkAgain()));
  const hostWatch = watchHost({
    socket: stack.links.socket,
    ours: stack.target.port,
    gateway,
    isPodInterface: (name) => hostInterfacePattern.test(name) || standingPortPattern.test(name),
    isWantedNeighbour: ({ text }) => nodeState.host.wanted(`neighbour/${gateway}/${text}`) !== undefined,
    isOfRoute: (name) => hasRouteOver(nodeState.host, name),
    changed: () => host.ring(),
    gatewayMade: () => changes.gatewayMade.ring(),
    nodeChanged: () => changes.interfaces.ring(),
    settingsChanged: () => settings.ring(),
    isWireGuard: (name) => name === wireGuardDevice,
    wireGuardChanged: () => ringAll([wireGuard, settings]),
    gatewayGone: () => changes.gatewayGone.ring(),
    podInterface: (change, link) => links.note(change, link),
    overrun: () => links.checkAgain(),
  });
  const firewallWatch = watchFirewall(nodeState, changes, signal);
  return () => {
    hostWatch.close();
    firewallWatch.close();
  };
}

function ringAll(bells: readonly { ring(): void }[]): void {
  for (const bell of bells) bell.ring();
}

function watchFirewall({ reconcilers }: NodeState, changes: NodeWatchOptions['changes'], signal: AbortSignal): FirewallEvents {
  const tables = debouncedRecheck(() => reconcilers.firewall, signal);
  return FirewallEvents.open({}, (change) => {
    if (change.kind === 'overrun' || tableNames.some((table) => change.tables.has(table))) tables.ring();
    if (change.kind === 'overrun' || [...change.tables].some((table) => !tableNames.includes(table))) changes.foreignFirewall.ring();
  });
}

/**
 * Returns the same events. After a change of flows ovs-vswitchd discards older megaflows, after an urgent one before its round ends, and
 * changes of routes wait for it.
 */
export function forgettingMegaflows(
  events: NodeStateEvents,
  megaflows: Pick<StaleMegaflows, 'changed' | 'repaired'>,
  routes: Pick<RouteChanges, 'flowsChanged'>,
): NodeStateEvents {
  const changed = (part: TargetName): void => {
    if (part !== 'bridge') return;
    megaflows.changed();
    routes.flowsChanged();
  };
  return {
    ...events,
    urgent: changed,
    round: (part, result) => {
      changed(part);
      events.round(part, result);
    },
    repaired: (part, tookMs) => {
      if (part === 'bridge') megaflows.repaired();
      events.repaired(part, tookMs);
    },
  };
}
