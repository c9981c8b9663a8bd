import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseIp } from '../../src/base/net/ip.ts';
import { ScriptedStates, stateBits } from '../../src/dataplane/flow-walk/assumed-tracking.ts';
import { walkPacket } from '../../src/dataplane/flow-walk/flow-walk.ts';
import { features, generation } from '../../src/dataplane/pipeline/cookie.ts';
import { ctMark } from '../../src/dataplane/pipeline/fields.ts';
import type { CtState, Group } from '../../src/dataplane/pipeline/flow.ts';
import { type PipelineTableName, tableName } from '../../src/dataplane/pipeline/tables.ts';
import { ScriptedTracker } from '../../src/dataplane/switch-model/connection-tracker.ts';
import { SwitchModel } from '../../src/dataplane/switch-model/switch-model.ts';
import { serviceIntents } from '../../src/services/compile/intent.ts';
import { answerFor } from '../../src/services/compile/service-intent.ts';
import { type Arrival, conversations } from '../model/conversation.ts';
import { forgeries } from '../model/forgeries.ts';
import { compileScene, exampleScene } from '../model/scene.ts';
import { modelRuns } from '../support/model-runs.ts';
import { PacketBench } from '../support/packet-bench.ts';
import { type Pretence, type Traced, trace } from '../support/trace.ts';
import { installedFlows, walkFieldsOf } from '../support/walk-fields.ts';

const { node, pods, services, proxying } = exampleScene;
const [pod] = pods;
/** Cookies of generation and feature, with any owner. */
const everythingLearned = `cookie=0x${((BigInt(generation) << 48n) | (BigInt(features.learned) << 40n)).toString(16)}/0xffffff0000000000`;

/** Number of packets of each test; `npm run test:random -- --only models,walk` has more. */
const traces = Number(process.env['SEINE_TEST_TRACES'] ?? modelRuns(1_500));
const seed = process.env['SEINE_TEST_SEED'];

/** Number of slots of a group with few buckets. */
const hashes = Array.from({ length: 64 }, (_, index) => index + 1);

/** Targets of pods at cluster addresses. With affinity, each gets one endpoint of several, which is for another test. */
function clusterAddresses() {
  return services
    .filter(({ service }) => service.affinitySeconds === undefined)
    .flatMap(({ service, slices }) => serviceIntents(service, slices, proxying).map((intent) => ({ service, intent })))
    .flatMap(({ service: { name }, intent }) => {
      const [address] = intent.addresses;
      const answer = answerFor(intent, 'cluster', 'pod');
      return address && answer.do === 'balance'
        ? [{ name: `${name} ${intent.family}`, ...address, transport: intent.transport, endpoints: answer.endpoints }]
        : [];
    });
}

/** Tables and output ports of a packet in the model: one answer for each choice of groups. */
function predictions({ inPort, packet }: Arrival, { states, ctMark: mark }: Pretence): string[] {
  const { flows, groups } = compileScene(exampleScene);
  const predict = (choice: number): string => {
    const choose = ({ buckets }: Group) => choice % buckets.length;
    const tracker = new ScriptedTracker(states.map((state) => new Set<CtState>(state)));
    const walk = new SwitchModel({ flows, groups, tracker, choose, tunnelPort: node.tunnel.ofPort }).receive(inPort, packet, {
      ctMark: mark,
    });
    const ports = walk.outputs.flatMap(({ to }) => (typeof to === 'number' && to !== inPort ? [to] : []));
    return described(walk.tables, ports);
  };
  return [0, 1, 2, 3, 4].map(predict);
}

const installed = installedFlows(compileScene(exampleScene));

/** Tables and output ports of a packet in the interpreter of the flows' bytes, as `predictions` has them. */
async function interpretations({ inPort, packet }: Arrival, { states, ctMark: mark }: Pretence): Promise<string[]> {
  const interpret = async (choice: number): Promise<string> => {
    const numbers = states.map((state) => state.reduce((sum, bit) => sum | stateBits[bit], 0));
    const tracking = new ScriptedStates(numbers);
    const fields = { ...walkFieldsOf(inPort, packet), ct_mark: mark };
    const { hops, outputs } = await walkPacket(installed, fields, { tracking, choose: (_, buckets) => choice % buckets });
    const ports = outputs.flatMap(({ to }) => (typeof to === 'number' ? [to] : []));
    return described(
      hops.map(({ table }) => tableName(table) ?? 'classify'),
      ports,
    );
  };
  return await Promise.all([0, 1, 2, 3, 4].map(interpret));
}

