import { join } from 'node:path';
import type { Debouncer } from '../base/async/debouncer.ts';
import { ByteWriter } from '../base/bytes/bytes.ts';
import type { SeineError } from '../base/errors/seine-error.ts';
import type { Log } from '../base/log/log.ts';
import { PacketInbox } from '../dataplane/packet-io/packet-inbox.ts';
import { cookieFeature, isLearned } from '../dataplane/pipeline/cookie.ts';
import { tables } from '../dataplane/pipeline/tables.ts';
import type { PipelinePacketInReason } from '../dataplane/pipeline/well-known.ts';
import type { LearnedFlows } from '../dataplane/targets/bridge/learned-flows.ts';
import { isHiding } from '../dataplane/targets/bridge/openflow-settings.ts';
import { openSwitchDatabase, type SwitchDatabase } from '../dataplane/targets/switch/switch-database.ts';
import { BridgeLock } from '../nodes/local/bridge-lock.ts';
import type { Readiness } from '../nodes/local/readiness.ts';
import { OpenFlowConnection } from '../openflow/connection/connection.ts';
import { type FlowUpdate, monitorFlag, writeFlowMonitorRequest } from '../openflow/flows/flow-monitor.ts';
import { encodeMessage } from '../openflow/message.ts';
import type { PacketIn } from '../openflow/packet.ts';
import { messageType, OPENFLOW_15, readHeader } from '../openflow/protocol.ts';
import { decodeUnsolicited } from '../openflow/unsolicited.ts';
import type { AgentConfig } from './config/agent-config.ts';

/** Connections to Open vSwitch: OVSDB, the bridge, and packet-ins. */
export interface SwitchConnections {
  readonly database: SwitchDatabase;
  /** Lock for one agent per bridge. */
  readonly lock: BridgeLock;
  readonly openflow: OpenFlowConnection;
  readonly packets: PacketInbox;
  /** Connects for copies of packets, with a receiver for each reason, until `until` is aborted. */
  readonly openCopies: (
    takers: readonly (readonly [reason: PipelinePacketInReason, take: (packet: PacketIn) => void])[],
    until: AbortSignal,
  ) => void;
  /**
   * Keeps them up until `signal` is aborted. @throws SeineError `INVARIANT` if one was lost because of a bug: a new one would be lost, too.
   */
  run(signal: AbortSignal): Promise<void>;
}

interface SwitchConnectionsOptions {
  readonly config: AgentConfig;
  readonly readiness: Readiness;
  readonly log: Log;
  /** Called when the replica of OVSDB is complete again. */
  readonly databaseSynced: () => void;
  readonly databaseFailed?: ((cause: SeineError) => void) | undefined;
  /** Called when the known state of the bridge may be outdated. */
  readonly bridgeUp: () => void;
  readonly bridgeFailed?: ((cause: SeineError) => void) | undefined;
  /** Rung when another OpenFlow controller has changed the bridge. */
  readonly bridgeChanged: Debouncer;
  /** Flows that the switch may have added itself. */
  readonly learned: Pick<LearnedFlows, 'covers'>;
}

/** Opens no connection yet: `run` connects. */
export function openSwitch(options: SwitchConnectionsOptions, signal: AbortSignal): SwitchConnections {
  const { config, readiness, log } = options;
  const { broken, noticeBug } = bugAlarm();
  const database = openSwitchDatabase(join(config.ovsRunDir, 'db.sock'), {
    synced: () => {
      log.working('ovsdb');
      options.databaseSynced();
    },
    failed: (cause, waitMs) => {
      noticeBug(cause);
      options.databaseFailed?.(cause);
      log.failing('ovsdb', 'OVSDB cannot be reached', { cause: cause.message, waitMs });
    },
  });
  const endpoint = `unix:${join(config.ovsRunDir, `${config.ovsBridge}.mgmt`)}`;
  const openflow = openBridge(endpoint, {
    readiness,
    log,
    failed: (cause) => {
      noticeBug(cause);
      options.bridgeFailed?.(cause);
      log.failing('openflow', 'the bridge is not connected', { cause: cause.message });
    },
    changed: options.bridgeUp,
    foreign: options.bridgeChanged,
    learned: options.learned,
  });
  const lock = new BridgeLock({ database, bridge: config.ovsBridge, readiness, log });
  const packets = new PacketInbox(endpoint, signal);
  return {
    database,
    lock,
    openflow,
    packets,
    openCopies: copiesFrom(endpoint, signal),
    run: (until) => Promise.race([Promise.all([database.run(until), openflow.run(until), packets.run()]).then(() => undefined), broken]),
  };
}

