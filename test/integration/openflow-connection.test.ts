import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { SeineError } from '../../src/errors/seine-error.ts';
import { OpenFlowConnection } from '../../src/openflow/connection.ts';
import {
  decodeConfig,
  decodeDesc,
  decodeFeatures,
  decodeRole,
  decodeTableStats,
  writeDescRequest,
  writeEmpty,
  writeFlushZone,
  writeRoleRequest,
  writeSetAsync,
  writeSetConfig,
  writeSetControllerId,
  writeTableStatsRequest,
  writeUsePacketIn2,
} from '../../src/openflow/control.ts';
import { type FlowMod, flowFlag, noInstructions, writeFlowMod } from '../../src/openflow/flow-mod.ts';
import { decodeFlowUpdates, type FlowUpdate, monitorFlag, writeFlowMonitorRequest } from '../../src/openflow/flow-monitor.ts';
import type { FlowEntry } from '../../src/openflow/flow-stats.ts';
import { encodeGroup, everyGroup, type Group, writeGroupMod } from '../../src/openflow/group.ts';
import { decodeGroupStats, writeGroupStatsRequest } from '../../src/openflow/group-stats.ts';
import { encodeInstructions, type Instructions } from '../../src/openflow/instructions.ts';
import { encodeMatch, type Match } from '../../src/openflow/match.ts';
import { decodeMeters, type Meter, meterFlag, writeMeterDescRequest, writeMeterMod } from '../../src/openflow/meter.ts';
import { writePacketOut, writeResume } from '../../src/openflow/packet.ts';
import { decodePortStats, decodePorts, writePortDescRequest, writePortStatsRequest } from '../../src/openflow/port.ts';
import { ALL_TABLES, ofPort } from '../../src/openflow/protocol.ts';
import { decodeUnsolicited, type Unsolicited } from '../../src/openflow/unsolicited.ts';
import { bytesOf } from '../../src/wire/bytes.ts';
import { startSwitch, type TestSwitch } from '../support/open-vswitch.ts';

let ovs: TestSwitch;
let stop: AbortController;
let connection: OpenFlowConnection;
let unasked: Unsolicited[];
const downs: SeineError[] = [];

beforeAll(() => {
  ovs = startSwitch();
  addBridge();
});
afterAll(() => ovs.stop());

function addBridge(): void {
  ovs.exec('ovs-vsctl', '--may-exist', 'add-br', 'br-int', '--', 'set', 'bridge', 'br-int', 'datapath_type=netdev', 'fail_mode=secure');
}

beforeEach(async () => {
  stop = new AbortController();
  unasked = [];
  connection = connect([]);
  await connection.untilUp(stop.signal);
  await connection.bundle(
    [flow({ command: 'delete', table: ALL_TABLES, priority: 0 }), bytesOf((w) => writeGroupMod(w, everyGroup))],
    stop.signal,
  );
});
afterEach(() => stop.abort());

function connect(greeting: readonly Uint8Array[]): OpenFlowConnection {
  const made = new OpenFlowConnection({
    endpoint: `unix:${ovs.runDir}/br-int.mgmt`,
    greeting,
    down: (cause) => downs.push(cause),
    unsolicited: (each) => unasked.push(decodeUnsolicited(each)),
  });
  void made.run(stop.signal);
  return made;
}

function flow({
  does,
  matches,
  ...mod
}: Partial<FlowMod> & {
  readonly table: number;
  readonly priority: number;
  readonly does?: Instructions;
  readonly matches?: Match;
}): Uint8Array {
  const instructions = does === undefined ? noInstructions : encodeInstructions(does);
  return bytesOf((w) => writeFlowMod(w, { command: 'add', match: encodeMatch(matches ?? {}), instructions, ...mod }));
}

async function dump(): Promise<FlowEntry[]> {
  const entries: FlowEntry[] = [];
  await connection.dumpFlows({}, (entry) => entries.push(entry), stop.signal);
  return entries;
}

async function until<T>(find: () => T | undefined): Promise<T> {
  for (let tries = 0; tries < 400; tries++) {
    const found = find();
    if (found !== undefined) return found;
    await sleep(10);
  }
  throw new Error(`nothing came; unasked: ${unasked.map((each) => each.kind).join()}`);
}

