import { join } from 'node:path';
import { Doorbell } from '../async/doorbell.ts';
import { BridgeTarget } from '../datapath/bridge-target.ts';
import { FencedTarget } from '../datapath/fenced-target.ts';
import { FirewallTarget } from '../datapath/firewall-target.ts';
import { HostTarget } from '../datapath/host-target.ts';
import { NodeDatapath, type NodeDatapathEvents, type NodeTargets } from '../datapath/node-datapath.ts';
import { PortWatch } from '../datapath/port-watch.ts';
import { openSwitchDatabase, type SwitchDatabase } from '../datapath/switch-database.ts';
import { SwitchTarget } from '../datapath/switch-target.ts';
import type { Target } from '../datapath/target.ts';
import type { SeineError } from '../errors/seine-error.ts';
import type { Log } from '../log/log.ts';
import { FirewallEvents } from '../netlink/firewall-events.ts';
import { LinkRemover } from '../netlink/link-remover.ts';
import { Nftables } from '../netlink/nftables.ts';
import type { HostLinks } from '../netlink/pod-interface.ts';
import { NetlinkSocket } from '../netlink/socket.ts';
import { OpenFlowConnection } from '../openflow/connection.ts';
import { monitorFlag, writeFlowMonitorRequest } from '../openflow/flow-monitor.ts';
import { encodeMessage } from '../openflow/message.ts';
import { writePacketOut } from '../openflow/packet.ts';
import { messageType, OPENFLOW_15, ofPort, readHeader } from '../openflow/protocol.ts';
import { decodeUnsolicited } from '../openflow/unsolicited.ts';
import { isLearned } from '../pipeline/cookie.ts';
import { ByteWriter } from '../wire/bytes.ts';
import { BridgeLock } from './bridge-lock.ts';
import type { AgentConfig } from './config.ts';
import { HalfOpenConnections } from './half-open.ts';
import { watchHost } from './host-watch.ts';
import { NoEndpointResponder } from './no-endpoint.ts';
import { PacketInbox } from './packet-inbox.ts';
import { servicesTable } from './proxy/service-firewall.ts';
import { Quiet } from './quiet.ts';
import type { Readiness } from './readiness.ts';

/** Tables of the node's packet filter that are ours. */
export const firewallTable = 'seine';

/** How long to wait for more news of foreign changes before looking at everything again (ms). */
const SETTLE_MS = 20;

/** Somebody who changes things all the time gets a fifth of our time and no more. */
const REST_FOR_EACH_LOOK = 4;

/** The node's switch, kernel and packet filter, and what is wanted of them. */
export interface DataPlane {
  readonly host: HostLinks;
  readonly hostTarget: HostTarget;
  readonly database: SwitchDatabase;
  readonly lock: BridgeLock;
  readonly ports: PortWatch;
  readonly openflow: OpenFlowConnection;
  /** What the bridge sends to the agent. */
  readonly packets: PacketInbox;
  readonly responder: NoEndpointResponder;
  readonly halfOpen: HalfOpenConnections;
  readonly datapath: NodeDatapath;
  readonly nftables: Nftables;
  /** Rings when the gateway interface was made anew. */
  readonly gatewayMade: Doorbell;
  /** Rings when the node's own interfaces or their addresses may be others than before. */
  readonly nodeChanged: Doorbell;
  /** Rings when ovs-vswitchd has come, or says something else of its data path. */
  readonly dataPathNews: Doorbell;
  /** Rings when somebody else's tables of the packet filter have changed. */
  readonly foreignFirewall: Doorbell;
  /** Gateway and interfaces of pods that are gone, by whatever hand; rings when there are more. */
  readonly goneLinks: { readonly names: Set<string>; readonly bell: Doorbell };
  /** Rejects when a connection was lost by a bug of ours: a new one would be lost by the same. */
  readonly broken: Promise<never>;
}

export interface DataPlaneOptions {
  readonly config: AgentConfig;
  readonly hooks: {
    readonly events: NodeDatapathEvents;
    readonly onDatabaseFailure?: (error: SeineError) => void;
    readonly onBridgeFailure?: (error: SeineError) => void;
  };
  readonly readiness: Readiness;
  readonly log: Log;
}

