import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AssumedConnections, ScriptedStates, stateBits } from '../../src/dataplane/flow-walk/assumed-tracking.ts';
import { type WalkedPacket, walkPacket } from '../../src/dataplane/flow-walk/flow-walk.ts';
import type { CtState, Flow, Step } from '../../src/dataplane/pipeline/flow.ts';
import { ConnectionTracker, ScriptedTracker, type Tracker } from '../../src/dataplane/switch-model/connection-tracker.ts';
import { installedFlows, walkFieldsOf } from '../support/walk-fields.ts';
import { type Arrival, conversations } from './conversation.ts';
import { forgeries } from './forgeries.ts';
import { compileScene, exampleScene, ofOneFamily, type Scene, withDirectPeers } from './scene.ts';
import { interpretedFate, modelledFate } from './walked-packet.ts';

/** Number of packets of each test; `npm run test:random -- --only walk` has more. */
const packets = Number(process.env['SEINE_TEST_WALK_PACKETS'] ?? 500);
/** Time limit of a test (ms), on a busy machine. */
const timeout = Math.max(60_000, packets * 20);
const seed = process.env['SEINE_TEST_SEED'];
const seeded = seed === undefined ? {} : { seed: Number(seed) };

const scenes: Readonly<Record<string, Scene>> = {
  'of both families': exampleScene,
  'of IPv6 with direct peers': withDirectPeers(ofOneFamily(exampleScene, 'ipv6'), 'all'),
  'with GRE': { ...exampleScene, node: { ...exampleScene.node, tunnel: { ...exampleScene.node.tunnel, type: 'gre', port: 0 } } },
};

const states = fc.array(
  fc.constantFrom<readonly CtState[]>(['trk', 'new'], ['trk', 'est'], ['trk', 'est', 'rpl'], ['trk', 'inv'], ['trk', 'new', 'rel']),
  { maxLength: 5 },
);

type Compiled = ReturnType<typeof compileScene>;

function model(scene: Scene, compiled: Compiled, arrival: Arrival, tracker: Tracker, choice: number): string {
  const { tables, outputs } = modelledFate(scene, compiled, arrival, { tracker, choice });
  return `${tables}\n${outputs}`;
}

function interpretation(walked: WalkedPacket, inPort: number): string {
  const { tables, outputs } = interpretedFate(walked, inPort);
  return `${tables}\n${outputs}`;
}

function numberOf(script: readonly CtState[]): number {
  return script.reduce((sum, bit) => sum | stateBits[bit], 0);
}

describe.each(Object.entries(scenes))('on a node %s the interpreter of bytes and the model agree', (_, scene) => {
  const compiled = compileScene(scene);
  const source = installedFlows(compiled);
  const arrivals = fc.oneof(
    conversations(scene).map(({ opening }) => opening),
    forgeries(scene),
  );

  it('about packets of unknown connections', { timeout }, async () => {
    const property = fc.asyncProperty(arrivals, fc.nat({ max: 7 }), async ({ inPort, packet }, choice) => {
      const expected = model(scene, compiled, { inPort, packet }, new ConnectionTracker('userspace'), choice);
      const walked = await walkPacket(source, walkFieldsOf(inPort, packet), {
        tracking: new AssumedConnections(),
        choose: (__, buckets) => choice % buckets,
      });
      expect(interpretation(walked, inPort)).toBe(expected);
    });
    await fc.assert(property, { numRuns: packets, ...seeded });
  });

  it('about packets in any state of connection tracking', { timeout }, async () => {
    const property = fc.asyncProperty(arrivals, states, fc.nat({ max: 7 }), async ({ inPort, packet }, script, choice) => {
      const tracker = new ScriptedTracker(script.map((state) => new Set(state)));
      const expected = model(scene, compiled, { inPort, packet }, tracker, choice);
      const walked = await walkPacket(source, walkFieldsOf(inPort, packet), {
        tracking: new ScriptedStates(script.map(numberOf)),
        choose: (__, buckets) => choice % buckets,
      });
      expect(interpretation(walked, inPort)).toBe(expected);
    });
    await fc.assert(property, { numRuns: packets, ...seeded });
  });
});

/** Changes of a bridge's flows, each of which an interpreter of another bridge would not notice. */
const faults: Readonly<Record<string, (compiled: Compiled) => Compiled>> = {
  'a missing route': without(({ table, match }) => table === 'route' && match.ipDst !== undefined),
  'a missing entry flow': without(({ table, priority: of }) => table === 'egressEntry' && of > 0),
  'a missing translation': without(({ table, priority: of }) => table === 'dnat' && of > 0),
  'a missing output port': without(({ table, priority: of }) => table === 'switch' && of > 0),
  'another TTL': changed((step) => (step.do === 'decTtl' ? [] : [step])),
  'another tunnel destination': changed((step) => (step.do === 'setTunDst' ? [] : [step])),
  'another register': changed((step) => (step.do === 'load' && step.mark.field === 'destination' ? [] : [step])),
};

function without(isLost: (flow: Flow) => boolean): (compiled: Compiled) => Compiled {
  return ({ flows, groups }) => ({ groups, flows: flows.filter((flow) => !isLost(flow)) });
}

function changed(change: (step: Step) => readonly Step[]): (compiled: Compiled) => Compiled {
  return ({ flows, groups }) => ({
    groups,
    flows: flows.map(({ table, priority, match, steps }) => ({ table, priority, match, steps: steps.flatMap(change) })),
  });
}

it.each(Object.entries(faults))('the comparison detects %s', async (_, fault) => {
  const compiled = compileScene(exampleScene);
  const source = installedFlows(fault(compiled));
  const property = fc.asyncProperty(conversations(exampleScene), async ({ opening: { inPort, packet } }) => {
    const expected = model(exampleScene, compiled, { inPort, packet }, new ConnectionTracker('userspace'), 0);
    const walked = await walkPacket(source, walkFieldsOf(inPort, packet), { tracking: new AssumedConnections() });
    return interpretation(walked, inPort) === expected;
  });
  expect((await fc.check(property, { seed: 11, numRuns: 500, endOnFailure: true })).failed).toBe(true);
});
