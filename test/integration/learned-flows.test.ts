import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { LoopTurns } from '../../src/base/async/loop-turns.ts';
import { addressBits, type Family, type Ip, ipFromValue } from '../../src/base/net/ip.ts';
import { compileNode } from '../../src/dataplane/compile/compile-node.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { isLearned, learnedCookie, learnedCookieOf, ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import { reg } from '../../src/dataplane/pipeline/fields.ts';
import { type Flow, load, type Step, type Transport } from '../../src/dataplane/pipeline/flow.ts';
import { tables } from '../../src/dataplane/pipeline/tables.ts';
import { encodeBridgeEntries } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { BridgeTarget } from '../../src/dataplane/targets/bridge/bridge-target.ts';
import type { CandidateFlow } from '../../src/dataplane/targets/bridge/encoding/learned-template.ts';
import { LearnedFlows } from '../../src/dataplane/targets/bridge/learned-flows.ts';
import { OpenFlowConnection } from '../../src/openflow/connection/connection.ts';
import { NodeReader } from '../../src/operations/diagnose/entries/node-reader.ts';
import { choiceOf } from '../../src/services/compile/service-groups.ts';
import { exampleNode } from '../support/example-node.ts';
import { becomeNode, type TestNode } from '../support/node-wiring.ts';
import { startSwitch, type TestSwitch } from '../support/open-vswitch.ts';

const service = ownerOf('service', 'default/web:http');
const families = ['ipv4', 'ipv6'] as const;
const transports = ['tcp', 'udp', 'sctp'] as const;

const addressOf = (family: Family): fc.Arbitrary<Ip> =>
  fc.bigInt({ min: 1n, max: (1n << BigInt(addressBits(family))) - 1n }).map((value) => ipFromValue(family, value));

/** A packet and the values of the registers at the learning steps. */
const lesson = fc.constantFrom(...families).chain((family) =>
  fc.record({
    family: fc.constant(family),
    transport: fc.constantFrom(...transports),
    from: addressOf(family),
    to: addressOf(family),
    outer: addressOf(family),
    endpoint: fc.record({ ip: addressOf(family), port: fc.integer({ min: 0, max: 0xffff }) }),
    port: fc.integer({ min: 1, max: 0xffff }),
    source: fc.constantFrom('pod' as const, 'gateway' as const, 'tunnel' as const),
    group: fc.integer({ min: 0, max: 0xffff }),
    seconds: fc.option(fc.integer({ min: 1, max: 65_535 }), { nil: undefined }),
  }),
);
type Lesson = typeof lesson extends fc.Arbitrary<infer L> ? L : never;

/** Sides of an association: one packet has only one flow per side. */
const associationSides = [
  { side: 'opener', as: 'letIn' },
  { side: 'answer', as: 'barred' },
] as const;

/** Everything that any compiler makes OVS learn, of one packet. */
function lessonFlow({ family, transport, outer, endpoint, source, group, seconds }: Lesson): Flow {
  const idle = seconds === undefined ? {} : { idleSeconds: seconds };
  const steps: Step[] = [
    { do: 'setTunSrc', ip: outer },
    ...choiceOf(endpoint, 'chosen').map(load),
    load(reg.source(source)),
    load(reg.group(group)),
    { do: 'learnUnknownTunnelPeer', family },
    { do: 'learnFragments', family },
    { do: 'learnChoice', family, transport, ...idle, cookie: learnedCookieOf(service) },
    ...(transport === 'sctp' ? associationSides.map((of): Step => ({ do: 'learnAssociation', family, ...of })) : []),
  ];
  return { table: 'classify', priority: 1, match: { payload: family, protocol: transport }, steps };
}

/** The owner of each flow that a node's own steps learn. */
function nodesOf({ transport }: Lesson): readonly string[] {
  return ['node', 'node', ...(transport === 'sctp' ? associationSides.map(() => 'node') : [])];
}

function packetOf({ family, transport, from, to, port }: Lesson): string {
  const type = family === 'ipv4' ? '0x0800' : '0x86dd';
  const protocol = { tcp: 6, udp: 17, sctp: 132 }[transport];
  const rest = family === 'ipv4' ? `proto=${protocol},tos=0,ttl=64,frag=no` : `label=0,proto=${protocol},tclass=0,hlimit=64,frag=no`;
  const flags = transport === 'tcp' ? ',tcp_flags(syn)' : '';
  const ends = `${family}(src=${from.text},dst=${to.text},${rest}),${transport}(src=40000,dst=${port})${flags}`;
  return `in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(${type}),${ends}`;
}