export function openDataPlane({ config, hooks, readiness, log }: DataPlaneOptions, signal: AbortSignal): DataPlane {
  const host = { socket: NetlinkSocket.open(), remover: LinkRemover.open() };
  const nftables = Nftables.open();
  const { broken, noticeBug } = bugAlarm();
  const database = openSwitchDatabase(join(config.ovsRunDir, 'db.sock'), {
    synced: () => {
      log.working('ovsdb');
      datapath.reconcilers.switch.distrust();
    },
    failed: (cause, waitMs) => {
      noticeBug(cause);
      hooks.onDatabaseFailure?.(cause);
      log.failing('ovsdb', 'the switch database cannot be reached', { cause: cause.message, waitMs });
    },
  });
  const endpoint = `unix:${join(config.ovsRunDir, `${config.ovsBridge}.mgmt`)}`;
  const bells = openBells();
  const openflow = openBridge(endpoint, {
    readiness,
    log,
    failed: (cause) => {
      noticeBug(cause);
      hooks.onBridgeFailure?.(cause);
      log.failing('openflow', 'the bridge is not connected', { cause: cause.message });
    },
    changed: () => {
      datapath.reconcilers.bridge.distrust();
      bells.dataPathNews.ring();
    },
    foreign: newsFor(() => datapath.reconcilers.bridge, signal),
  });
  const lock = new BridgeLock({ database, bridge: config.ovsBridge, readiness, log });
  const hostTarget = new HostTarget(config.hostGateway);
  const datapath = new NodeDatapath(openTargets(config, { database, openflow, lock, hostTarget, nftables }), hooks.events);
  const ports = new PortWatch(database, signal);
  const packets = new PacketInbox(endpoint, signal);
  const responder = new NoEndpointResponder(packets, log);
  const halfOpen = new HalfOpenConnections(packets, log);
  return { host, hostTarget, database, lock, ports, openflow, packets, responder, halfOpen, datapath, nftables, ...bells, broken };
}

function openBells(): Pick<DataPlane, 'gatewayMade' | 'nodeChanged' | 'dataPathNews' | 'foreignFirewall' | 'goneLinks'> {
  return {
    gatewayMade: new Doorbell(),
    nodeChanged: new Doorbell(),
    dataPathNews: new Doorbell(),
    foreignFirewall: new Doorbell(),
    goneLinks: { names: new Set<string>(), bell: new Doorbell() },
  };
}

/** Nothing is written while another agent has the bridge. */
function openTargets(
  { ovsBridge }: AgentConfig,
  { database, openflow, lock, hostTarget, nftables }: Pick<DataPlane, 'database' | 'openflow' | 'lock' | 'hostTarget' | 'nftables'>,
): NodeTargets {
  const fenced = <K, V>(target: Target<K, V>): Target<K, V> => new FencedTarget(target, () => lock.whyNot());
  return {
    bridge: fenced(new BridgeTarget(openflow)),
    switch: fenced(new SwitchTarget(database, ovsBridge, lock.name)),
    host: fenced(hostTarget),
    firewall: fenced(new FirewallTarget(nftables, [firewallTable, servicesTable])),
  };
}

/** `broken` rejects with the first bug that is noticed. */
function bugAlarm(): { readonly broken: Promise<never>; readonly noticeBug: (cause: SeineError) => void } {
  const { promise: broken, reject } = Promise.withResolvers<never>();
  broken.catch(() => undefined); // looked at by whoever runs the data plane
  return { broken, noticeBug: (cause) => void (cause.remedy === 'crash' && reject(cause)) };
}

/**
 * Keeps everything connected and as wanted until `signal`.
 *
 * @throws SeineError `INVARIANT`
 */
export async function runDataPlane(plane: DataPlane, gateway: string, signal: AbortSignal): Promise<void> {
  const { database, openflow, packets, datapath, host, hostTarget, nftables } = plane;
  const watches = [watchNodeStack(plane, gateway, signal), watchFirewall(plane, signal)];
  const rows = newsFor(() => datapath.reconcilers.switch, signal);
  database.onChange((changes) => {
    rows.ring();
    if (changes.some(({ table }) => table === 'Datapath')) plane.dataPathNews.ring();
  }, signal);
  try {
    const all = Promise.all([database.run(signal), openflow.run(signal), packets.run(), datapath.run(signal)]);
    await Promise.race([all, plane.broken]);
  } finally {
    for (const watch of watches) watch.close();
  }
  // After a bug the process ends, and with it what others may be in the midst of using.
  await Promise.all([host.remover.close(), hostTarget.close()]);
  host.socket.close();
  nftables.close();
}

/** To be rung when somebody else may have changed something of a part: it is looked at once all is quiet, and not without rest. */
function newsFor(part: () => { readonly lookTookMs: number; suspect(): void }, signal: AbortSignal): Quiet {
  return new Quiet({ waitMs: SETTLE_MS, restMs: () => restAfter(part().lookTookMs) }, () => part().suspect(), signal);
}

