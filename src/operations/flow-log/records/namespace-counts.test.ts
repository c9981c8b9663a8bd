import { expect, it } from 'vitest';
import { parseIp } from '../../../base/net/ip.ts';
import type { FlowRecord } from './flow-record.ts';
import { NamespaceCounts } from './namespace-counts.ts';

const end = (namespace: string): FlowRecord['source'] => ({ ip: parseIp('10.0.0.5'), kind: 'pod', name: `${namespace}/web-1` });
const record = (from: string, to: string, event: FlowRecord['event'] = 'opened'): FlowRecord => ({
  ...{ timeMs: 0, event, verdict: event === 'denied' ? 'denied' : 'allowed', reporter: 'source', protocol: 6 },
  ...{ source: end(from), destination: end(to) },
});

it('counts a connection once for each namespace of its ends, and an end of one not again', () => {
  const counts = new NamespaceCounts();
  for (const each of [record('shop', 'data'), record('shop', 'shop'), record('shop', 'data', 'denied'), record('shop', 'data', 'closed')])
    counts.add(each);
  expect(counts.all).toEqual([
    ['shop', 'allowed', 2],
    ['data', 'allowed', 1],
    ['shop', 'denied', 1],
    ['data', 'denied', 1],
  ]);
});

it('counts namespaces beyond a hundred series together', () => {
  const counts = new NamespaceCounts();
  for (let number = 0; number < 150; number++) counts.add(record(`team-${number}`, `team-${number}`));
  expect([counts.all.length, counts.all.at(-1)]).toEqual([101, ['(other)', 'allowed', 50]]);
});
