import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { bytesOf } from '../../src/base/bytes/bytes.ts';
import type { SeineError } from '../../src/base/errors/seine-error.ts';
import type { OpenFlowConnection } from '../../src/openflow/connection/connection.ts';
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
  writeTableStatsRequest,
} from '../../src/openflow/control.ts';
import type { FlowStats } from '../../src/openflow/flows/flow-stats.ts';
import { encodeGroup, type Group, writeGroupMod } from '../../src/openflow/groups/group.ts';
import { decodeGroupStats, writeGroupStatsRequest } from '../../src/openflow/groups/group-stats.ts';
import { decodeMeters, type Meter, meterFlag, writeMeterDescRequest, writeMeterMod } from '../../src/openflow/meter.ts';
import { decodePortStats, decodePorts, writePortDescRequest, writePortStatsRequest } from '../../src/openflow/port.ts';
import { ofPort } from '../../src/openflow/protocol.ts';
import { flowMod, flowsOf, OpenFlowBridge } from '../support/openflow-bridge.ts';

let bridge: OpenFlowBridge;
let connection: OpenFlowConnection;

beforeAll(() => {
  bridge = new OpenFlowBridge();
});
afterAll(() => bridge.stop());

beforeEach(async () => {
  connection = await bridge.connect();
  await bridge.empty(connection);
});
afterEach(() => bridge.disconnect());

describe('a bundle', () => {
  it('makes all its changes', async () => {
    await connection.bundle([flowMod({ table: 1, priority: 1 }), flowMod({ table: 2, priority: 2 })], bridge.signal);
    expect((await flowsOf(connection, bridge.signal)).map((entry) => [entry.table, entry.priority])).toEqual([
      [1, 1],
      [2, 2],
    ]);
  });

  it('makes none of them if one is refused when it is committed, and names it', async () => {
    const broken = flowMod({ table: 2, priority: 2, does: { apply: [{ kind: 'group', group: 77 }] } });
    const refused = connection.bundle([flowMod({ table: 1, priority: 1 }), broken, flowMod({ table: 3, priority: 3 })], bridge.signal);
    await expect(refused).rejects.toMatchObject({ code: 'REFUSED', context: { index: 1, error: 'OFPBAC_BAD_OUT_GROUP' } });
    expect(await flowsOf(connection, bridge.signal)).toEqual([]);
  });

  it('makes none of them if one is refused when it is added, and names it', async () => {
    const broken = flowMod({ table: 9, priority: 2, does: { gotoTable: 3 } });
    const refused = connection.bundle([flowMod({ table: 1, priority: 1 }), broken, flowMod({ table: 3, priority: 3 })], bridge.signal);
    await expect(refused).rejects.toMatchObject({ code: 'REFUSED', context: { index: 1, error: 'OFPBIC_BAD_TABLE_ID' } });
    expect(await flowsOf(connection, bridge.signal)).toEqual([]);
    expect(connection.counters.bundlesRefused).toBe(1);
  });

  it('is encoded while it is sent, and makes all its changes', async () => {
    const count = 5_000;
    const bytes = new Uint8Array(1_024);
    function* encoded() {
      for (let at = 0; at < count; at++) {
        const mod = flowMod({ table: 1, priority: at });
        bytes.set(mod);
        yield bytes.subarray(0, mod.length);
      }
    }
    await connection.bundle({ length: count, [Symbol.iterator]: encoded }, bridge.signal);
    const priorities = (await flowsOf(connection, bridge.signal)).map(({ priority }) => priority).toSorted((a, b) => a - b);
    expect(priorities).toEqual(Array.from({ length: count }, (_, at) => at));
  });

  it.each(['fails', 'ends early', 'goes on'])('makes none of its changes if its encoder %s after parts that were sent', async (how) => {
    const count = 5_000;
    function* encoded() {
      const given = how === 'goes on' ? count + 1 : count - 1;
      for (let at = 0; at < given; at++) yield flowMod({ table: 1, priority: at });
      if (how === 'fails') throw new RangeError('no bytes');
    }
    const wrong = connection.bundle({ length: count, [Symbol.iterator]: encoded }, bridge.signal);
    await expect(wrong).rejects.toMatchObject(how === 'fails' ? { message: 'no bytes' } : { code: 'INVARIANT' });
    await connection.bundle([flowMod({ table: 2, priority: 7 })], bridge.signal);
    expect((await flowsOf(connection, bridge.signal)).map((entry) => [entry.table, entry.priority])).toEqual([[2, 7]]);
  });

  it('at once makes all its changes, or none of them if one is refused when it is committed', async () => {
    await connection.bundleAtOnce([flowMod({ table: 1, priority: 1 }), flowMod({ table: 2, priority: 2 })], bridge.signal);
    const broken = flowMod({ table: 2, priority: 3, does: { apply: [{ kind: 'group', group: 77 }] } });
    const refused = connection.bundleAtOnce([flowMod({ table: 3, priority: 3 }), broken], bridge.signal);
    await expect(refused).rejects.toMatchObject({ code: 'REFUSED', context: { index: 1, error: 'OFPBAC_BAD_OUT_GROUP' } });
    expect((await flowsOf(connection, bridge.signal)).map((entry) => [entry.table, entry.priority])).toEqual([
      [1, 1],
      [2, 2],
    ]);
  });

  it('at once reports one that is refused when it is added, and the others are made', async () => {
    const broken = flowMod({ table: 9, priority: 2, does: { gotoTable: 3 } });
    const given = connection.bundleAtOnce([flowMod({ table: 1, priority: 1 }), broken, flowMod({ table: 3, priority: 3 })], bridge.signal);
    await expect(given).rejects.toMatchObject({ code: 'UNAVAILABLE', context: { index: 1, inPart: true, sent: true } });
    expect((await flowsOf(connection, bridge.signal)).map(({ table }) => table)).toEqual([1, 3]);
    expect(connection.counters.bundlesRefused).toBe(1);
  });

  it('carries groups before the flows that use them, and 20,000 flows', async () => {
    const group: Group = { id: 5, type: 'select', buckets: [{ id: 0, weight: 100, actions: [{ kind: 'output', port: 1 }] }] };
    const flows = Array.from({ length: 20_000 }, (_, ip) =>
      flowMod({ table: 4, priority: 7, matches: { eth_type: 0x800, ip_dst: ip }, does: { apply: [{ kind: 'group', group: 5 }] } }),
    );
    await connection.bundle([bytesOf((w) => writeGroupMod(w, { command: 'add', ...group })), ...flows], bridge.signal);
    expect(await connection.aggregate({ table: 4 }, bridge.signal)).toEqual({ flows: 20_000, packets: 0n, bytes: 0n });
  });

  it('that its caller gives up before the commit changes nothing', async () => {
    const impatient = new AbortController();
    const given = connection.bundle([flowMod({ table: 1, priority: 1 })], impatient.signal);
    impatient.abort();
    await expect(given).rejects.toMatchObject({ code: 'CANCELLED', context: { sent: false } });
    await connection.barrier(bridge.signal);
    expect(await flowsOf(connection, bridge.signal)).toEqual([]);
  });

  it('runs concurrently with others, each with its own outcome', async () => {
    const outcomes = await Promise.allSettled(
      Array.from({ length: 20 }, (_, n) =>
        connection.bundle([flowMod({ table: 9, priority: n, does: { gotoTable: n % 2 ? 3 : 20 } })], bridge.signal),
      ),
    );
    expect(outcomes.filter((outcome) => outcome.status === 'rejected')).toHaveLength(10);
    expect((await flowsOf(connection, bridge.signal)).map((entry) => entry.priority).toSorted((a, b) => a - b)).toEqual([
      0, 2, 4, 6, 8, 10, 12, 14, 16, 18,
    ]);
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
      bridge.signal,
    );
    const held = new Map((await connection.dumpGroups(bridge.signal)).map((group) => [group.id, group]));
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
      bridge.signal,
    );
    const [group] = await connection.dumpGroups(bridge.signal);
    expect(group?.buckets.map((bucket) => bucket.id)).toEqual([0, 1]);
    const stats = await connection.gather(writeGroupStatsRequest, decodeGroupStats, bridge.signal);
    expect(stats).toMatchObject([{ id: 9, references: 0, buckets: [{ packets: 0n }, { packets: 0n }] }]);
  });
});

