import { expect, it } from 'vitest';
import { silentLog } from '../../base/log/log.ts';
import { tables } from '../../dataplane/pipeline/tables.ts';
import { decodePacketOut, type PacketIn } from '../../openflow/packet.ts';
import { UntranslatedPackets } from './untranslated.ts';

function scene() {
  const sent: Uint8Array[] = [];
  const takers: ((packet: PacketIn) => void)[] = [];
  const untranslated = new UntranslatedPackets(
    {
      on: (reason, taker) => void (reason === 'untranslated' && takers.push(taker)),
      send: async (messages) => void sent.push(...messages),
    },
    silentLog,
  );
  const data = Uint8Array.of(1, 2, 3);
  const take = (fields: PacketIn['fields']): void => {
    for (const taker of takers) taker({ table: tables.egressEntry.id, reason: 'action', fields, fullLength: data.length, data });
  };
  return { sent, take, untranslated };
}

it('sends a packet that could not be translated again, from conntrack on, marked as repeated', () => {
  const { sent, take, untranslated } = scene();
  take({ in_port: 32_784, reg0: 3, reg5: 7 });
  const [out] = sent.map(decodePacketOut);
  expect(out).toMatchObject({ fields: { in_port: 32_784 }, data: Uint8Array.of(1, 2, 3) });
  expect(out?.actions.map(({ kind }) => kind)).toEqual(['setField', 'setField', 'setField', 'resubmit']);
  expect(out?.actions.at(-1)).toMatchObject({ kind: 'resubmit', table: tables.track.id });
  expect(untranslated.repeated).toBe(1);
});

it('sends no more than its tokens, and nothing without a port', () => {
  const { sent, take } = scene();
  take({});
  expect(sent).toEqual([]);
  for (let packet = 0; packet < 2_000; packet++) take({ in_port: 32_784, reg0: 3 });
  // The first took a token too.
  expect(sent.length).toBeGreaterThanOrEqual(499);
  expect(sent.length).toBeLessThan(1_000);
});
