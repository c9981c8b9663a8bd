import { expect, it } from 'vitest';
import { priority } from '../../../dataplane/pipeline/flow.ts';
import { endedMeters, openedMeters } from '../../../dataplane/pipeline/well-known.ts';
import type { FlowStats } from '../../../openflow/flows/flow-stats.ts';
import { encodeMatch } from '../../../openflow/match/match.ts';
import { CopyCounts } from './copy-counts.ts';

const signal = new AbortController().signal;

/** Bridge whose flows have these counters, with the meters of port 1. */
class FakeBridge {
  flows: { readonly port: number; readonly packets: number; readonly ageMs: number; readonly priority?: number }[] = [];
  metered = 0;
  meteredEnds = 0;

  dumpFlows(_filter: unknown, visit: (entry: FlowStats) => void): Promise<void> {
    for (const { port, packets, ageMs, priority: level = priority.aboveNormal } of this.flows)
      visit({
        priority: level,
        match: encodeMatch({ in_port: port }),
        packets: BigInt(packets),
        durationNs: BigInt(ageMs) * 1_000_000n,
      } as FlowStats);
    return Promise.resolve();
  }

  dumpMeterStats() {
    return Promise.resolve([
      { id: openedMeters.first + 1, packets: 0n, bands: [{ packets: BigInt(this.metered) }] },
      { id: endedMeters.first + 1, packets: 0n, bands: [{ packets: BigInt(this.meteredEnds) }] },
      { id: 1, packets: 0n, bands: [{ packets: 99n }] },
    ]);
  }
}

function counted() {
  const bridge = new FakeBridge();
  const clock = { nowMs: 1_000 };
  const counts = new CopyCounts({ bridge, now: () => clock.nowMs });
  return { bridge, clock, counts, receive: (count: number) => Array.from({ length: count }, () => counts.received('opened', 1)) };
}

it('counts what the meter stopped, and what did not arrive, once two readings agree', async () => {
  const { bridge, clock, counts, receive } = counted();
  bridge.flows = [{ port: 1, packets: 0, ageMs: 0 }];
  expect((await counts.read(signal)).opened).toEqual({ metered: 0, queue: 0 });
  clock.nowMs += 1_000;
  [bridge.flows, bridge.metered] = [[{ port: 1, packets: 10, ageMs: 1_000 }], 3];
  receive(5);
  expect((await counts.read(signal)).opened).toEqual({ metered: 3, queue: 0 }); // two may be on their way
  receive(1);
  expect((await counts.read(signal)).opened).toEqual({ metered: 0, queue: 1 });
  expect((await counts.read(signal)).opened).toEqual({ metered: 0, queue: 0 });
});

it('leaves out what an earlier agent’s flows have counted, and counts a recreated flow from zero', async () => {
  const { bridge, clock, counts, receive } = counted();
  [bridge.flows, bridge.metered] = [[{ port: 1, packets: 500, ageMs: 60_000 }], 40];
  expect((await counts.read(signal)).opened).toEqual({ metered: 0, queue: 0 });
  clock.nowMs += 1_000;
  [bridge.flows, bridge.metered] = [[{ port: 1, packets: 4, ageMs: 10 }], 1];
  receive(2);
  expect((await counts.read(signal)).opened).toEqual({ metered: 1, queue: 0 });
  expect((await counts.read(signal)).opened).toEqual({ metered: 0, queue: 1 });
});

it('leaves out flows that copy nothing', async () => {
  const { bridge, clock, counts } = counted();
  bridge.flows = [{ port: 1, packets: 0, ageMs: 0, priority: priority.above }];
  await counts.read(signal);
  clock.nowMs += 1_000;
  bridge.flows = [{ port: 1, packets: 10, ageMs: 1_000, priority: priority.above }];
  await counts.read(signal);
  expect((await counts.read(signal)).opened).toEqual({ metered: 0, queue: 0 });
});

