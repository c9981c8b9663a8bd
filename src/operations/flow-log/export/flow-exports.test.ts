import { expect, it, onTestFinished, vi } from 'vitest';
import type { FlowSummary } from '../../../api/flow-log.ts';
import { silentLog } from '../../../base/log/log.ts';
import { parseIp } from '../../../base/net/ip.ts';
import type { FlowRecord } from '../records/flow-record.ts';
import { exportFilter } from './export-filter.ts';
import { readHeaders } from './export-headers.ts';
import type { ExportedItem } from './exported-item.ts';
import { FlowExports } from './flow-exports.ts';
import { otlpRecord } from './otlp-records.ts';

const denied: FlowRecord = {
  ...{ timeMs: 1_000, event: 'denied', verdict: 'denied', reporter: 'destination', protocol: 6 },
  source: { ip: parseIp('10.0.0.5'), port: 40_000, kind: 'pod', name: 'shop/web-7d5b9c7f4-x2x4z' },
  destination: { ip: parseIp('10.0.1.9'), port: 80, kind: 'pod', name: 'data/db-0' },
  service: { ip: parseIp('10.96.0.20'), port: 5_432, name: 'data/db' },
  ingress: { verdict: 'denied', by: ['data/closed'] },
  reason: 'no rule of spec.ingress allows it',
};
const summary: FlowSummary = {
  ...{ source: 'shop/web', destination: 'data/db', protocol: 'TCP', port: 80, verdict: 'denied', rule: 'data/closed', connections: 7 },
};
const noLosses = { sampling: 0, meter: 0, rate: 0, queue: 0, ends: 0, denied: 0, names: 0, kernel: 0, disk: 0 };
const settings = { otlp: { endpoint: '', filter: 'summary' }, ipfix: { filter: 'verdict=denied' } };

function opened() {
  const got: Record<'otlp' | 'ipfix', ExportedItem[]> = { otlp: [], ipfix: [] };
  const state = { wallMs: 65_000, losses: noLosses, minutes: [{ minute: 1, items: [summary], others: 2 }] };
  const receiver = (name: 'otlp' | 'ipfix') => ({
    send: (items: readonly ExportedItem[]) => {
      got[name].push(...items);
      return Promise.resolve({ refused: 0 });
    },
    close: () => {},
  });
  const exports = new FlowExports({
    ...{ settings, node: 'node-1', log: silentLog, losses: () => state.losses },
    clock: { wallMs: () => state.wallMs, steadyMs: () => 0 },
    summaries: { minutesBetween: (first, last) => state.minutes.filter(({ minute }) => minute >= first && minute < last) },
    receivers: { otlp: receiver('otlp'), ipfix: receiver('ipfix') },
  });
  return { exports, state, got };
}

it('exports records that match to one receiver, and finished minutes with their losses to the other', async () => {
  const { exports, state, got } = opened();
  exports.add(denied);
  exports.add({ ...denied, event: 'opened', verdict: 'allowed' });
  exports.exportMinutes(); // the minute is not over
  state.wallMs = 121_000;
  state.losses = { ...noLosses, meter: 3 };
  exports.exportMinutes();
  exports.exportMinutes();
  await exports.close();
  expect(got.ipfix).toEqual([{ kind: 'flow', flow: denied }]);
  expect(got.otlp).toEqual([
    { kind: 'summary', minuteMs: 60_000, summary },
    { kind: 'losses', minuteMs: 60_000, losses: { ...noLosses, meter: 3 }, others: 2 },
  ]);
  expect(exports.all.map(({ name, counts }) => [name, counts.sent])).toEqual([
    ['otlp', 2],
    ['ipfix', 1],
  ]);
});

it('has no export and no timer without a receiver in the settings', () => {
  const setInterval = vi.spyOn(globalThis, 'setInterval');
  onTestFinished(() => setInterval.mockRestore());
  const { clock } = { clock: { wallMs: () => 0, steadyMs: () => 0 } };
  const exports = new FlowExports({
    settings,
    node: 'node-1',
    log: silentLog,
    clock,
    summaries: { minutesBetween: () => [] },
    losses: () => noLosses,
  });
  expect([exports.all, setInterval.mock.calls]).toEqual([[], []]);
});

