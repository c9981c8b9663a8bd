import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeInstructions, encodeInstructions } from '../../src/openflow/flows/instructions.ts';
import type { Group } from '../../src/openflow/groups/group.ts';
import { encodeMatch } from '../../src/openflow/match/match.ts';
import { decodeMessage, encodeMessage, type Message } from '../../src/openflow/message.ts';
import { type Meter, meterFlag } from '../../src/openflow/meter.ts';
import { ALL_TABLES, OPENFLOW_13, OPENFLOW_15, ofGroup, ofPort, type Version } from '../../src/openflow/protocol.ts';
import { printFlow } from '../../src/openflow/text/flow-text.ts';
import { printGroup } from '../../src/openflow/text/group-text.ts';
import { printMessage } from '../../src/openflow/text/message-text.ts';
import { printMeterSpec } from '../../src/openflow/text/meter-text.ts';
import { encodeParsedFlow, parseFlow } from '../../src/openflow/text/parse-flow.ts';
import { parseMeter } from '../../src/openflow/text/parse-meter.ts';
import { linesOf, OpenFlowBridge } from '../support/openflow-bridge.ts';
import { modOf, type RandomFlow, randomFlow } from '../support/openflow-flows.ts';
import { OpenFlowPeer } from '../support/openflow-peer.ts';

const runs = Number(process.env['SEINE_FC_RUNS'] ?? 15);
let bridge: OpenFlowBridge;

beforeAll(() => {
  bridge = new OpenFlowBridge();
  bridge.mapTunnelOption();
});
afterAll(() => bridge.stop());

const everything = encodeMatch({});

/** Output of `ovs-ofctl diff-flows`, which exits with 2 if there are differences. */
function diffFlows(version: Version, file: string): string[] {
  try {
    return bridge.ofctlLines(version, 'diff-flows', 'br-int', file);
  } catch (error) {
    if (error instanceof Error && 'status' in error && error.status === 2 && 'stdout' in error) return linesOf(String(error.stdout));
    throw error;
  }
}

/** In the tool's text, and so in ours, the mask of `tun_gbp_flags` is lost, and two actions are `CONTROLLER:65535`. */
function keepsAll(text: string): boolean {
  return !/tun_gbp_flags=|CONTROLLER:/.test(text);
}

/**
 * Reports whether the tool reads a text correctly. It misreads some of its own output: masks that begin with digits are prefix lengths to
 * it, and it reads half a mask of `nw_frag` with six bits more.
 */
