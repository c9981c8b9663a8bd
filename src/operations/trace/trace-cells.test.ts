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
function cellsOf(isMissing: (flow: Flow['table']) => boolean, clocks?: () => { readonly wallMs: number; readonly cpuMs: number }) {
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
  const options = { port, everyMs: () => setting.everyMs, changeMs: 1, ...(clocks && { clocks }) };
  return { missing, setting, port, cells: new TraceCells(options) };
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

it('takes its share of a CPU, and not of the time that it waits; the first comparisons compile code', async () => {
  const time = { wallMs: 0, cpuMs: 0 };
  const cost = { wallMs: 250, cpuMs: 50 };
  let isAfter = false;
  const { cells } = cellsOf(
    () => false,
    () => {
      if (isAfter) {
        time.wallMs += cost.wallMs;
        time.cpuMs += cost.cpuMs;
      }
      isAfter = !isAfter;
      return { ...time };
    },
  );
  const intervals: number[] = [];
  for (let count = 0; count < 24; count++) {
    await cells.run(signal);
    intervals.push(cells.everyMs);
    time.wallMs += cells.everyMs;
  }
  expect(intervals.slice(0, 20)).toEqual(Array(20).fill(10_000));
  for (const interval of intervals.slice(20)) expect(Math.abs(interval - 50_000)).toBeLessThan(1_000);
});

it('compares again at once after the setting changed, and not after others did', () => {
  const { cells, setting } = cellsOf(() => false);
  let checks = 0;
  cells.onChange(() => void checks++);
  cells.settingsChanged();
  expect(checks).toBe(0);
  setting.everyMs = 1_000;
  cells.settingsChanged();
  cells.settingsChanged();
  expect(checks).toBe(1);
});

it('reports a flow once, whatever connections meet it', async () => {
  const { cells } = cellsOf((table) => table === 'state');
  for (let count = 0; count < 30; count++) await cells.run(signal);
  const { problems } = await cells.run(signal);
  expect(new Set(problems.map(({ about }) => about.split(' ')[1]))).toEqual(new Set(['state']));
  expect(problems.length).toBeLessThanOrEqual(3);
  for (const { message } of problems) {
    const [, from, to] = /^packets of (\S+) to (\S+) /.exec(message) ?? [];
    expect(from).not.toBe(to);
  }
});

it('reports a flow once also if known differences have moved to it', async () => {
  const { cells, missing } = cellsOf((table) => table === 'route');
  for (let count = 0; count < 20; count++) await cells.run(signal);
  missing.now = (table) => table === 'state';
  for (let count = 0; count < 20; count++) await cells.run(signal);
  // One flow for each family.
  expect((await cells.run(signal)).problems.length).toBeLessThanOrEqual(2);
});

it('draws half of the connections from those that are recorded', async () => {
  const { port } = cellsOf((table) => table === 'state');
  const chances: number[] = [];
  const recorded = (chance: number) => {
    chances.push(chance);
    return { from: 'shop/web-0', to: '10.96.0.10', port: '4711/TCP', family: 'ipv4' };
  };
  const cells = new TraceCells({ port: { ...port, recorded }, everyMs: () => 10_000, changeMs: 1, random: () => 0.25 });
  const { problems } = await cells.run(signal);
  expect(chances).toEqual([0.25]);
  expect(problems[0]?.message).toContain('packets of shop/web-0 to 10.96.0.10 4711/TCP (ipv4)');
  const others = new TraceCells({ port: { ...port, recorded }, everyMs: () => 10_000, changeMs: 1, random: () => 0.5 });
  await others.run(signal);
  expect(chances).toHaveLength(1);
});

it('reports no change that is over at the second reading', async () => {
  const { cells, missing } = cellsOf((table) => table === 'state');
  let reads = 0;
  missing.now = (table) => table === 'state' && reads++ === 0;
  expect((await cells.run(signal)).problems).toEqual([]);
});