describe('a switch', () => {
  it('describes itself', async () => {
    expect(
      decodeFeatures(
        await connection.request(
          bytesOf((w) => writeEmpty(w, 'featuresRequest')),
          bridge.signal,
        ),
      ),
    ).toMatchObject({ tables: 254 });
    const [description] = await connection.gather(writeDescRequest, (body) => [decodeDesc(body)], bridge.signal);
    expect(description).toMatchObject({ hardware: 'Open vSwitch', software: expect.stringMatching(/^\d+\.\d+/) });
    const tables = await connection.gather(writeTableStatsRequest, decodeTableStats, bridge.signal);
    expect(tables.map((table) => table.table)).toEqual(Array.from({ length: 254 }, (_, table) => table));
  });

  it('shows many flows in parts, each once, and answers others between these', async () => {
    const many = Array.from({ length: 10_000 }, (_, n) => flowMod({ table: n < 9_000 ? 4 : n % 3, priority: 1 + n, cookie: BigInt(n) }));
    await connection.bundle(many, bridge.signal);
    const seen: number[] = [];
    let other: Promise<number> | undefined;
    const see = ({ priority }: FlowStats): void => {
      seen.push(priority);
      other ??= connection.barrier(bridge.signal).then(() => seen.length);
    };
    await connection.dumpFlows({}, see, bridge.signal);
    expect(seen.toSorted((x, y) => x - y)).toEqual(many.map((_, n) => 1 + n));
    expect(await other).toBeLessThan(many.length);
    const ofTable: number[] = [];
    await connection.dumpFlows({ table: 4 }, ({ priority }) => ofTable.push(priority), bridge.signal);
    expect(ofTable).toHaveLength(9_000);
  });

  it('reads and writes its configuration and our role', async () => {
    await connection.send([bytesOf((w) => writeSetConfig(w, { fragments: 3, missSendLength: 128 }))], bridge.signal);
    expect(
      decodeConfig(
        await connection.request(
          bytesOf((w) => writeEmpty(w, 'getConfigRequest')),
          bridge.signal,
        ),
      ),
    ).toEqual({ fragments: 3, missSendLength: 128 });
    await connection.send([bytesOf((w) => writeSetConfig(w, { fragments: 0, missSendLength: 128 }))], bridge.signal);
    const role = await connection.request(
      bytesOf((w) => writeRoleRequest(w, 'primary', 5n)),
      bridge.signal,
    );
    expect(decodeRole(role)).toEqual({ role: 'primary', generation: 5n });
  });

  it('has ports, and reports when one is added and deleted', async () => {
    await connection.send([bytesOf((w) => writeSetAsync(w, { portStatus: 7, packetIn: 0, flowRemoved: 15 }))], bridge.signal);
    bridge.ovs.exec('ovs-vsctl', 'add-port', 'br-int', 'in0', '--', 'set', 'interface', 'in0', 'type=internal', 'ofport_request=7');
    const added = await bridge.hears((unasked) => unasked.find((each) => each.kind === 'portStatus' && each.status.reason === 'add'));
    expect(added).toMatchObject({ status: { port: { number: 7, name: 'in0' } } });
    const ports = await connection.gather(writePortDescRequest, decodePorts, bridge.signal);
    expect(ports.map((port) => [port.number, port.name]).toSorted()).toEqual([
      [ofPort.local, 'br-int'],
      [7, 'in0'],
    ]);
    const [stats] = await connection.gather((w) => writePortStatsRequest(w, 7), decodePortStats, bridge.signal);
    expect(stats).toMatchObject({ port: 7, rxErrors: 0n });
    bridge.ovs.exec('ovs-vsctl', 'del-port', 'in0');
    await bridge.hears((unasked) => unasked.find((each) => each.kind === 'portStatus' && each.status.reason === 'delete'));
  });

  it('has meters as they were sent', async () => {
    const meters: readonly Meter[] = [
      { id: 1, flags: meterFlag.packets + meterFlag.burst + meterFlag.stats, bands: [{ kind: 'drop', rate: 500, burst: 1000 }] },
      { id: 2, flags: meterFlag.kilobits + meterFlag.stats, bands: [{ kind: 'drop', rate: 10, burst: 10 }] },
    ];
    for (const meter of meters) await connection.send([bytesOf((w) => writeMeterMod(w, { command: 'add', ...meter }))], bridge.signal);
    await connection.barrier(bridge.signal);
    expect(bridge.unasked).toEqual([]);
    expect((await connection.gather(writeMeterDescRequest, decodeMeters, bridge.signal)).map(({ id, bands }) => ({ id, bands }))).toEqual(
      meters.map(({ id, bands }) => ({ id, bands })),
    );
    const stats = await connection.dumpMeterStats(bridge.signal);
    expect(stats).toEqual(meters.map(({ id }) => ({ id, packets: 0n, bands: [{ packets: 0n }] })));
    for (const { id } of meters)
      await connection.send([bytesOf((w) => writeMeterMod(w, { command: 'delete', id, flags: 0, bands: [] }))], bridge.signal);
  });

  it('deletes the connections of a zone, and rejects unknown requests', async () => {
    await connection.send([bytesOf((w) => writeFlushZone(w, 65520)), bytesOf((w) => w.u8(6).u8(200).u16(8).u32(0))], bridge.signal);
    await connection.barrier(bridge.signal);
    expect(bridge.unasked).toMatchObject([{ kind: 'error', error: { name: 'OFPBRC_BAD_TYPE' } }]);
  });
});

describe('a switch that dies', () => {
  it('fails requests in progress as unknown, and is found again', async () => {
    await connection.bundle([flowMod({ table: 1, priority: 1 })], bridge.signal);
    const pending = connection.multipart(bytesOf(writeTableStatsRequest), () => {}, bridge.signal).catch((cause: SeineError) => cause);
    await bridge.ovs.killVswitchd();
    const outcome = await pending;
    if (outcome !== undefined) expect(outcome).toMatchObject({ code: 'UNAVAILABLE' });
    await expect.poll(() => connection.isUp).toBe(false);
    await expect(connection.bundle([flowMod({ table: 1, priority: 1 })], bridge.signal)).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      context: { sent: false },
    });
    bridge.ovs.startVswitchd();
    await connection.untilUp(bridge.signal);
    expect(await flowsOf(connection, bridge.signal)).toEqual([]);
    expect(connection.counters.connects).toBe(2);
  });
});
