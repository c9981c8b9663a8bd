import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { compilePod, type PodIntent, type RateLimit } from '../../src/dataplane/compile/compile-pod.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { learnedCookie, ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { drop, type Flow, goto, group } from '../../src/dataplane/pipeline/flow.ts';
import { tableName } from '../../src/dataplane/pipeline/tables.ts';
import {
  type BridgeKey,
  type BridgeValue,
  decodeFlowEntry,
  encodeBridgeEntries,
  isFlowKey,
  isGroupKey,
} from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { BridgeTarget } from '../../src/dataplane/targets/bridge/bridge-target.ts';
import { LearnedFlows } from '../../src/dataplane/targets/bridge/learned-flows.ts';
import { OpenFlowConnection } from '../../src/openflow/connection/connection.ts';
import { exampleScene, wantedByOwner } from '../model/scene.ts';
import { examplePods } from '../support/example-node.ts';
import { startSwitch, type TestSwitch } from '../support/open-vswitch.ts';
import { type Specimen, targetContract } from './target.ts';

const [firstPod, limitedPod] = examplePods as [PodIntent, PodIntent & { readonly egress: RateLimit }];
/** Meter that no flow uses. */
const meter = { id: 9, rate: 1_000, burst: 100 };

function everything(): Map<BridgeKey, BridgeValue> {
  return new Map([...wantedByOwner(exampleScene)].flatMap(([owner, wanted]) => [...encodeBridgeEntries(owner, wanted)]));
}

/** Text for messages of failed assertions. */
function words(key: BridgeKey, value: BridgeValue | undefined): string {
  if (!isFlowKey(key) || value === undefined) return Buffer.from(key, 'latin1').toString('hex');
  const { table, priority, match, instructions } = decodeFlowEntry(key, value);
  return `${tableName(table)} ${priority} ${Buffer.from(match).toString('hex')} → ${Buffer.from(instructions).toString('hex')}`;
}

async function openBridge(): Promise<Specimen<BridgeKey, BridgeValue>> {
  const stop = new AbortController();
  const ovs = startSwitch();
  ovs.exec('ovs-vsctl', 'add-br', 'br-int', '--', 'set', 'bridge', 'br-int', 'datapath_type=netdev', 'fail_mode=secure');
  const connection = new OpenFlowConnection({ endpoint: `unix:${ovs.runDir}/br-int.mgmt` });
  const running = connection.run(stop.signal);
  await connection.untilUp(stop.signal);
  const ofctl = (...words: readonly string[]): string => ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', ...words);
  const learned = `cookie=0x${learnedCookie.toString(16)}`;
  const learn = (): void =>
    void ofctl('add-flow', 'br-int', `${learned},table=120,idle_timeout=600,priority=100,tun_src=192.0.2.1,actions=drop`);
  const all = everything();
  const base = new Map([...all].filter(([key]) => !isFlowKey(key)));
  const [route] = compilePod(firstPod).flows.filter(({ table }) => table === 'route');
  if (!route) throw new Error('a pod without a route');
  const another = ownerOf('pod', 'another');
  learn();
  return {
    target: new BridgeTarget(connection, new LearnedFlows()),
    equal: (a, b) => a === b,
    base,
    entries: new Map([...[...all].filter(([key]) => isFlowKey(key)), ...encodeBridgeEntries(another, { ...nothing, meters: [meter] })]),
    changes: encodeBridgeEntries(another, { ...nothing, flows: compilePod(firstPod).flows, meters: [{ ...meter, rate: 2_000 }] }),
    // Its own meter, which must not remain.
    impossible: encodeBridgeEntries(ownerOf('pod', 'bad'), {
      ...nothing,
      flows: [{ ...route, priority: 7, steps: [group(4711)] }],
      meters: [{ id: 4711, rate: 1, burst: 100 }],
    }),
    dependence: {
      needed: encodeBridgeEntries(another, { ...nothing, groups: [{ id: 4712, buckets: [{ weight: 1, steps: drop }] }] }),
      dependent: encodeBridgeEntries(another, { ...nothing, flows: [{ ...route, priority: 8, steps: [group(4712)] }] }),
    },
    foreign: () => ofctl('--no-stats', 'dump-flows', 'br-int', `${learned}/-1`).replace(/^.*reply.*\n/, ''),
    disturb: async () => {
      ofctl('mod-flows', 'br-int', 'table=56,actions=drop');
      ofctl('add-flow', 'br-int', 'table=56,priority=3,actions=drop');
      ofctl('mod-meter', 'br-int', `meter=${meter.id},kbps,burst,bands=type=drop,rate=7,burst_size=7`);
    },
    wipe: async () => {
      ofctl('del-flows', 'br-int');
      ofctl('del-groups', 'br-int');
      ofctl('del-meters', 'br-int');
    },
    die: () => ovs.killVswitchd(),
    revive: async () => {
      ovs.startVswitchd();
      learn();
    },
    close: async () => {
      stop.abort();
      await running;
      await ovs.stop();
    },
  };
}

targetContract('BridgeTarget', openBridge, { refusal: 'all', dependence: 'enforced' });

