import { expect, it } from 'vitest';
import { traceInterval } from './trace-interval.ts';

it.each([
  [undefined, 10_000, 10_000],
  ['0', 10_000, 0],
  ['30s', 0, 30_000],
  ['5m', 10_000, 300_000],
])('%s in the ConfigMap, with %s ms configured, is %s ms', (live, configuredMs, everyMs) => {
  expect(traceInterval(live, configuredMs)).toEqual({ value: everyMs, faults: [] });
});

it.each(['', 'off', '0s', '10', '1h', '-1s', '10000s'])('%j does not count, and the fault names what does', (live) => {
  const { value, faults } = traceInterval(live, 10_000);
  expect(value).toBe(10_000);
  expect(faults).toEqual([
    `trace.background in ConfigMap seine-system/seine-live is ${JSON.stringify(live)}, which is neither 0 nor a time such as 10s: 10s is in force`,
  ]);
});
