import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { bytesOf } from '../../src/base/bytes/bytes.ts';
import { type Flow, writeFlow } from '../../src/openflow/flows/flow.ts';
import { encodeInstructions } from '../../src/openflow/flows/instructions.ts';
import { writeGroupMod } from '../../src/openflow/groups/group.ts';
import { encodeMatch } from '../../src/openflow/match/match.ts';
import { ALL_TABLES, OPENFLOW_13, OPENFLOW_15, type Version } from '../../src/openflow/protocol.ts';
import { flowsOf, OpenFlowBridge } from '../support/openflow-bridge.ts';

let bridge: OpenFlowBridge;

beforeAll(() => {
  bridge = new OpenFlowBridge('--disable-system');
});
afterAll(() => bridge.stop());
afterEach(() => bridge.disconnect());

function flow(version: Version, given: Partial<Flow>): Uint8Array {
  return bytesOf((w) => writeFlow(w, { command: 'add', table: 0, priority: 1, match: {}, does: {}, ...given }, version));
}

describe.each([OPENFLOW_13, OPENFLOW_15] as const)('a real switch with version %i', (version) => {
  const match = { eth_type: 0x800, ip_dst: 0x0a000001, reg1: { value: 5, mask: 0xf }, reg2: 7 };
  const does = {
    apply: [{ kind: 'load', to: { field: 'reg0', offset: 4, bits: 4 }, value: 3 }, { kind: 'decTtl' }],
    gotoTable: 2,
  } as const;

  beforeEach(async () => {
    const connection = await bridge.connect({ versions: [version] });
    await connection.apply([flow(version, { command: 'delete', table: ALL_TABLES, priority: 0 })], bridge.signal);
  });

  it('accepts a bundle, and shows its flows as they were sent', async () => {
    const connection = await bridge.connect({ versions: [version] });
    expect(connection.version).toBe(version);
    await connection.bundle([flow(version, { cookie: 9n, priority: 7, idleTimeout: 60, match, does }), flow(version, {})], bridge.signal);
    const [first, second] = await flowsOf(connection, bridge.signal);
    expect(first).toMatchObject({ table: 0, priority: 7, cookie: 9n, idleTimeout: 60, packets: 0n, bytes: 0n });
    expect(Buffer.from(first?.match ?? []).toString('hex')).toBe(Buffer.from(encodeMatch(match, version)).toString('hex'));
    expect(Buffer.from(first?.instructions ?? []).toString('hex')).toBe(Buffer.from(encodeInstructions(does, version)).toString('hex'));
    expect(second).toMatchObject({ priority: 1 });
    expect(await connection.aggregate({}, bridge.signal)).toEqual({ flows: 2, packets: 0n, bytes: 0n });
  });

  it('applies all of a bundle or nothing', async () => {
    const connection = await bridge.connect({ versions: [version] });
    const broken = flow(version, { table: 5, does: { gotoTable: 4 } });
    await expect(connection.bundle([flow(version, {}), broken], bridge.signal)).rejects.toMatchObject({
      code: 'REFUSED',
      context: { index: 1, error: 'OFPBIC_BAD_TABLE_ID' },
    });
    expect(await flowsOf(connection, bridge.signal)).toEqual([]);
  });

  it('applies single changes that it does not refuse', async () => {
    const connection = await bridge.connect({ versions: [version] });
    const broken = flow(version, { table: 5, does: { gotoTable: 4 } });
    await expect(connection.apply([broken, flow(version, {}), broken], bridge.signal)).rejects.toMatchObject({
      code: 'REFUSED',
      context: { index: 0, refusals: 2, error: 'OFPBIC_BAD_TABLE_ID' },
    });
    expect((await flowsOf(connection, bridge.signal)).length).toBe(1);
  });

  it('shows its groups', async () => {
    const connection = await bridge.connect({ versions: [version] });
    const group = { id: 4, type: 'all', buckets: [{ id: 0, actions: [{ kind: 'decTtl' }] }] } as const;
    await connection.apply(
      [
        bytesOf((w) => writeGroupMod(w, { command: 'delete', id: 4, type: 'all', buckets: [] }, version)),
        bytesOf((w) => writeGroupMod(w, { command: 'add', ...group }, version)),
      ],
      bridge.signal,
    );
    expect((await connection.dumpGroups(bridge.signal)).map(({ id, type }) => [id, type])).toEqual([[4, 'all']]);
  });

  it('accepts more than the window, chunk by chunk', async () => {
    const connection = await bridge.connect({ versions: [version], windowBytes: 300 * 1024 });
    const flows = Array.from({ length: 8_000 }, (_, index) => flow(version, { priority: index + 1, match, does }));
    let most = 0;
    const watch = setInterval(() => (most = Math.max(most, connection.unacknowledgedBytes)), 1);
    await connection.bundle(flows, bridge.signal);
    clearInterval(watch);
    expect(most).toBeLessThanOrEqual(301 * 1024);
    expect((await connection.aggregate({}, bridge.signal)).flows).toBe(flows.length);
  });
});

it('uses the highest version that both sides support', async () => {
  bridge.ovs.exec('ovs-vsctl', 'set', 'bridge', 'br-int', 'protocols=OpenFlow10,OpenFlow11,OpenFlow12,OpenFlow13,OpenFlow14');
  try {
    expect((await bridge.connect({ versions: [OPENFLOW_13, OPENFLOW_15] })).version).toBe(OPENFLOW_13);
  } finally {
    bridge.ovs.exec('ovs-vsctl', 'clear', 'bridge', 'br-int', 'protocols');
  }
});