describe('a bundle', () => {
  it('makes all its changes', async () => {
    await connection.bundle([flow({ table: 1, priority: 1 }), flow({ table: 2, priority: 2 })], stop.signal);
    expect((await dump()).map((entry) => [entry.table, entry.priority])).toEqual([
      [1, 1],
      [2, 2],
    ]);
  });

  it('makes none of them if one is refused when it is committed, and names it', async () => {
    const broken = flow({ table: 2, priority: 2, does: { apply: [{ kind: 'group', group: 77 }] } });
    const refused = connection.bundle([flow({ table: 1, priority: 1 }), broken, flow({ table: 3, priority: 3 })], stop.signal);
    await expect(refused).rejects.toMatchObject({ code: 'REFUSED', context: { index: 1, error: 'OFPBAC_BAD_OUT_GROUP' } });
    expect(await dump()).toEqual([]);
  });

  it('makes none of them if one is refused when it is added, and names it', async () => {
    const broken = flow({ table: 9, priority: 2, does: { gotoTable: 3 } });
    const refused = connection.bundle([flow({ table: 1, priority: 1 }), broken, flow({ table: 3, priority: 3 })], stop.signal);
    await expect(refused).rejects.toMatchObject({ code: 'REFUSED', context: { index: 1, error: 'OFPBIC_BAD_TABLE_ID' } });
    expect(await dump()).toEqual([]);
    expect(connection.counters.bundlesRefused).toBe(1);
  });

  it('carries groups before the flows that use them, and 20,000 flows', async () => {
    const group: Group = { id: 5, type: 'select', buckets: [{ id: 0, weight: 100, actions: [{ kind: 'output', port: 1 }] }] };
    const flows = Array.from({ length: 20_000 }, (_, ip) =>
      flow({ table: 4, priority: 7, matches: { eth_type: 0x800, ip_dst: ip }, does: { apply: [{ kind: 'group', group: 5 }] } }),
    );
    await connection.bundle([bytesOf((w) => writeGroupMod(w, { command: 'add', ...group })), ...flows], stop.signal);
    expect(await connection.aggregate({ table: 4 }, stop.signal)).toEqual({ flows: 20_000, packets: 0n, bytes: 0n });
  });

  it('that its caller gives up before the commit changes nothing', async () => {
    const impatient = new AbortController();
    const given = connection.bundle([flow({ table: 1, priority: 1 })], impatient.signal);
    impatient.abort();
    await expect(given).rejects.toMatchObject({ code: 'CANCELLED', context: { sent: false } });
    await connection.barrier(stop.signal);
    expect(await dump()).toEqual([]);
  });

  it('runs beside others, each with its own outcome', async () => {
    const outcomes = await Promise.allSettled(
      Array.from({ length: 20 }, (_, n) =>
        connection.bundle([flow({ table: 9, priority: n, does: { gotoTable: n % 2 ? 3 : 20 } })], stop.signal),
      ),
    );
    expect(outcomes.filter((outcome) => outcome.status === 'rejected')).toHaveLength(10);
    expect((await dump()).map((entry) => entry.priority).toSorted((a, b) => a - b)).toEqual([0, 2, 4, 6, 8, 10, 12, 14, 16, 18]);
  });
});

