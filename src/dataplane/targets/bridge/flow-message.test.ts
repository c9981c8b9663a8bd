import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ByteWriter } from '../../../base/bytes/bytes.ts';
import { writeFlowMod } from '../../../openflow/flows/flow-mod.ts';
import { addFlow, observedFlow } from './bridge-entry.ts';
import { addFlowMessage } from './flow-message.ts';

/** Byte strings with lengths of matches and instructions: multiples of eight, and no match is empty. */
const bytes = (min: number, max: number) =>
  fc.integer({ min, max }).chain((eights) => fc.uint8Array({ minLength: eights * 8, maxLength: eights * 8 }));
const flows = fc.record({
  table: fc.nat(254),
  priority: fc.nat(0xffff),
  cookie: fc.bigInt(0n, 2n ** 64n - 1n),
  match: bytes(1, 20),
  instructions: bytes(0, 20),
});

it('equals the written flow of an entry', () => {
  fc.assert(
    fc.property(flows, (flow) => {
      const [key, value] = observedFlow({ ...flow, idleTimeout: 0, hardTimeout: 0, flags: 0, importance: 0 } as Parameters<
        typeof observedFlow
      >[0]);
      const w = new ByteWriter();
      writeFlowMod(w, addFlow(key, value));
      expect(Buffer.from(addFlowMessage(key, value)).toString('hex')).toBe(Buffer.from(w.written()).toString('hex'));
    }),
  );
});

it('is valid until the next request, and a copy of it after that', () => {
  const entry = (cookie: bigint) =>
    observedFlow({ table: 1, priority: 2, cookie, match: new Uint8Array(8), instructions: new Uint8Array(8) } as Parameters<
      typeof observedFlow
    >[0]);
  const [first, second] = [1n, 2n].map((cookie) => addFlowMessage(...entry(cookie)).slice());
  expect(first?.[15]).toBe(1);
  expect(second?.[15]).toBe(2);
});

it('rejects a flow longer than a message', () => {
  const flow = { table: 0, priority: 0, cookie: 0n, match: new Uint8Array(8), instructions: new Uint8Array(0xffe8) };
  const [key, value] = observedFlow(flow as Parameters<typeof observedFlow>[0]);
  expect(() => addFlowMessage(key, value)).toThrow('a flow-mod of 65568 bytes');
});
