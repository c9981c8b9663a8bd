import {
  type BridgeKey,
  decodeFlowEntry,
  isGroupKey,
  isMeterKey,
  numberOf,
  observedFlow,
  observedMeter,
} from '../datapath/bridge-entry.ts';
import type { NodeDatapath } from '../datapath/node-datapath.ts';
import type { OpenFlowConnection } from '../openflow/connection.ts';
import { cookieOf } from '../pipeline/cookie.ts';
import { tableName } from '../pipeline/tables.ts';
import type { FlowCheck } from './pod-check.ts';

const ALL_BITS = 0xffff_ffff_ffff_ffffn;

/** Compares an owner's flows, and the meter they may use, with what the switch holds now. */
export function flowCheck(datapath: NodeDatapath, connection: OpenFlowConnection): FlowCheck {
  return async (owner, signal) => {
    const held = new Map<BridgeKey, string>();
    await connection.dumpFlows({ cookie: cookieOf(owner), cookieMask: ALL_BITS }, (flow) => held.set(...observedFlow(flow)), signal);
    const keys = datapath.bridge.keysOf(owner).filter((key) => !isGroupKey(key));
    if (keys.some(isMeterKey)) for (const meter of await connection.dumpMeters(signal)) held.set(...observedMeter(meter));
    return keys
      .filter((key) => held.get(key) !== datapath.bridge.wanted(key))
      .map((key) => `${describe(datapath, key)} is ${held.has(key) ? 'changed' : 'missing'}`);
  };
}

function describe(datapath: NodeDatapath, key: BridgeKey): string {
  const value = datapath.bridge.wanted(key);
  if (value === undefined) return 'flow of nobody';
  if (isMeterKey(key)) return `meter ${numberOf(key)}`;
  const { table, priority } = decodeFlowEntry(key, value);
  return `flow of priority ${priority} in table ${tableName(table) ?? table}`;
}