describe('groups', () => {
  const groups: readonly Group[] = [
    { id: 1, type: 'select', buckets: [] },
    { id: 2, type: 'select', selection: { method: 'dp_hash' }, buckets: [0, 1, 2].map((id) => ({ id, weight: 100, actions: [{ kind: 'load', to: { field: 'reg3', offset: 0, bits: 32 }, value: id }, { kind: 'resubmit', table: 28 }] })) },
    { id: 3, type: 'select', selection: { method: 'hash', parameter: 7n, fields: { ip_src: 0xffff_ffff, ip_dst: 0xffff_ff00 } }, buckets: [{ id: 0, weight: 1, actions: [] }] },
    { id: 4, type: 'all', buckets: [{ id: 0, actions: [{ kind: 'output', port: 1 }] }, { id: 1, actions: [] }] },
    { id: 5, type: 'indirect', buckets: [{ id: 0, actions: [{ kind: 'output', port: 1 }] }] },
    { id: 6, type: 'fastFailover', buckets: [{ id: 3, watchPort: 1, actions: [{ kind: 'output', port: 1 }] }, { id: 4, watchGroup: 2, actions: [{ kind: 'group', group: 2 }] }] },
    { id: 7, type: 'select', selection: { method: 'dp_hash' }, buckets: Array.from({ length: 800 }, (_, id) => ({ id, weight: 1, actions: [{ kind: 'setField', field: 'xxreg3', value: BigInt(id) }, { kind: 'resubmit', table: 28 }] as const })) },
  ]; // biome-ignore format: one group a line

  it('are read back with the same bytes', async () => {
    await connection.bundle(
      groups.map((group) => bytesOf((w) => writeGroupMod(w, { command: 'addOrModify', ...group }))),
      stop.signal,
    );
    const held = new Map((await connection.dumpGroups(stop.signal)).map((group) => [group.id, group]));
    for (const group of groups) {
      const found = held.get(group.id);
      expect(found && Buffer.from(encodeGroup(found)).toString('hex'), `group ${group.id}`).toBe(
        Buffer.from(encodeGroup(group)).toString('hex'),
      );
    }
  });

  it('take and lose single buckets', async () => {
    const base: Group = {
      id: 9,
      type: 'select',
      buckets: [
        { id: 0, weight: 1, actions: [] },
        { id: 2, weight: 1, actions: [] },
      ],
    };
    const change = { id: 9, type: 'select' } as const;
    await connection.bundle(
      [
        bytesOf((w) => writeGroupMod(w, { command: 'add', ...base })),
        bytesOf((w) => writeGroupMod(w, { command: 'insertBuckets', ...change, place: 0, buckets: [{ id: 1, weight: 1, actions: [] }] })),
        bytesOf((w) => writeGroupMod(w, { command: 'removeBuckets', ...change, place: 2, buckets: [] })),
      ],
      stop.signal,
    );
    const [group] = await connection.dumpGroups(stop.signal);
    expect(group?.buckets.map((bucket) => bucket.id)).toEqual([0, 1]);
    const stats = await connection.gather(writeGroupStatsRequest, decodeGroupStats, stop.signal);
    expect(stats).toMatchObject([{ id: 9, references: 0, buckets: [{ packets: 0n }, { packets: 0n }] }]);
  });
});

describe('a switch', () => {
  it('describes itself', async () => {
    expect(
      decodeFeatures(
        await connection.request(
          bytesOf((w) => writeEmpty(w, 'featuresRequest')),
          stop.signal,
        ),
      ),
    ).toMatchObject({ tables: 254 });
    const [description] = await connection.gather(writeDescRequest, (body) => [decodeDesc(body)], stop.signal);
    expect(description).toMatchObject({ hardware: 'Open vSwitch', software: expect.stringMatching(/^\d+\.\d+/) });
    const tables = await connection.gather(writeTableStatsRequest, decodeTableStats, stop.signal);
    expect(tables.map((table) => table.table)).toEqual(Array.from({ length: 254 }, (_, table) => table));
  });

  it('takes and gives its configuration and our role', async () => {
    await connection.send([bytesOf((w) => writeSetConfig(w, { fragments: 3, missSendLength: 128 }))], stop.signal);
    expect(
      decodeConfig(
        await connection.request(
          bytesOf((w) => writeEmpty(w, 'getConfigRequest')),
          stop.signal,
        ),
      ),
    ).toEqual({ fragments: 3, missSendLength: 128 });
    await connection.send([bytesOf((w) => writeSetConfig(w, { fragments: 0, missSendLength: 128 }))], stop.signal);
    const role = await connection.request(
      bytesOf((w) => writeRoleRequest(w, 'primary', 5n)),
      stop.signal,
    );
    expect(decodeRole(role)).toEqual({ role: 'primary', generation: 5n });
  });

  it('has ports, and says when one comes and goes', async () => {
    await connection.send([bytesOf((w) => writeSetAsync(w, { portStatus: 7, packetIn: 0, flowRemoved: 15 }))], stop.signal);
    ovs.exec('ovs-vsctl', 'add-port', 'br-int', 'in0', '--', 'set', 'interface', 'in0', 'type=internal', 'ofport_request=7');
    const added = await until(() => unasked.find((each) => each.kind === 'portStatus' && each.status.reason === 'add'));
    expect(added).toMatchObject({ status: { port: { number: 7, name: 'in0' } } });
    const ports = await connection.gather(writePortDescRequest, decodePorts, stop.signal);
    expect(ports.map((port) => [port.number, port.name]).toSorted()).toEqual([
      [ofPort.local, 'br-int'],
      [7, 'in0'],
    ]);
    const [stats] = await connection.gather((w) => writePortStatsRequest(w, 7), decodePortStats, stop.signal);
    expect(stats).toMatchObject({ port: 7, rxErrors: 0n });
    ovs.exec('ovs-vsctl', 'del-port', 'in0');
    await until(() => unasked.find((each) => each.kind === 'portStatus' && each.status.reason === 'delete'));
  });

  it('holds meters as they were sent', async () => {
    const meters: readonly Meter[] = [
      { id: 1, flags: meterFlag.packets + meterFlag.burst + meterFlag.stats, bands: [{ kind: 'drop', rate: 500, burst: 1000 }] },
      { id: 2, flags: meterFlag.kilobits + meterFlag.stats, bands: [{ kind: 'drop', rate: 10, burst: 10 }] },
    ];
    for (const meter of meters) await connection.send([bytesOf((w) => writeMeterMod(w, { command: 'add', ...meter }))], stop.signal);
    await connection.barrier(stop.signal);
    expect(unasked).toEqual([]);
    expect((await connection.gather(writeMeterDescRequest, decodeMeters, stop.signal)).map(({ id, bands }) => ({ id, bands }))).toEqual(
      meters.map(({ id, bands }) => ({ id, bands })),
    );
    for (const { id } of meters)
      await connection.send([bytesOf((w) => writeMeterMod(w, { command: 'delete', id, flags: 0, bands: [] }))], stop.signal);
  });

  it('forgets the connections of a zone, and says no to what it does not know', async () => {
    await connection.send([bytesOf((w) => writeFlushZone(w, 65520)), bytesOf((w) => w.u8(6).u8(200).u16(8).u32(0))], stop.signal);
    await connection.barrier(stop.signal);
    expect(unasked).toMatchObject([{ kind: 'error', error: { name: 'OFPBRC_BAD_TYPE' } }]);
  });
});

