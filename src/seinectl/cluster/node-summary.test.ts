import { expect, it } from 'vitest';
import { summaryOf } from './node-summary.ts';

const status = {
  versions: { seine: '0.25.0', node: '24', ovs: '3.5.0' },
  readiness: { state: 'ready' },
  problems: [],
  healthChecks: [],
  bridge: { dataPath: 'netdev' },
  networkPolicy: {},
};

it.each([
  ['no problems', 'no problems'],
  ['not all checked', 'not all checked'],
  ['a verdict of a later release', 'unknown'],
  [undefined, 'unknown'],
])('reads the verdict %s of an agent as %s', (verdict, expected) => {
  expect(summaryOf(JSON.stringify({ ...status, verdict })).verdict).toBe(expected);
});
