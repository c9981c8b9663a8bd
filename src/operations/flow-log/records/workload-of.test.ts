import { expect, it } from 'vitest';
import { workloadOf } from './workload-of.ts';

it.each([
  ['web-7d9f8c6b5-x2k4j', 'web'],
  ['cache-server-5b8c9d7f6d-zzxcv', 'cache-server'],
  ['db-0', 'db'],
  ['db-12', 'db'],
  ['node-agent-x2k4j', 'node-agent'],
  ['report-28391040-q7w9z', 'report'],
  ['pod', 'pod'],
  ['client-a', 'client-a'],
  ['api-server', 'api-server'],
])('%s belongs to %s', (name, workload) => {
  expect(workloadOf({ name })).toBe(workload);
});

it('uses the label of the ReplicaSet where it is known', () => {
  expect(workloadOf({ name: 'web-abcdef-x2k4j', templateHash: 'abcdef' })).toBe('web');
});