function readable(text: string): boolean {
  return !/\/\d[0-9a-f]*:|nw_frag=(yes|not_later)/.test(text);
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

function shown(value: unknown): string {
  return JSON.stringify(value, (_key, each) => (typeof each === 'bigint' ? String(each) : each));
}

describe.each<Version>([OPENFLOW_13, OPENFLOW_15])('a real switch in version %d', (version) => {
  let peer: OpenFlowPeer;
  beforeAll(async () => {
    peer = await OpenFlowPeer.connect(`${bridge.ovs.runDir}/br-int.mgmt`, version);
  });
  afterAll(() => peer.close());

  const clear = (): Message[] => [
    {
      kind: 'flowMod',
      version,
      xid: 1,
      body: { command: 'delete', table: ALL_TABLES, priority: 0, match: everything, instructions: new Uint8Array(0) },
    },
    { kind: 'groupMod', version, xid: 2, body: { command: 'delete', id: ofGroup.all, type: 'all', buckets: [] } },
    { kind: 'meterMod', version, xid: 3, body: { command: 'delete', id: 0xffff_ffff, flags: 0, bands: [] } },
  ];

  async function install(messages: readonly Message[]): Promise<void> {
    const answers = await peer.ask(...clear(), ...messages);
    expect(answers.map((answer) => printMessage(answer))).toEqual([]);
  }

  function add(flow: RandomFlow, priority: number): Message {
    return { kind: 'flowMod', version, xid: 100 + priority, body: modOf(flow, priority, version) };
  }

  it('has random flows as we sent them, and prints them like us', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(randomFlow, { minLength: 30, maxLength: 30 }), async (flows) => {
        await install(flows.map(add));
        const filter = { table: ALL_TABLES, outPort: ofPort.any, outGroup: ofGroup.any, cookie: 0n, cookieMask: 0n, match: everything };
        const replies = await peer.ask({ kind: 'flowRequest', version, xid: 9, body: filter });
        const held = replies.flatMap((reply) => (reply.kind === 'flowReply' ? reply.body.flows : []));
        expect(held).toHaveLength(flows.length);
        for (const entry of held) {
          const flow = flows[entry.priority];
          if (flow === undefined) throw new Error(`unexpected priority ${entry.priority}`);
          expect(hex(entry.match), shown(flow.match)).toBe(hex(encodeMatch(flow.match, version)));
          expect(hex(entry.instructions), shown(flow.instructions)).toBe(hex(encodeInstructions(flow.instructions, version)));
          expect(decodeInstructions(entry.instructions, version)).not.toHaveProperty('unknown');
        }
        const ours = held.map((entry) => printFlow(entry, {}, version)).toSorted();
        expect(ours).toEqual(bridge.ofctlLines(version, '--no-stats', 'dump-flows', 'br-int').toSorted());
        const whole = held.filter((entry) => keepsAll(printFlow(entry, {}, version)));
        const again = whole.map((entry) => encodeParsedFlow(parseFlow(printFlow(entry, {}, version)), 'add', version));
        expect(again.map((mod) => hex(mod.match))).toEqual(whole.map((entry) => hex(entry.match)));
        expect(again.map((mod) => hex(mod.instructions))).toEqual(whole.map((entry) => hex(entry.instructions)));
        const file = join(bridge.ovs.runDir, 'flows.txt');
        writeFileSync(file, `${ours.filter(readable).join('\n')}\n`);
        const differences = diffFlows(version, file);
        expect(differences.filter((text) => keepsAll(text) && readable(text))).toEqual([]);
      }),
      { numRuns: runs },
    );
  });

  it('has random groups as we sent them, and prints them like us', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(randomGroup(version), { selector: ({ id }) => id, maxLength: 8 }), async (groups) => {
        await install(groups.map((group, index) => ({ kind: 'groupMod', version, xid: index, body: { command: 'add', ...group } })));
        const replies = await peer.ask({ kind: 'groupDescRequest', version, xid: 9, body: { group: ofGroup.all } });
        const held = replies.flatMap((reply) => (reply.kind === 'groupDescReply' ? reply.body.groups : []));
        const byId = (a: Group, b: Group) => a.id - b.id;
        expect(held.toSorted(byId)).toEqual(groups.toSorted(byId));
        const print = (group: Group) =>
          version === OPENFLOW_13 ? printGroup(group).replaceAll(/bucket=bucket_id:\d+,/g, 'bucket=') : printGroup(group);
        expect(held.map(print).toSorted()).toEqual(bridge.ofctlLines(version, 'dump-groups', 'br-int').slice(1).toSorted());
      }),
      { numRuns: runs },
    );
  });

  it('has random meters as we sent them, and reads our text of them', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(randomMeter, { selector: ({ id }) => id, maxLength: 5 }), async (meters) => {
        await install(meters.map((meter, index) => ({ kind: 'meterMod', version, xid: index, body: { command: 'add', ...meter } })));
        const replies = await peer.ask({ kind: 'meterDescRequest', version, xid: 9, body: { meter: 0xffff_ffff } });
        const held = replies.flatMap((reply) => (reply.kind === 'meterDescReply' ? reply.body.meters : []));
        const byId = (a: Meter, b: Meter) => a.id - b.id;
        expect(held.toSorted(byId)).toEqual(meters.toSorted(byId));
        const [first] = meters;
        if (first === undefined) return;
        expect(parseMeter(printMeterSpec(first))).toEqual(first);
        bridge.ofctlLines(version, 'mod-meter', 'br-int', printMeterSpec(first));
        expect(bridge.ofctlLines(version, 'dump-meter', 'br-int', `meter=${first.id}`).join(' ')).toContain(`meter=${first.id}`);
      }),
      { numRuns: Math.ceil(runs / 3) },
    );
  });

  it('answers every request, and its answers encode to the received bytes', async () => {
    const empty = [
      'descRequest',
      'tableStatsRequest',
      'groupFeaturesRequest',
      'meterFeaturesRequest',
      'featuresRequest',
      'getConfigRequest',
      'getAsyncRequest',
      'tlvTableRequest',
    ] as const;
    const asked: Message[] = [
      ...empty.map((kind): Message => ({ kind, version, xid: 1, body: {} }) as Message), // each of them has an empty body
      { kind: 'tableFeaturesRequest', version, xid: 2, body: { tables: [] } },
      { kind: 'portDescRequest', version, xid: 3, body: { port: ofPort.any } },
      { kind: 'portStatsRequest', version, xid: 4, body: { port: ofPort.any } },
      { kind: 'queueStatsRequest', version, xid: 5, body: { port: ofPort.any, queue: 0xffff_ffff } },
      { kind: 'groupStatsRequest', version, xid: 6, body: { group: ofGroup.all } },
      { kind: 'meterStatsRequest', version, xid: 7, body: { meter: 0xffff_ffff } },
      { kind: 'roleRequest', version, xid: 8, body: { role: 'primary', shortId: 0, generation: 5n } },
      ...(version === OPENFLOW_15 ? [{ kind: 'tableDescRequest', version, xid: 10, body: {} } as const] : []),
    ];
    const came = await peer.exchange(asked.map(encodeMessage));
    const answers = came.map(decodeMessage);
    expect(answers.map(({ kind }) => kind)).not.toContain('unknown');
    expect(answers.filter(({ kind }) => kind === 'error').map((each) => printMessage(each))).toEqual([]);
    for (const [index, bytes] of came.entries()) {
      const answer = answers[index];
      expect(answer && hex(encodeMessage(answer))).toBe(hex(bytes));
    }
    expect(new Set(answers.map(({ kind }) => kind)).size).toBe(asked.length);
  });
});

