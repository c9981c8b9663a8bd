import fc from 'fast-check';
import { expect, it } from 'vitest';
import { IpfixReader } from '../../test/support/flow-collectors/read-ipfix.ts';
import { type DataRecord, dataMessages, type Template, templateMessage } from './messages.ts';

const template: Template = { id: 256, fields: ['sourceIPv4Address', 'sourcePodName', 'reverseOctetDeltaCount'] };
const counts: Template = { id: 300, scope: 1, fields: ['observationDomainId', 'exportedFlowRecordTotalCount'] };
const options = { exportMs: 1_700_000_000_999, sequence: 0, domain: 7, bytesMax: 1_232 };

it('has the layout of RFC 7011', () => {
  // Message: version, length, time, sequence, domain. Set 2: template 256 with 3 fields; set 3: options template 300 with a scope of 1.
  const expected =
    '000a' +
    '003e' +
    '6553f100' +
    '00000000' +
    '00000007' +
    '0002' +
    '001c' +
    '0100' +
    '0003' +
    '0008' +
    '0004' +
    '8065' +
    'ffff' +
    '0000dcba' +
    '8001' +
    '0008' +
    '00007279' +
    '0003' +
    '0012' +
    '012c' +
    '0002' +
    '0001' +
    '0095' +
    '0004' +
    '002a' +
    '0008';
  expect(Buffer.from(templateMessage([template, counts], options)).toString('hex')).toBe(expected);
  const [message] = dataMessages(
    [{ template, values: { sourceIPv4Address: 0x0a000005n, sourcePodName: 'web', reverseOctetDeltaCount: 9 } }],
    options,
  );
  expect(Buffer.from(message?.bytes ?? []).toString('hex')).toBe(
    '000a0024' + '6553f100' + '0000000000000007' + '01000014' + '0a000005' + '03776562' + '0000000000000009',
  );
});

it('is read back by another reader, whatever the records: each in a message of the allowed length, numbered without a gap', () => {
  const record = fc.record({
    address: fc.nat({ max: 0xffff_ffff }),
    text: fc.string({ maxLength: 400, unit: 'binary' }),
    bytes: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    isCounts: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(record, { maxLength: 20 }), fc.integer({ min: 400, max: 3_000 }), (rows, bytesMax) => {
      const reader = new IpfixReader();
      reader.message(Buffer.from(templateMessage([template, counts], options)));
      const records = rows.map(
        ({ address, text, bytes, isCounts }): DataRecord =>
          isCounts
            ? { template: counts, values: { exportedFlowRecordTotalCount: bytes } }
            : { template, values: { sourceIPv4Address: address, sourcePodName: text, reverseOctetDeltaCount: bytes } },
      );
      const messages = dataMessages(records, { ...options, bytesMax });
      for (const { bytes } of messages) {
        expect(bytes.length).toBeLessThanOrEqual(bytesMax);
        reader.stream(bytes);
      }
      expect([reader.gaps, reader.records.length]).toEqual([0, rows.length]);
      for (const [index, { address, text, bytes, isCounts }] of rows.entries()) {
        const values = reader.records[index]?.values;
        expect(values?.get(isCounts ? '0/42' : '29305/1')?.readBigUInt64BE()).toBe(bytes);
        if (isCounts) continue;
        expect(values?.get('0/8')?.readUInt32BE()).toBe(address);
        const name = values?.get('56506/101')?.toString('utf8') ?? '';
        expect(Buffer.byteLength(name)).toBeLessThanOrEqual(254);
        expect(new TextDecoder().decode(new TextEncoder().encode(text)).startsWith(name)).toBe(true);
      }
    }),
  );
});

it('continues the numbers of an earlier message, beyond 32 bits from 0', () => {
  const record: DataRecord = { template: counts, values: {} };
  const messages = dataMessages([record, record], { ...options, sequence: 2 ** 32 - 1, bytesMax: 40 });
  expect(messages.map(({ bytes }) => Buffer.from(bytes).readUInt32BE(8))).toEqual([2 ** 32 - 1, 0]);
});