function copiesFrom(endpoint: string, signal: AbortSignal): SwitchConnections['openCopies'] {
  return (takers, until) => {
    const copies = new PacketInbox(endpoint, AbortSignal.any([signal, until]), 'copies');
    for (const [reason, take] of takers) copies.on(reason, take);
    void copies.run(); // never rejects
  };
}

/** `broken` rejects with the first bug. */
function bugAlarm(): { readonly broken: Promise<never>; readonly noticeBug: (cause: SeineError) => void } {
  const { promise: broken, reject } = Promise.withResolvers<never>();
  broken.catch(() => undefined); // awaited by `run`
  return { broken, noticeBug: (cause) => void (cause.remedy === 'crash' && reject(cause)) };
}

interface BridgeWatch {
  readonly readiness: Readiness;
  readonly log: Log;
  /** Called when the known state of the bridge may be outdated. */
  readonly changed: () => void;
  readonly foreign: Debouncer;
  readonly learned: Pick<LearnedFlows, 'covers'>;
  /** Called when the connection was lost, or could not be made. */
  readonly failed: (cause: SeineError) => void;
}

/**
 * Requests notifications of changes by other connections: of groups and meters, as forwarded requests: reasons 0 and 1; and of ports:
 * reason 2.
 */
const news = encodeMessage({ kind: 'setAsync', version: OPENFLOW_15, xid: 0, body: { requestForward: 0b11, portStatus: 0b100 } });

/** Includes instructions: only they distinguish a learned flow from one that pretends to be. */
const monitored = monitorFlag.add + monitorFlag.removed + monitorFlag.modify + monitorFlag.instructions;

function openBridge(endpoint: string, { readiness, log, changed, foreign, failed, learned }: BridgeWatch): OpenFlowConnection {
  const monitor = new ByteWriter(64);
  writeFlowMonitorRequest(monitor, { id: 1, flags: monitored });
  const obstacle = 'openflow';
  readiness.obstruct(obstacle, 'starting', 'ovs-vswitchd is not connected yet');
  return new OpenFlowConnection({
    endpoint,
    greeting: [monitor.finish(), news],
    up: () => {
      log.info('connected to the bridge');
      log.working('openflow');
      changed();
      readiness.clear(obstacle);
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
      if (received.kind === 'portStatus' && isHiding(received.status.port)) foreign.ring();
      if (received.kind !== 'flowUpdates') return;
      if (received.updates.some((update) => isForeign(update, learned)))
        foreign.ring(received.updates.some(isLostEntry) ? 'urgent' : 'usual');
    },
  });
}

/** Reports whether another process has removed a flow by which packets enter the pipeline. */
function isLostEntry(update: FlowUpdate): boolean {
  return update.event === 'removed' && update.table === tables.classify.id && cookieFeature(update.cookie) !== undefined;
}

/** Removal of a learned flow is ignored: it was not desired individually, and a foreign one is handled when it is added. */
function isForeign(update: FlowUpdate, learned: Pick<LearnedFlows, 'covers'>): boolean {
  if (update.event === 'abbreviated') return false;
  if (!('cookie' in update) || !isLearned(update.cookie)) return true;
  return update.event !== 'removed' && !learned.covers(update);
}
