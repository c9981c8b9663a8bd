import { expect, it } from 'vitest';
import { compileScene, exampleScene } from '../../../test/model/scene.ts';
import { nothing } from '../../dataplane/desired/host-entries.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import type { Flow } from '../../dataplane/pipeline/flow.ts';
import { tableName } from '../../dataplane/pipeline/tables.ts';
import {
  type BridgeKey,
  type BridgeValue,
  decodeFlowEntry,
  encodeBridgeEntries,
  tableOfKey,
} from '../../dataplane/targets/bridge/bridge-entry.ts';
import type { FlowStats } from '../../openflow/flows/flow-stats.ts';
import type { Lease } from '../../pods/ipam/lease.ts';
import { TraceCells, type TraceCellsPort } from './trace-cells.ts';

const { node, pods, peers } = exampleScene;
const wanted = encodeBridgeEntries(ownerOf('node'), { ...nothing, ...compileScene(exampleScene) }) as Map<BridgeKey, BridgeValue>;
const signal = AbortSignal.timeout(60_000);

const leases = pods.map(
  ({ mac, addresses, ofPort }, at) =>
    ({
      ...{ containerId: `c${at}`, ifName: 'eth0', pod: { namespace: 'shop', name: `web-${at}` } },
      ...{
        state: 'allocated',
        serial: at,
        mac,
        netns: '',
        addresses: addresses.map((ip) => ({ ip })),
        attached: { hostIfName: `h${ofPort}` },
      },
    }) as unknown as Lease,
);

/** Agent whose bridge lacks some flows. */
function cellsOf(isMissing: (flow: Flow['table']) => boolean) {
  const setting = { everyMs: 10_000 };
  const missing = { now: isMissing };
  const port = {
    config: { nodeName: 'n1' },
    openflow: {
      dumpFlows: ({ table }: { readonly table?: number }, take: (flow: FlowStats) => void) => {
        for (const [key, value] of wanted) {
          const id = tableOfKey(key);
          if (id === undefined || id !== table || missing.now(tableName(id) ?? 'classify')) continue;
          take(decodeFlowEntry(key, value) as unknown as FlowStats);
        }
        return Promise.resolve();
      },
      dumpGroups: () => Promise.resolve([]),
    },
    nodeState: { bridge: { keys: () => wanted.keys(), wanted: (key: BridgeKey) => wanted.get(key) } },
    reader: { interfaceState: (name: string) => ({ ofPort: Number(name.slice(1)) }) },
    peers: { get: () => undefined, peers: () => [] },
    sources: { policyPods: { replica: { get: () => undefined, entries: () => [] } }, services: { replica: { get: () => undefined } } },
    running: () => ({ ipam: { leases: () => leases }, environment: node, peers: { intents: () => peers, modesOf: () => [] } }),
  } as unknown as TraceCellsPort;
  return { missing, setting, cells: new TraceCells({ port, everyMs: () => setting.everyMs, changeMs: 1 }) };
}

it('finds no difference where the bridge has the flows, and costs at most a thousandth of a CPU', async () => {
  const { cells } = cellsOf(() => false);
  for (let count = 0; count < 30; count++) expect((await cells.run(signal)).problems).toEqual([]);
  expect(cells.everyMs).toBeGreaterThanOrEqual(10_000);
});

it('names the sender and the table of a missing flow after the second reading, until the flow is there', async () => {
  const { cells, missing } = cellsOf((table) => table === 'state');
  const { problems } = await cells.run(signal);
  expect(problems).toEqual([
    expect.objectContaining({
      kind: 'trace.disagrees',
      about: expect.stringMatching(/^shop\/web-\d state$/),
      remedy: expect.stringMatching(/^seinectl trace shop\/web-/),
    }),
  ]);
  missing.now = () => false;
  expect((await cells.run(signal)).problems).toEqual([]);
});

it('is turned off and on while it runs, and forgets its problems', async () => {
  const { cells, setting } = cellsOf((table) => table === 'state');
  expect((await cells.run(signal)).problems).toHaveLength(1);
  setting.everyMs = 0;
  expect((await cells.run(signal)).problems).toEqual([]);
  expect(cells.everyMs).toBe(10_000);
  setting.everyMs = 60_000;
  expect(cells.everyMs).toBe(10_000); // from the next comparison on
  expect((await cells.run(signal)).problems).toHaveLength(1);
  expect(cells.everyMs).toBeGreaterThanOrEqual(60_000);
});

it('reports no change that is over at the second reading', async () => {
  const { cells, missing } = cellsOf((table) => table === 'state');
  let reads = 0;
  missing.now = (table) => table === 'state' && reads++ === 0;
  expect((await cells.run(signal)).problems).toEqual([]);
});