/** Flows that the flows of a real node and of one Service learn. */
function declared(only?: Transport): LearnedFlows {
  const learned = new LearnedFlows();
  learned.declare('node', compileNode({ ...exampleNode, blindToSctp: true }).flows);
  const some = transports.filter((each) => only === undefined || each === only);
  const steps = families.flatMap((family) =>
    some.map((transport): Step => ({ do: 'learnChoice', family, transport, cookie: learnedCookieOf(service) })),
  );
  learned.declare(service, [{ table: 'balance', priority: 1, match: {}, steps }]);
  return learned;
}

describe('flows learned by a real switch', () => {
  const stop = new AbortController();
  let ovs: TestSwitch;
  let bridge: OpenFlowConnection;

  beforeAll(async () => {
    ovs = startSwitch('--enable-dummy');
    const port = ['--', 'add-port', 'br-int', 'p1', '--', 'set', 'Interface', 'p1', 'type=dummy', 'ofport_request=1'];
    ovs.exec('ovs-vsctl', 'add-br', 'br-int', '--', 'set', 'bridge', 'br-int', 'datapath_type=dummy', 'fail_mode=secure', ...port);
    bridge = new OpenFlowConnection({ endpoint: `unix:${ovs.runDir}/br-int.mgmt` });
    void bridge.run(stop.signal);
    await bridge.untilUp(stop.signal);
  });
  afterAll(async () => {
    stop.abort();
    await ovs.stop();
  });
  afterEach(() => void ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int'));

  const ofctl = (...args: readonly string[]): string => ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', ...args);

  async function learnedNow(): Promise<CandidateFlow[]> {
    const found: CandidateFlow[] = [];
    await bridge.dumpFlows(
      {},
      (flow) => {
        const copy = { match: Uint8Array.from(flow.match), instructions: Uint8Array.from(flow.instructions) };
        if (isLearned(flow.cookie)) found.push({ ...flow, ...copy });
      },
      stop.signal,
    );
    return found;
  }

  async function teach(each: Lesson): Promise<CandidateFlow[]> {
    ofctl('del-flows', 'br-int');
    const put = encodeBridgeEntries(ownerOf('node'), { ...nothing, flows: [lessonFlow(each)] });
    await new BridgeTarget(bridge).apply({ put, remove: new Set() }, stop.signal);
    ovs.exec('ovs-appctl', 'netdev-dummy/receive', 'p1', packetOf(each));
    let found: CandidateFlow[] = [];
    await expect.poll(async () => (found = await learnedNow()).length).toBe(nodesOf(each).length + 1);
    return found;
  }

  it('are covered by the declarations of their steps, with all steps known and with none, and by no other Service’s', async () => {
    await fc.assert(
      fc.asyncProperty(lesson, async (each) => {
        const flows = await teach(each);
        const [learned, atStart] = [declared(), new LearnedFlows()];
        const other = declared(transports.find((transport) => transport !== each.transport));
        for (const known of [learned, other]) known.complete();
        expect(flows.map((flow) => [learned.covers(flow), atStart.covers(flow)])).toEqual(flows.map(() => [true, true]));
        expect(flows.map((flow) => learned.teacherOf(flow)).toSorted()).toEqual([...nodesOf(each), service]);
        expect(flows.map((flow) => other.teacherOf(flow) ?? 'none').toSorted()).toEqual([...nodesOf(each), 'none']);
      }),
      { numRuns: 25 },
    );
  });

  it('are distinguished from those with any change', async () => {
    const [taught] = fc.sample(lesson, { numRuns: 1, seed: 4 }) as [Lesson];
    const flows = await teach(taught);
    const learned = declared();
    learned.complete();
    const other = fc.record({
      at: fc.nat(),
      change: fc.constantFrom('table', 'priority', 'hardTimeout', 'cookie', 'drop', 'wider', 'longer'),
    });
    fc.assert(
      fc.property(other, fc.integer({ min: 1, max: 255 }), ({ at, change }, by) => {
        const flow = flows[at % flows.length];
        if (flow === undefined) throw new Error('nothing was learned');
        // The flow learned from an unknown tunnel peer drops already.
        fc.pre(change !== 'drop' || flow.instructions.length > 0);
        expect(learned.covers(altered(flow, change, by))).toBe(false);
      }),
    );
  });

  it('exclude flows that others add with the same cookie', async () => {
    const cookie = `cookie=0x${learnedCookie.toString(16)}`;
    const actions = fc.constantFrom(
      'drop',
      'normal',
      'local',
      'goto_table:110',
      'set_field:1->reg3,set_field:2/0xffff->reg4',
      'resubmit(,28)',
    );
    const match = fc.constantFrom(
      'ip',
      'ipv6',
      'arp',
      'udp,nw_src=10.0.0.1',
      'tcp,tp_dst=80',
      'ip,nw_frag=later',
      'tun_src=10.0.0.1,ip',
      'in_port=1',
    );
    const table = fc.constantFrom(
      ...Object.values(tables)
        .map(({ id }) => id)
        .filter((id) => id < 110),
    );
    const priority = fc.constantFrom(100, 200, 210, 65_000);
    const foreign = fc
      .tuple(table, priority, match, actions)
      .map(([id, level, what, then]) => `${cookie},table=${id},priority=${level},${what},actions=${then}`);
    for (const text of fc.sample(foreign, 40)) ofctl('add-flow', 'br-int', text);
    const added = await learnedNow();
    const learned = declared();
    expect(added.length).toBeGreaterThan(10);
    expect(added.filter((flow) => learned.covers(flow))).toEqual([]);
    learned.complete();
    expect(added.filter((flow) => learned.covers(flow))).toEqual([]);
  });
});

function altered(flow: CandidateFlow, change: string, by: number): CandidateFlow {
  switch (change) {
    case 'table':
      return { ...flow, table: (flow.table + by) % 256 };
    case 'priority':
      return { ...flow, priority: flow.priority + by };
    case 'hardTimeout':
      return { ...flow, hardTimeout: by };
    case 'cookie':
      return { ...flow, cookie: flow.cookie ^ (BigInt(by) << 48n) };
    case 'drop':
      return { ...flow, instructions: new Uint8Array(0) };
    case 'wider':
      return { ...flow, match: Uint8Array.of(0, 1, 0, 4, 0, 0, 0, 0) };
    default:
      return { ...flow, instructions: Uint8Array.from([...flow.instructions, ...new Uint8Array(8)]) };
  }
}

describe('a foreign flow with the cookie of learned flows', () => {
  let node: TestNode;
  beforeAll(async () => {
    node = await becomeNode();
  });
  afterAll(async () => {
    await node.close();
  });

  const flows = (): string => node.ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', '--no-stats', 'dump-flows', 'br-int');

  it('is reported immediately and removed, while a learned one stays', async () => {
    const { nodeState } = node.plane;
    const wanted = nodeState.want(ownerOf('node'), compileNode(exampleNode));
    await nodeState.realized(wanted, AbortSignal.timeout(10_000));
    const learned = `cookie=0x${learnedCookie.toString(16)},table=120,idle_timeout=600,priority=100,tun_src=192.0.2.9,actions=drop`;
    node.ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'add-flow', 'br-int', learned);
    const foreign = [
      'cookie=0xff0000000000,table=0,priority=65000,ip,actions=drop',
      `cookie=0x${learnedCookie.toString(16)},table=0,priority=65000,ip,actions=drop`,
    ];
    const observedMs = () => performance.now() - (nodeState.reconcilers.bridge.lastCheck?.ageMs ?? 0);
    for (const flow of foreign) {
      // Sweeps find it, too, and are four seconds apart: an earlier check was triggered by the event.
      const isReported = async (): Promise<boolean> => {
        const before = observedMs();
        node.ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'add-flow', 'br-int', flow);
        await expect.poll(flows, { timeout: 10_000 }).not.toContain('priority=65000');
        return observedMs() - before < 3_500;
      };
      await expect.poll(isReported, { timeout: 40_000 }).toBe(true);
    }
    expect(flows()).toContain('tun_src=192.0.2.9');
  });

  it('is a difference, which a learned one is not', async () => {
    const { nodeState, openflow, database } = node.plane;
    const reader = new NodeReader({ openflow, database, nodeState, turns: new LoopTurns(8) });
    const differences = async (): Promise<string[]> => {
      const found: string[] = [];
      for await (const { kind, state, actual } of await reader.differences(AbortSignal.timeout(10_000)))
        if (kind === 'flow') found.push(`${state} ${actual}`);
      return found;
    };
    nodeState.pauseRepair();
    expect(await differences()).toEqual([]);
    node.ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'add-flow', 'br-int', 'cookie=0xff0000000000,table=0,priority=65000,ip,actions=drop');
    expect(await differences()).toEqual([expect.stringMatching(/^extra cookie=0xff0000000000, .*priority=65000,ip actions=drop/)]);
    nodeState.resumeRepair();
    await expect.poll(differences, { timeout: 10_000 }).toEqual([]);
  });
});