it('names attributes as OpenTelemetry does, and the pod of this node', () => {
  expect(otlpRecord({ kind: 'flow', flow: denied })).toEqual({
    ...{ timeMs: 1_000, event: 'seine.flow.denied', severity: 'WARN' },
    body: 'denied shop/web-7d5b9c7f4-x2x4z:40000 -> data/db-0:80 TCP',
    attributes: {
      ...{ 'seine.flow.verdict': 'denied', 'seine.flow.reporter': 'destination', 'network.transport': 'tcp', 'network.type': 'ipv4' },
      ...{ 'k8s.namespace.name': 'data', 'k8s.pod.name': 'db-0' },
      ...{ 'source.address': '10.0.0.5', 'source.port': 40_000, 'seine.source.kind': 'pod', 'seine.source.namespace': 'shop' },
      ...{ 'seine.source.pod': 'web-7d5b9c7f4-x2x4z', 'seine.source.workload': 'web' },
      ...{
        'destination.address': '10.0.1.9',
        'destination.port': 80,
        'seine.destination.kind': 'pod',
        'seine.destination.namespace': 'data',
      },
      ...{ 'seine.destination.pod': 'db-0', 'seine.destination.workload': 'db' },
      ...{
        'seine.service.address': '10.96.0.20',
        'seine.service.port': 5_432,
        'seine.service.namespace': 'data',
        'seine.service.name': 'db',
      },
      ...{ 'seine.ingress.verdict': 'denied', 'seine.ingress.rules': ['data/closed'] },
      'seine.flow.reason': 'no rule of spec.ingress allows it',
    },
  });
  const closed: FlowRecord = {
    ...denied,
    event: 'closed',
    verdict: 'allowed',
    bytes: { out: 3, in: 4 },
    packets: { out: 1, in: 2 },
    startedMs: 0,
    endedMs: 5,
  };
  expect(otlpRecord({ kind: 'flow', flow: closed }).attributes).toMatchObject({
    ...{ 'seine.flow.bytes.sent': 3, 'seine.flow.bytes.received': 4, 'seine.flow.packets.sent': 1, 'seine.flow.packets.received': 2 },
    ...{ 'seine.flow.started': '1970-01-01T00:00:00.000Z', 'seine.flow.ended': '1970-01-01T00:00:00.005Z' },
  });
  expect(otlpRecord({ kind: 'summary', minuteMs: 0, summary }).attributes).toMatchObject({
    'seine.flow.connections': 7,
    'seine.source.workload': 'shop/web',
  });
  const losses = otlpRecord({ kind: 'losses', minuteMs: 0, losses: { ...noLosses, rate: 5 }, others: 0 });
  expect(losses).toMatchObject({
    event: 'seine.flow.losses',
    body: 'connections without a record: 5 (rate)',
    attributes: { 'seine.flow.lost.rate': 5 },
  });
});

it.each([
  ['summary', undefined],
  ['all', true],
  ['verdict=denied&namespace=data', true],
  ['verdict=allowed', false],
])('filter %s: %s', (text, expected) => {
  expect(exportFilter(text)?.(denied)).toBe(expected);
});

it('refuses filters that do not exist', () => {
  expect(() => exportFilter('verdicts=denied')).toThrow('"verdicts" is not a filter');
  expect(() => exportFilter('verdict=dropped')).toThrow('verdict: "dropped" is not one of');
});

it('reads headers, and names the line of a wrong one without its value', () => {
  expect(readHeaders('# token\nAuthorization: Bearer a.b\n\nX-Scope-OrgID:  shop \n')).toEqual({
    Authorization: 'Bearer a.b',
    'X-Scope-OrgID': 'shop',
  });
  for (const wrong of ['secret', 'Bad Name: secret', 'A: secret\u0007x']) {
    expect(() => readHeaders(`A: b\n${wrong}`)).toThrow('flowLog.otlp.headersFile: line 2 is not "Name: value"');
    expect(() => readHeaders(`A: b\n${wrong}`)).not.toThrow('secret');
  }
});
