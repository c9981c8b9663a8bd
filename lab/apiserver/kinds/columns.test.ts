import { expect, it } from 'vitest';
import type { ApiObject } from '../object/api-object.ts';
import { humanAge, type PrinterColumn } from '../resource/resource.ts';
import { nodeColumns, podColumns, serviceColumns } from './columns-core.ts';
import { endpointSliceColumns } from './columns-groups.ts';

const createdMs = Date.parse('2026-01-01T00:00:00Z');

function row(columns: readonly PrinterColumn[], parts: Partial<ApiObject>): string {
  const metadata = { name: 'x', uid: 'u', resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z', ...parts.metadata };
  const object: ApiObject = { apiVersion: 'v1', kind: 'X', ...parts, metadata };
  return columns.map((column) => column.cell(object, createdMs + 60_000)).join(' | ');
}

for (const [seconds, text] of [
  [0, '0s'],
  [119, '119s'],
  [120, '2m'],
  [185, '3m5s'],
  [3599, '59m'],
  [10_800, '3h'],
  [12_000, '3h20m'],
  [36_000, '10h'],
  [180_000, '2d2h'],
  [864_000, '10d'],
  [800 * 86_400, '2y70d'],
] as const) {
  it(`${seconds} seconds are ${text}`, () => {
    expect(humanAge('2026-01-01T00:00:00Z', createdMs + seconds * 1000)).toBe(text);
  });
}

it('shows a pod as kubectl does', () => {
  const containers = [
    { name: 'a', image: 'x' },
    { name: 'b', image: 'x' },
  ];
  const containerStatuses = [
    { name: 'a', ready: true, restartCount: 2 },
    { name: 'b', ready: false, restartCount: 1, state: { waiting: { reason: 'CrashLoopBackOff' } } },
  ];
  const status = { phase: 'Running', podIPs: [{ ip: '10.0.0.1' }], containerStatuses };
  expect(row(podColumns, { spec: { containers, nodeName: 'n1' }, status })).toBe(
    'x | 1/2 | CrashLoopBackOff | 3 | 60s | 10.0.0.1 | n1 | <none> | <none>',
  );
});

it('shows services, nodes and slices', () => {
  const spec = { type: 'LoadBalancer', clusterIP: '10.96.0.1', ports: [{ port: 80, nodePort: 30_080, protocol: 'TCP' }] };
  expect(row(serviceColumns, { spec })).toBe('x | LoadBalancer | 10.96.0.1 | <pending> | 80:30080/TCP | 60s | <none>');
  const status = { conditions: [{ type: 'Ready', status: 'False' }], addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] };
  expect(row(nodeColumns.slice(0, 6), { spec: { unschedulable: true }, status })).toBe(
    'x | NotReady,SchedulingDisabled | <none> | 60s |  | 192.0.2.1',
  );
  const endpoints = ['a', 'b', 'c', 'd'].map((address) => ({ addresses: [address] }));
  expect(row(endpointSliceColumns, { addressType: 'FQDN', ports: null, endpoints })).toBe('x | FQDN | <unset> | a,b,c + 1 more... | 60s');
});