/** Groups as returned by OVS. */
function randomGroup(version: Version): fc.Arbitrary<Group> {
  const actions = fc.constantFrom<Group['buckets'][number]['actions']>(
    [{ kind: 'output', port: 1 }],
    [
      { kind: 'setField', field: 'reg0', value: 7 },
      { kind: 'output', port: 2 },
    ],
    [{ kind: 'resubmit', table: 15 }],
    [
      {
        kind: 'ct',
        commit: true,
        zone: 5,
        table: 9,
        nat: { direction: 'dst', addresses: { family: 'ipv4', first: 0x0a000001 }, ports: { first: 80 } },
        exec: [],
      },
    ],
  );
  const ids = (buckets: readonly Omit<Group['buckets'][number], 'id'>[]) => buckets.map((bucket, id) => ({ id, ...bucket }));
  const id = fc.integer({ min: 1, max: 0xffff_ff00 });
  const plain = fc.array(fc.record({ actions }), { maxLength: 4 }).map(ids);
  const weighted = fc.array(fc.record({ weight: fc.integer({ min: 1, max: 0xffff }), actions }), { maxLength: 5 }).map(ids);
  const watched = fc.array(fc.record({ watchPort: fc.constantFrom(1, 2), actions }), { minLength: 1, maxLength: 3 }).map(ids);
  const selection = fc.constantFrom<Group['selection']>(
    undefined,
    { method: 'dp_hash' },
    { method: 'dp_hash', parameter: 7n },
    { method: 'hash', parameter: 1n, fields: { ip_src: 0xffff_ffff } },
  );
  return fc.oneof(
    fc.record({ id, type: fc.constant('all' as const), buckets: plain }),
    fc.record({ id, type: fc.constant('indirect' as const), buckets: actions.map((each) => ids([{ actions: each }])) }),
    fc.record({ id, type: fc.constant('fastFailover' as const), buckets: watched }),
    fc.tuple(id, weighted, selection).map(
      ([each, buckets, how]): Group => ({
        id: each,
        type: 'select',
        ...(how === undefined || version === OPENFLOW_13 ? {} : { selection: how }),
        buckets,
      }),
    ),
  );
}

/** Open vSwitch 3.1 has only bands that drop, and adds a burst to a band without one. */
const randomMeter: fc.Arbitrary<Meter> = fc.record({
  id: fc.integer({ min: 1, max: 1000 }),
  flags: fc.constantFrom(meterFlag.kilobits + meterFlag.burst, meterFlag.packets + meterFlag.burst + meterFlag.stats),
  bands: fc.array(
    fc.record({
      kind: fc.constant('drop' as const),
      rate: fc.integer({ min: 1, max: 100_000 }),
      burst: fc.integer({ min: 1, max: 100_000 }),
    }),
    {
      minLength: 1,
      maxLength: 1,
    },
  ),
});
