import { expect, it } from 'vitest';
import { IpfixReader } from '../../../../test/support/flow-collectors/read-ipfix.ts';
import { parseIp } from '../../../base/net/ip.ts';
import { dataMessages, templateMessage } from '../../../ipfix/messages.ts';
import type { FlowRecord } from '../records/flow-record.ts';
import { flowTemplates, ipfixRecord } from './ipfix-records.ts';

const options = { exportMs: 0, sequence: 0, domain: 7, bytesMax: 1_232 };

function valuesOf(record: Partial<FlowRecord>, address = '10.0.0.5'): ReadonlyMap<string, Buffer> {
  const end = { ip: parseIp(address), port: 80, kind: 'pod', name: 'shop/web-1' } as const;
  const whole: FlowRecord = {
    ...{ timeMs: 1, event: 'closed', verdict: 'allowed', reporter: 'source', protocol: 6, source: end, destination: end },
    ...record,
  };
  const made = ipfixRecord(whole);
  const reader = new IpfixReader();
  reader.message(Buffer.from(templateMessage(flowTemplates, options)));
  for (const { bytes } of dataMessages(made ? [made] : [], options)) reader.message(Buffer.from(bytes));
  const [read] = reader.records;
  if (!read) throw new Error('no record');
  return read.values;
}

it.each(['10.0.0.5', '2001:db8::5'])('has the payload of an estimate, and not the bytes of packets (%s)', (address) => {
  const values = valuesOf({ bytes: { out: 2_100, in: 9_000 }, estimated: true, startedMs: 1, endedMs: 2 }, address);
  expect(['0/231', '0/232'].map((element) => values.get(element)?.readBigUInt64BE())).toEqual([2_100n, 9_000n]);
  expect([values.has('0/1'), values.get('0/233')?.readUInt8()]).toEqual([false, 2]);
});

it('has counters where they are known, and none of a connection that was only seen', () => {
  const counted = valuesOf({ bytes: { out: 5, in: 6 }, packets: { out: 1, in: 2 }, startedMs: 1, endedMs: 2 });
  expect([counted.get('0/1')?.readBigUInt64BE(), counted.has('0/231')]).toEqual([5n, false]);
  const seen = valuesOf({ event: 'seen' });
  expect([seen.has('0/1'), seen.has('0/231'), seen.get('0/233')?.readUInt8()]).toEqual([false, false, 5]);
});