it('counts ends apart from openings', async () => {
  const { bridge, clock, counts } = counted();
  const flow = { port: 1, priority: priority.low };
  bridge.flows = [{ ...flow, packets: 0, ageMs: 0 }];
  await counts.read(signal);
  clock.nowMs += 1_000;
  [bridge.flows, bridge.meteredEnds] = [[{ ...flow, packets: 10, ageMs: 1_000 }], 3];
  counts.received('ended', 1);
  await counts.read(signal);
  const none = { metered: 0, queue: 0 };
  expect(await counts.read(signal)).toEqual({ opened: none, ended: { metered: 0, queue: 6 }, notSampled: 0 });
});

it('counts openings that are not in the sample', async () => {
  const { bridge, clock, counts } = counted();
  const flow = { port: 1, ageMs: 0, priority: priority.overNormal };
  bridge.flows = [{ ...flow, packets: 0 }];
  await counts.read(signal);
  clock.nowMs += 1_000;
  bridge.flows = [{ ...flow, packets: 7 }];
  expect(await counts.read(signal)).toMatchObject({ opened: { metered: 0, queue: 0 }, notSampled: 7 });
  expect((await counts.read(signal)).notSampled).toBe(0);
});

it('counts the losses of a port although copies of one that is gone were not counted by its flows', async () => {
  const { bridge, clock, counts } = counted();
  const [gone, stays] = [
    { port: 2, ageMs: 0, packets: 0 },
    { port: 1, ageMs: 0, packets: 0 },
  ];
  bridge.flows = [gone, stays];
  await counts.read(signal);
  for (let count = 0; count < 5; count++) counts.received('opened', 2); // and the pod is removed
  clock.nowMs += 1_000;
  bridge.flows = [{ ...stays, packets: 3 }];
  await counts.read(signal);
  expect((await counts.read(signal)).opened).toEqual({ metered: 0, queue: 3 });
});

it('counts all packets of flows that OVS has installed again, also if they are more than before', async () => {
  const { bridge, clock, counts, receive } = counted();
  bridge.flows = [{ port: 1, packets: 2, ageMs: 0 }];
  receive(2);
  await counts.read(signal);
  clock.nowMs += 5_000;
  bridge.flows = [{ port: 1, packets: 5, ageMs: 1_000 }];
  receive(1);
  await counts.read(signal);
  bridge.flows = [{ port: 1, packets: 5, ageMs: 1_000 }];
  expect((await counts.read(signal)).opened).toEqual({ metered: 0, queue: 4 });
});

it('counts losses after OVS was restarted, whatever its flows had counted before', async () => {
  const { bridge, clock, counts, receive } = counted();
  const flow = { port: 1, ageMs: 0 };
  bridge.flows = [{ ...flow, packets: 100 }];
  receive(100);
  await counts.read(signal);
  receive(4); // counted by flows that are gone
  clock.nowMs += 1_000;
  bridge.flows = [{ ...flow, packets: 1 }];
  await counts.read(signal);
  bridge.flows = [{ ...flow, packets: 4 }];
  await counts.read(signal);
  expect((await counts.read(signal)).opened).toEqual({ metered: 0, queue: 3 });
});

it('counts losses after other flows took the place of those of a port, whatever those had counted since the last reading', async () => {
  const { bridge, clock, counts, receive } = counted();
  bridge.flows = [{ port: 1, packets: 0, ageMs: 0 }];
  await counts.read(signal);
  receive(4); // counted by a flow that is gone
  clock.nowMs += 5_000;
  const another = { port: 1, ageMs: 1_000, priority: priority.overAboveNormal };
  bridge.flows = [{ ...another, packets: 0 }];
  await counts.read(signal);
  bridge.flows = [{ ...another, packets: 3 }];
  await counts.read(signal);
  expect((await counts.read(signal)).opened).toEqual({ metered: 0, queue: 3 });
});