function watchNodeStack(plane: DataPlane, gateway: string, signal: AbortSignal): { close(): void } {
  const { datapath, host, hostTarget } = plane;
  const changed = newsFor(() => datapath.reconcilers.host, signal);
  return watchHost({
    socket: host.socket,
    ours: hostTarget.port,
    gateway,
    isWantedNeighbour: ({ text }) => datapath.host.wanted(`neighbour/${gateway}/${text}`) !== undefined,
    changed: () => changed.ring(),
    gatewayMade: () => plane.gatewayMade.ring(),
    nodeChanged: () => plane.nodeChanged.ring(),
    linkGone: (name) => {
      plane.goneLinks.names.add(name);
      plane.goneLinks.bell.ring();
    },
  });
}

function watchFirewall({ datapath, foreignFirewall }: DataPlane, signal: AbortSignal): { close(): void } {
  const tables = newsFor(() => datapath.reconcilers.firewall, signal);
  const ours = [firewallTable, servicesTable];
  return FirewallEvents.open({}, (change) => {
    if (change.kind === 'overrun' || ours.some((table) => change.tables.has(table))) tables.ring();
    if (change.kind === 'overrun' || [...change.tables].some((table) => !ours.includes(table))) foreignFirewall.ring();
  });
}

interface BridgeWatch {
  readonly readiness: Readiness;
  readonly log: Log;
  /** Everything on the bridge may be otherwise than we believe. */
  readonly changed: () => void;
  readonly foreign: Quiet;
  /** The connection was lost, or could not be made. */
  readonly failed: (cause: SeineError) => void;
}

/** Asks to be told of changes to groups and meters by other connections, their requests forwarded: reasons 0 and 1. */
const groupNews = encodeMessage({ kind: 'setAsync', version: OPENFLOW_15, xid: 0, body: { requestForward: 0b11 } });

function openBridge(endpoint: string, { readiness, log, changed, foreign, failed }: BridgeWatch): OpenFlowConnection {
  const monitor = new ByteWriter(64);
  writeFlowMonitorRequest(monitor, { id: 1, flags: monitorFlag.add + monitorFlag.removed + monitorFlag.modify });
  const obstacle = 'openflow';
  readiness.obstruct(obstacle, 'starting', 'ovs-vswitchd is not connected yet');
  return new OpenFlowConnection({
    endpoint,
    greeting: [monitor.finish(), groupNews],
    up: () => {
      log.info('connected to the bridge');
      log.working('openflow');
      readiness.clear(obstacle);
      changed();
    },
    failed,
    down: (cause) => {
      failed(cause);
      readiness.obstruct(obstacle, 'impaired', 'ovs-vswitchd is not connected');
    },
    unsolicited: (message) => {
      const received = decodeUnsolicited(message);
      if (received.kind === 'error') log.failing('bridge error', 'the bridge reports an error', { cause: received.error.name });
      if (received.kind === 'other' && readHeader(received.message).type === messageType.requestForward) foreign.ring();
      if (received.kind !== 'flowUpdates') return;
      const byOthers = received.updates.some(
        (update) => update.event !== 'abbreviated' && !('cookie' in update && isLearned(update.cookie)),
      );
      if (byOthers) foreign.ring();
    },
  });
}

function restAfter(lookTookMs: number): number {
  return REST_FOR_EACH_LOOK * lookTookMs;
}

/** Lets the switch send frames out of a port. What is lost is lost. */
export function sendFrames({ openflow }: DataPlane, port: number, frames: readonly Uint8Array[], signal: AbortSignal): void {
  const messages = frames.map((data) => {
    const w = new ByteWriter(256);
    writePacketOut(w, { fields: { in_port: ofPort.controller }, actions: [{ kind: 'output', port }], data });
    return w.finish();
  });
  openflow.send(messages, signal).catch(() => undefined);
}

/** Lets the switch take frames as if a port had received them. What is lost is lost: neighbours ask when they need to know. */
export function injectFrames({ openflow }: DataPlane, port: number, frames: readonly Uint8Array[], signal: AbortSignal): void {
  const messages = frames.map((data) => {
    const w = new ByteWriter(256);
    writePacketOut(w, { fields: { in_port: port }, actions: [{ kind: 'output', port: ofPort.table }], data });
    return w.finish();
  });
  openflow.send(messages, signal).catch(() => undefined);
}
