import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AssumedConnections, ScriptedStates, stateBits } from '../../src/dataplane/flow-walk/assumed-tracking.ts';
import { type PacketOutput, type WalkedPacket, walkPacket } from '../../src/dataplane/flow-walk/flow-walk.ts';
import type { KnownField } from '../../src/dataplane/flow-walk/packet-state.ts';
import type { CtState, Flow, Group, Step } from '../../src/dataplane/pipeline/flow.ts';
import { tableName } from '../../src/dataplane/pipeline/tables.ts';
import { packetInReason } from '../../src/dataplane/pipeline/well-known.ts';
import { ConnectionTracker, ScriptedTracker, type Tracker } from '../../src/dataplane/switch-model/connection-tracker.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import { type Output, SwitchModel } from '../../src/dataplane/switch-model/switch-model.ts';
import { installedFlows, leavingFields, walkFieldsOf } from '../support/walk-fields.ts';
import { type Arrival, conversations } from './conversation.ts';
import { forgeries } from './forgeries.ts';
import { compileScene, exampleScene, ofOneFamily, type Scene, withDirectPeers } from './scene.ts';

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

/** Fields that a receiver sees. */
const compared = [
  ...(['eth_src', 'eth_dst', 'ip_src', 'ip_dst', 'ipv6_src', 'ipv6_dst', 'nw_ttl', 'tcp_dst', 'udp_dst', 'sctp_dst'] as const),
  ...(['arp_op', 'arp_spa', 'arp_tpa', 'arp_sha', 'arp_tha'] as const),
];

const tunnelled = ['tun_src', 'tun_dst', 'tun_ipv6_src', 'tun_ipv6_dst'] as const;

function modelled(output: Output): string {
  const { to, packet } = output;
  return `${to}: ${fieldsOf(packet, to === exampleScene.node.tunnel.ofPort ? [...compared, ...tunnelled] : compared)}`;
}

function fieldsOf(packet: Packet, names: readonly KnownField[]): string {
  const values = walkFieldsOf(0, packet);
  return names.map((name) => `${name}=${BigInt(values[name] ?? 0n)}`).join(' ');
}

function interpreted({ to, packet }: PacketOutput, inPort: number): string {
  const reason = (userdata: Uint8Array) => Object.entries(packetInReason).find(([, number]) => number === userdata[0])?.[0];
  const port = typeof to === 'object' ? `agent: ${reason(to.agent)}` : to === 'inPort' ? inPort : to === 'learning' ? 'flood' : to;
  // At other ports a packet leaves without its outer addresses.
  const outer = to === exampleScene.node.tunnel.ofPort ? tunnelled : [];
  return `${port}: ${leavingFields(packet, [...compared, ...outer])}`;
}

type Compiled = ReturnType<typeof compileScene>;

function model(scene: Scene, compiled: Compiled, { inPort, packet }: Arrival, tracker: Tracker, choice: number): string {
  const choose = ({ buckets }: Group) => choice % buckets.length;
  const walk = new SwitchModel({ ...compiled, tracker, choose, tunnelPort: scene.node.tunnel.ofPort }).receive(inPort, packet);
  return [walk.tables.join(' '), ...walk.outputs.map(modelled)].join('\n');
}

function interpretation({ hops, outputs, unreadable }: WalkedPacket, inPort: number): string {
  if (unreadable !== undefined) return unreadable;
  return [hops.map(({ table }) => tableName(table)).join(' '), ...outputs.map((each) => interpreted(each, inPort))].join('\n');
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