function described(tables: readonly PipelineTableName[], ports: readonly number[]): string {
  return `${tables.join(' ')} → ${ports.join(' ')}`;
}

/** An output to the port of arrival is printed as a word, not as a number. */
function happened({ tables, outputs }: Traced, { inPort }: Arrival): string {
  return described(
    tables,
    outputs.filter((port) => port !== inPort),
  );
}

const states = fc.array(
  fc.constantFrom<readonly CtState[]>(['trk', 'new'], ['trk', 'est'], ['trk', 'est', 'rpl'], ['trk', 'inv'], ['trk', 'new', 'rel']),
  { maxLength: 5 },
);
const known = fc.constantFrom(
  0,
  ctMark.service('yes').value,
  ctMark.service('yes').value + ctMark.snat('yes').value + ctMark.hairpin('yes').value,
);

describe('ofproto/trace and the model agree', () => {
  let bench: PacketBench;
  beforeAll(async () => {
    bench = await PacketBench.start(exampleScene);
  });
  afterAll(async () => bench.stop());

  it.each([
    ['of conversations', conversations(exampleScene).map(({ opening }) => opening)],
    ['of lies', forgeries(exampleScene)],
  ])('about the path of packets %s, in any conntrack state', { timeout: traces * 200 }, async (_, arrivals) => {
    const runs = fc.asyncProperty(arrivals, states, known, fc.constantFrom(...hashes), async (arrival, script, mark, dpHash) => {
      const pretence = { states: script, ctMark: mark, dpHash };
      const traced = await trace(bench.control, arrival, pretence);
      const interpreted = await interpretations(arrival, pretence);
      if (!interpreted.includes(happened(traced, arrival)))
        throw new Error(`the interpreter: ${interpreted[0]}\nbut\n${happened(traced, arrival)}\n${traced.text}`);
      if (!predictions(arrival, pretence).includes(happened(traced, arrival)))
        throw new Error(`${predictions(arrival, pretence)[0]}\nbut\n${happened(traced, arrival)}\n${traced.text}`);
    });
    await fc.assert(runs, { numRuns: traces, ...(seed !== undefined && { seed: Number(seed) }) });
  });

  it.each(clusterAddresses())('that $name forwards to its endpoints and to nothing else', async ({ ip, port, transport, endpoints }) => {
    const source = pod?.addresses.find(({ family }) => family === ip.family) ?? parseIp('::');
    const ports = { portSrc: 5000, portDst: port, ...(transport === 'tcp' ? { tcpFlags: 'syn' as const } : {}) };
    const packet = { ethSrc: pod?.mac ?? node.gateway.mac, ethDst: node.gateway.mac, payload: ip.family, protocol: transport };
    const arrival = { inPort: pod?.ofPort ?? 0, packet: { ...packet, ...ports, ipSrc: source, ipDst: ip, ttl: 64 } };
    const reached = new Set<string>();
    for (const dpHash of hashes) {
      const { text } = await trace(bench.control, arrival, { states: [], ctMark: 0, dpHash });
      for (const [, translation = ''] of text.matchAll(/nat\(dst=([^)]+)\)/g)) reached.add(translation);
    }
    expect([...reached].toSorted()).toEqual(
      endpoints.map((to) => (to.ip.family === 'ipv6' ? `[${to.ip.text}]:${to.port}` : `${to.ip.text}:${to.port}`)).toSorted(),
    );
  });

  it('and leave nothing behind in OVS', async () => {
    expect(await bench.control.run('dpctl/dump-conntrack')).toBe('');
    expect(bench.ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', everythingLearned)).not.toContain('actions=');
  });
});
