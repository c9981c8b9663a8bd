import { cookieOf } from '../../dataplane/pipeline/cookie.ts';
import { tableName } from '../../dataplane/pipeline/tables.ts';
import {
  type BridgeKey,
  decodeFlowEntry,
  isGroupKey,
  isMeterKey,
  numberOf,
  observedFlow,
  observedMeter,
} from '../../dataplane/targets/bridge/bridge-entry.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';
import type { FlowCheck } from './pod-check.ts';

const ALL_BITS = 0xffff_ffff_ffff_ffffn;

/** Compares an owner's desired flows, and its meter, with those in OVS. */
export function flowCheck(
  nodeState: Pick<NodeState, 'bridge'>,
  connection: Pick<OpenFlowConnection, 'dumpFlows' | 'dumpMeters'>,
): FlowCheck {
  return async (owner, signal) => {
    const held = new Map<BridgeKey, string>();
    await connection.dumpFlows({ cookie: cookieOf(owner), cookieMask: ALL_BITS }, (flow) => held.set(...observedFlow(flow)), signal);
    const keys = nodeState.bridge.keysOf(owner).filter((key) => !isGroupKey(key));
    if (keys.some(isMeterKey)) for (const meter of await connection.dumpMeters(signal)) held.set(...observedMeter(meter));
    return keys
      .filter((key) => held.get(key) !== nodeState.bridge.wanted(key))
      .map((key) => `${describe(nodeState, key)} is ${held.has(key) ? 'changed' : 'missing'}`);
  };
}

function describe(nodeState: Pick<NodeState, 'bridge'>, key: BridgeKey): string {
  const value = nodeState.bridge.wanted(key);
  if (value === undefined) return 'flow without an owner';
  if (isMeterKey(key)) return `meter ${numberOf(key)}`;
  const { table, priority } = decodeFlowEntry(key, value);
  return `flow of priority ${priority} in table ${tableName(table) ?? table}`;
}
