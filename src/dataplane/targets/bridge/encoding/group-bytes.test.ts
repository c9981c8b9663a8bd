import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ipFromValue } from '../../../../base/net/ip.ts';
import { encodeGroup } from '../../../../openflow/groups/group.ts';
import { packGroup, unpackGroup } from './group-bytes.ts';
import { toActions } from './to-openflow.ts';

/** Group-mod like that of a Service port. */
function groupMod(id: number, addresses: readonly number[], weights: readonly number[] = []): Uint8Array {
  const buckets = addresses.map((address, at) => ({
    id: at,
    weight: weights[at] ?? 100,
    actions: toActions([
      {
        do: 'ct',
        zone: 7,
        commit: true,
        next: 'egressEntry',
        nat: { kind: 'dst', ip: ipFromValue('ipv4', BigInt(address)), port: 8080 },
        exec: [],
      },
    ]),
  }));
  return encodeGroup({ id, type: 'select', selection: { method: 'dp_hash' }, buckets });
}

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const address = fc.integer({ min: 0, max: 0xffff_ffff });
const group = fc.record({
  id: fc.integer({ min: 0, max: 0xffff_ff00 }),
  addresses: fc.array(address, { maxLength: 40 }),
  weights: fc.array(fc.integer({ min: 1, max: 0xffff }), { maxLength: 40 }),
});
/** Arbitrary bytes, some with valid lengths. */
const anything = fc
  .record({ bytes: fc.uint8Array({ minLength: 1, maxLength: 400 }), size: fc.nat(40), count: fc.nat(20), same: fc.boolean() })
  .map(({ bytes, size, count, same }) => {
    const message = Uint8Array.from(same ? bytes.map((byte, at) => (at % 7 === 0 ? byte : 3)) : bytes);
    const view = new DataView(message.buffer);
    message[0] = 6;
    if (message.length >= 26) {
      view.setUint16(16, size * count);
      view.setUint16(24, size);
    }
    return message;
  });

describe('a group as bytes', () => {
  it('decodes to the same message', () => {
    fc.assert(
      fc.property(group, ({ id, addresses, weights }) => {
        const message = groupMod(id, addresses, weights);
        expect(hexOf(unpackGroup(packGroup(message)))).toBe(hexOf(message));
      }),
    );
  });

  it('decodes to the same message, for any message of a switch', () => {
    fc.assert(
      fc.property(anything, (message) => {
        expect(hexOf(unpackGroup(packGroup(message)))).toBe(hexOf(message));
      }),
      { numRuns: 2_000 },
    );
  });

  it('is equal to another exactly if the messages are', () => {
    const few = fc.array(fc.constantFrom(1, 2, 0x0a00_0001), { minLength: 2, maxLength: 4 });
    fc.assert(
      fc.property(few, few, fc.boolean(), (a, b, isOther) => {
        const [one, other] = [groupMod(1, a), groupMod(isOther ? 2 : 1, b)];
        expect(packGroup(one) === packGroup(other)).toBe(hexOf(one) === hexOf(other));
      }),
    );
  });

  it('keeps the differences of ten buckets, and is never longer than the message', () => {
    const message = groupMod(
      1,
      Array.from({ length: 10 }, (_, at) => 0x0a01_0203 + 300 * at),
    );
    expect(packGroup(message).length).toBeLessThan(message.length / 3);
    fc.assert(
      fc.property(
        fc.oneof(
          group.map(({ id, addresses }) => groupMod(id, addresses)),
          anything,
        ),
        (each) => {
          expect(packGroup(each).length).toBeLessThanOrEqual(each.length);
        },
      ),
    );
  });
});
