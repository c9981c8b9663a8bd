import { afterAll, beforeAll, expect, it } from 'vitest';
import { bytesOf } from '../../src/base/bytes/bytes.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { drop, type Flow, priority } from '../../src/dataplane/pipeline/flow.ts';
import { type PipelineTableName, tables } from '../../src/dataplane/pipeline/tables.ts';
import { planBatches } from '../../src/dataplane/reconcile/plan-batch.ts';
import { type BridgeKey, type BridgeValue, depthOfKey, encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { BridgeTarget } from '../../src/dataplane/targets/bridge/bridge-target.ts';
import { OpenFlowConnection } from '../../src/openflow/connection/connection.ts';
import { monitorFlag, writeFlowMonitorRequest } from '../../src/openflow/flows/flow-monitor.ts';
import { decodeUnsolicited } from '../../src/openflow/unsolicited.ts';
import { startSwitch, type TestSwitch } from '../support/open-vswitch.ts';

let ovs: TestSwitch;
let connection: OpenFlowConnection;
const stop = new AbortController();
/** Tables of the flows that OVS added and deleted, in its own order. */
let happened: number[] = [];

beforeAll(async () => {
  ovs = startSwitch();
  ovs.exec('ovs-vsctl', 'add-br', 'br-int', '--', 'set', 'bridge', 'br-int', 'datapath_type=netdev', 'fail_mode=secure');
  const endpoint = `unix:${ovs.runDir}/br-int.mgmt`;
  connection = new OpenFlowConnection({ endpoint });
  // Another one: a switch abbreviates reports of a connection's own changes.
  const watching = new OpenFlowConnection({
    endpoint,
    greeting: [bytesOf((w) => writeFlowMonitorRequest(w, { id: 1, flags: monitorFlag.add + monitorFlag.removed }))],
    unsolicited: (message) => {
      const received = decodeUnsolicited(message);
      if (received.kind !== 'flowUpdates') return;
      for (const update of received.updates) if ('table' in update) happened.push(update.table);
    },
  });
  for (const each of [connection, watching]) {
    void each.run(stop.signal);
    await each.untilUp(stop.signal);
    await each.barrier(stop.signal);
  }
});
afterAll(async () => {
  stop.abort();
  await ovs.stop();
});

const policy: readonly PipelineTableName[] = [
  'egressEntry',
  'egressAdmin',
  'egressAdminPorts',
  'egressVerdict',
  'ingressEntry',
  'ingressAdmin',
];

/** Entries like those of policy: an owner for the rows of a pair, each in one table. */
function entries(): Map<BridgeKey, BridgeValue> {
  const flow = (table: PipelineTableName, portDst: number): Flow => ({
    table,
    priority: priority.normal,
    match: { payload: 'ipv4', protocol: 'tcp', portDst },
    steps: drop,
  });
  return new Map(
    Array.from({ length: 60 }, (_, n) => n).flatMap((n) => {
      const table = policy[n % policy.length] ?? 'egressEntry';
      return [...encodeBridgeEntries(ownerOf('policy', `${n}`), { ...nothing, flows: [flow(table, n), flow(table, 1_000 + n)] })];
    }),
  );
}

it.each([
  ['in portions', 7],
  ['at once', 1_000],
] as const)('adds flows of later tables first and removes them last, %s', async (_, size) => {
  const target = new BridgeTarget(connection);
  const all = entries();
  const owner = (key: BridgeKey): string => all.get(key)?.slice(0, 8) ?? '';
  for (const plan of [
    { put: all, remove: new Set<BridgeKey>() },
    { put: new Map<BridgeKey, BridgeValue>(), remove: new Set(all.keys()) },
  ]) {
    happened = [];
    for (const batch of planBatches(plan, owner, size, depthOfKey)) await target.apply(batch, stop.signal);
    await expect.poll(() => happened.length).toBe(all.size);
    const order = [...happened];
    expect(new Set(order)).toEqual(new Set(policy.map((name) => tables[name].id)));
    expect(order).toEqual(order.toSorted((a, b) => (plan.put.size > 0 ? b - a : a - b)));
  }
});