describe('packets', () => {
  const arp = Buffer.from(
    `ffffffffffff0242${'0af40105'}0806000108000604000102420af401050af401050000000000000af40101${'00'.repeat(18)}`,
    'hex',
  );

  it('come with the userdata and registers of the flow, and go on when they are resumed', async () => {
    const packets = connect([
      bytesOf((w) => writeSetConfig(w, { fragments: 0, missSendLength: 0xffff })),
      bytesOf(writeUsePacketIn2),
      bytesOf((w) => writeSetControllerId(w, 9)),
    ]);
    await packets.untilUp(stop.signal);
    await packets.barrier(stop.signal);
    const userdata = Uint8Array.of(1, 2, 3);
    await connection.bundle(
      [
        flow({
          table: 0,
          priority: 1,
          cookie: 0xabcdn,
          does: {
            apply: [
              { kind: 'load', to: { field: 'reg5', offset: 0, bits: 8 }, value: 42 },
              { kind: 'controller', controller: 9, userdata, pause: true },
              { kind: 'resubmit', table: 3 },
            ],
          },
        }),
        flow({ table: 3, priority: 1, matches: { reg5: 42 } }),
      ],
      stop.signal,
    );
    await connection.send(
      [
        bytesOf((w) =>
          writePacketOut(w, { fields: { in_port: ofPort.controller }, actions: [{ kind: 'output', port: ofPort.table }], data: arp }),
        ),
      ],
      stop.signal,
    );
    const got = await until(() => unasked.find((each) => each.kind === 'packetIn'));
    if (got.kind !== 'packetIn') throw new Error('no packet-in');
    expect(got.packet).toMatchObject({
      table: 0,
      reason: 'action',
      userdata,
      fullLength: arp.length,
      fields: { reg5: 42 },
    });
    expect(Buffer.from(got.packet.data).equals(arp)).toBe(true);
    expect(got.packet.continuation).toBeDefined();
    await packets.send([bytesOf((w) => writeResume(w, got.packet))], stop.signal);
    await packets.barrier(stop.signal);
    const counts = async () => (await dump()).find((entry) => entry.table === 3)?.packets;
    for (let tries = 0; tries < 300 && (await counts()) !== 1n; tries++) await sleep(10);
    expect(await counts()).toBe(1n);
  });

  it('come in the standard form too', async () => {
    await connection.send([bytesOf((w) => writeSetAsync(w, { packetIn: 0x3f }))], stop.signal);
    await connection.bundle(
      [flow({ table: 0, priority: 1, cookie: 0x99n, does: { apply: [{ kind: 'output', port: ofPort.controller, maxLength: 20 }] } })],
      stop.signal,
    );
    await connection.send(
      [
        bytesOf((w) =>
          writePacketOut(w, {
            fields: { in_port: ofPort.controller, metadata: 7n },
            actions: [{ kind: 'output', port: ofPort.table }],
            data: arp,
          }),
        ),
      ],
      stop.signal,
    );
    const got = await until(() => unasked.find((each) => each.kind === 'packetIn'));
    expect(got).toMatchObject({
      packet: { table: 0, cookie: 0x99n, reason: 'packetOut', fullLength: arp.length, fields: { in_port: ofPort.controller } },
    });
  });
});