describe('the bridge of a real Open vSwitch', () => {
  const stop = new AbortController();
  let ovs: TestSwitch;
  let target: BridgeTarget;
  let counters: () => number;

  beforeAll(() => {
    ovs = startSwitch();
    ovs.exec('ovs-vsctl', 'add-br', 'br-int', '--', 'set', 'bridge', 'br-int', 'datapath_type=netdev', 'fail_mode=secure');
    const connection = new OpenFlowConnection({ endpoint: `unix:${ovs.runDir}/br-int.mgmt` });
    void connection.run(stop.signal);
    target = new BridgeTarget(connection);
    counters = () => connection.counters.meterMods;
  });
  afterAll(async () => {
    stop.abort();
    await ovs.stop();
  });

  it('shows added entries, byte for byte', async () => {
    const wanted = everything();
    const before = await target.observe(stop.signal);
    await target.apply({ put: wanted, remove: new Set(before.keys()) }, stop.signal);
    const held = await target.observe(stop.signal);
    const differ = [...wanted]
      .filter(([key, value]) => held.get(key) !== value)
      .map(([key, value]) => [words(key, value), words(key, held.get(key))]);
    expect(differ).toEqual([]);
    expect([...held.keys()].filter((key) => !wanted.has(key)).map((key) => words(key, held.get(key)))).toEqual([]);
    expect(held.size).toBe(wanted.size);
  });

  it('tries a meter as a new one only once, and changes it without interrupting its flow', async () => {
    const before = counters();
    const { ofPort, egress } = limitedPod;
    const half = compilePod({ ...limitedPod, egress: { ...egress, burst: egress.burst / 2 } });
    const puts = [...encodeBridgeEntries(ownerOf('pod', 'limited'), { ...nothing, meters: half.meters })];
    await target.apply({ put: new Map(puts), remove: new Set() }, stop.signal);
    const held = await target.observe(stop.signal);
    expect(puts.map(([key]) => held.get(key))).toEqual(puts.map(([, value]) => value));
    expect(ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', 'table=0')).toContain(`meter:${ofPort}`);
    expect(counters() - before).toBe(2 * puts.length);
    await target.apply({ put: everything(), remove: new Set() }, stop.signal);
  });

  it('creates and changes more meters at once than a refusal can name', async () => {
    const many = (from: number, to: number, rate: number) => {
      const meters = Array.from({ length: to - from }, (_, index) => ({ id: 1 + from + index, rate, burst: 100 }));
      return encodeBridgeEntries(ownerOf('pod', 'many'), { ...nothing, meters });
    };
    await target.apply({ put: many(0, 130, 7), remove: new Set() }, stop.signal);
    const all = many(0, 250, 9);
    await target.apply({ put: all, remove: new Set() }, stop.signal);
    const held = await target.observe(stop.signal);
    expect([...all].filter(([key, value]) => held.get(key) !== value)).toEqual([]);
    await target.apply({ put: new Map(), remove: new Set(all.keys()) }, stop.signal);
    expect([...(await target.observe(stop.signal)).keys()].filter((key) => all.has(key))).toEqual([]);
  });

  it('leaves nothing of a plan whose meter OVS refuses', async () => {
    const before = await target.observe(stop.signal);
    const meters = [
      { id: 5, rate: 7, burst: 100 },
      { id: 0, rate: 7, burst: 100 }, // numbers begin at 1
    ];
    const put = encodeBridgeEntries(ownerOf('pod', 'bad'), { ...nothing, meters });
    await expect(target.apply({ put, remove: new Set() }, stop.signal)).rejects.toMatchObject({ code: 'REFUSED' });
    expect((await target.observe(stop.signal)).size).toBe(before.size);
  });

  it('removes everything again', async () => {
    const held = await target.observe(stop.signal);
    await target.apply({ put: new Map(), remove: new Set(held.keys()) }, stop.signal);
    expect((await target.observe(stop.signal)).size).toBe(0);
  });

  it('applies the rest of a small plan of which a message is refused when it is sent, reports it, and waits for barriers from then on', async () => {
    const back: Flow = { table: 'route', priority: 7, match: {}, steps: [goto('classify')] };
    const flows = encodeBridgeEntries(ownerOf('pod', 'bad'), { ...nothing, flows: [...compilePod(firstPod).flows, back] });
    await expect(target.apply({ put: flows, remove: new Set() }, stop.signal)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    const rest = await target.observe(stop.signal);
    expect([...flows].flatMap(([key, value]) => (rest.get(key) === value ? [] : [words(key, value).split(' ', 2)]))).toEqual([
      ['route', '7'],
    ]);
    await target.apply({ put: new Map(), remove: new Set(rest.keys()) }, stop.signal);
    await expect(target.apply({ put: flows, remove: new Set() }, stop.signal)).rejects.toMatchObject({ code: 'REFUSED' });
    expect((await target.observe(stop.signal)).size).toBe(0);
  });

  it('changes nothing when one message of a plan is refused', async () => {
    const wanted = everything();
    const withoutGroups = new Map([...wanted].filter(([key]) => !isGroupKey(key)));
    await expect(target.apply({ put: withoutGroups, remove: new Set() }, stop.signal)).rejects.toMatchObject({ code: 'REFUSED' });
    expect((await target.observe(stop.signal)).size).toBe(0);
  });
});
