import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { bytesOf } from '../../src/base/bytes/bytes.ts';
import type { OpenFlowConnection } from '../../src/openflow/connection/connection.ts';
import { writeSetAsync, writeSetConfig, writeSetControllerId, writeUsePacketIn2 } from '../../src/openflow/control.ts';
import { flowFlag } from '../../src/openflow/flows/flow-mod.ts';
import { decodeFlowUpdates, type FlowUpdate, monitorFlag, writeFlowMonitorRequest } from '../../src/openflow/flows/flow-monitor.ts';
import { encodeInstructions } from '../../src/openflow/flows/instructions.ts';
import { encodeMatch } from '../../src/openflow/match/match.ts';
import { writePacketOut, writeResume } from '../../src/openflow/packet.ts';
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

describe('packets', () => {
  const arp = Buffer.from(
    `ffffffffffff0242${'0af40105'}0806000108000604000102420af401050af401050000000000000af40101${'00'.repeat(18)}`,
    'hex',
  );

  it('have the userdata and registers of the flow, and continue when they are resumed', async () => {
    const packets = await bridge.connect({
      greeting: [
        bytesOf((w) => writeSetConfig(w, { fragments: 0, missSendLength: 0xffff })),
        bytesOf(writeUsePacketIn2),
        bytesOf((w) => writeSetControllerId(w, 9)),
      ],
    });
    await packets.barrier(bridge.signal);
    const userdata = Uint8Array.of(1, 2, 3);
    await connection.bundle(
      [
        flowMod({
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
        flowMod({ table: 3, priority: 1, matches: { reg5: 42 } }),
      ],
      bridge.signal,
    );
    await connection.send(
      [
        bytesOf((w) =>
          writePacketOut(w, { fields: { in_port: ofPort.controller }, actions: [{ kind: 'output', port: ofPort.table }], data: arp }),
        ),
      ],
      bridge.signal,
    );
    const got = await bridge.hears((unasked) => unasked.find((each) => each.kind === 'packetIn'));
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
    await packets.send([bytesOf((w) => writeResume(w, got.packet))], bridge.signal);
    await packets.barrier(bridge.signal);
    const counted = async () => (await flowsOf(connection, bridge.signal)).find((entry) => entry.table === 3)?.packets;
    await expect.poll(counted).toBe(1n);
  });

  it('have the standard form too', async () => {
    await connection.send([bytesOf((w) => writeSetAsync(w, { packetIn: 0x3f }))], bridge.signal);
    await connection.bundle(
      [flowMod({ table: 0, priority: 1, cookie: 0x99n, does: { apply: [{ kind: 'output', port: ofPort.controller, maxLength: 20 }] } })],
      bridge.signal,
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
      bridge.signal,
    );
    const got = await bridge.hears((unasked) => unasked.find((each) => each.kind === 'packetIn'));
    expect(got).toMatchObject({
      packet: { table: 0, cookie: 0x99n, reason: 'packetOut', fullLength: arp.length, fields: { in_port: ofPort.controller } },
    });
  });
});

describe('foreign changes', () => {
  it('are reported by a flow monitor', async () => {
    const initial: FlowUpdate[] = [];
    await connection.bundle([flowMod({ table: 7, priority: 1 })], bridge.signal);
    const flags = monitorFlag.initial + monitorFlag.add + monitorFlag.removed + monitorFlag.modify + monitorFlag.instructions;
    await connection.multipart(
      bytesOf((w) => writeFlowMonitorRequest(w, { id: 1, flags })),
      (body) => initial.push(...decodeFlowUpdates(body)),
      bridge.signal,
    );
    expect(initial).toMatchObject([{ event: 'initial', table: 7, priority: 1 }]);
    bridge.ofctl('add-flow', 'br-int', 'table=8,priority=3,cookie=0x5,ip,actions=drop');
    bridge.ofctl('mod-flows', 'br-int', 'table=8,ip,actions=goto_table:20');
    bridge.ofctl('del-flows', 'br-int', 'table=8');
    const [added, modified, removed] = await bridge.hears((unasked) => {
      const updates = unasked.flatMap((each) => (each.kind === 'flowUpdates' ? each.updates : []));
      return updates.length >= 3 ? updates : undefined;
    });
    const match = encodeMatch({ eth_type: 0x800 });
    expect(added).toMatchObject({ event: 'added', table: 8, priority: 3, cookie: 5n });
    expect(added !== undefined && 'match' in added && Buffer.from(added.match).equals(match)).toBe(true);
    expect(
      modified !== undefined &&
        'instructions' in modified &&
        Buffer.from(modified.instructions).equals(encodeInstructions({ gotoTable: 20 })),
    ).toBe(true);
    expect(removed).toMatchObject({ event: 'removed', reason: 'delete', cookie: 5n });
  });

  it('are reported for flows with that flag', async () => {
    await connection.send([bytesOf((w) => writeSetAsync(w, { flowRemoved: 15 }))], bridge.signal);
    await connection.bundle(
      [flowMod({ table: 6, priority: 4, cookie: 77n, flags: flowFlag.sendFlowRemoved, matches: { reg0: 1 } })],
      bridge.signal,
    );
    bridge.ofctl('del-flows', 'br-int', 'table=6');
    const removed = await bridge.hears((unasked) => unasked.find((each) => each.kind === 'flowRemoved'));
    expect(removed).toMatchObject({ flow: { table: 6, priority: 4, cookie: 77n, reason: 'delete', packets: 0n } });
  });
});