describe('changes that others make', () => {
  it('are told by a flow monitor', async () => {
    const initial: FlowUpdate[] = [];
    await connection.bundle([flow({ table: 7, priority: 1 })], stop.signal);
    const flags = monitorFlag.initial + monitorFlag.add + monitorFlag.removed + monitorFlag.modify + monitorFlag.instructions;
    await connection.multipart(
      bytesOf((w) => writeFlowMonitorRequest(w, { id: 1, flags })),
      (body) => initial.push(...decodeFlowUpdates(body)),
      stop.signal,
    );
    expect(initial).toMatchObject([{ event: 'initial', table: 7, priority: 1 }]);
    ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'add-flow', 'br-int', 'table=8,priority=3,cookie=0x5,ip,actions=drop');
    ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'mod-flows', 'br-int', 'table=8,ip,actions=goto_table:20');
    ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int', 'table=8');
    const updates = () => unasked.flatMap((each) => (each.kind === 'flowUpdates' ? each.updates : []));
    await until(() => (updates().length >= 3 ? true : undefined));
    const match = encodeMatch({ eth_type: 0x800 });
    const [added, modified, removed] = updates();
    expect(added).toMatchObject({ event: 'added', table: 8, priority: 3, cookie: 5n });
    expect(added !== undefined && 'match' in added && Buffer.from(added.match).equals(match)).toBe(true);
    expect(
      modified !== undefined &&
        'instructions' in modified &&
        Buffer.from(modified.instructions).equals(encodeInstructions({ gotoTable: 20 })),
    ).toBe(true);
    expect(removed).toMatchObject({ event: 'removed', reason: 'delete', cookie: 5n });
  });

  it('are told for flows that ask for it', async () => {
    await connection.send([bytesOf((w) => writeSetAsync(w, { flowRemoved: 15 }))], stop.signal);
    await connection.bundle(
      [flow({ table: 6, priority: 4, cookie: 77n, flags: flowFlag.sendFlowRemoved, matches: { reg0: 1 } })],
      stop.signal,
    );
    ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int', 'table=6');
    const removed = await until(() => unasked.find((each) => each.kind === 'flowRemoved'));
    expect(removed).toMatchObject({ flow: { table: 6, priority: 4, cookie: 77n, reason: 'delete', packets: 0n } });
  });
});

describe('a switch that dies', () => {
  it('fails what is under way as unknown, and is found again', async () => {
    await connection.bundle([flow({ table: 1, priority: 1 })], stop.signal);
    downs.length = 0;
    const pending = connection.multipart(bytesOf(writeTableStatsRequest), () => {}, stop.signal).catch((cause: SeineError) => cause);
    await ovs.killVswitchd();
    const outcome = await pending;
    if (outcome !== undefined) expect(outcome).toMatchObject({ code: 'UNAVAILABLE' });
    await until(() => (downs.length > 0 ? true : undefined));
    expect(connection.isUp).toBe(false);
    await expect(connection.bundle([flow({ table: 1, priority: 1 })], stop.signal)).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      context: { sent: false },
    });
    ovs.startVswitchd();
    await connection.untilUp(stop.signal);
    expect(await dump()).toEqual([]);
    expect(connection.counters.connects).toBe(2);
  });
});
