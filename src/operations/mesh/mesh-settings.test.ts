import { expect, it } from 'vitest';
import { meshSettings } from './mesh-settings.ts';

const configured = { intervalMs: 10_000, peers: 16 };

it('takes valid values of the ConfigMap, and the configured ones otherwise', () => {
  expect(meshSettings(configured)).toEqual({ value: configured, faults: [] });
  expect(meshSettings(configured, { meshInterval: '1m', meshPeers: '4' })).toEqual({
    value: { intervalMs: 60_000, peers: 4 },
    faults: [],
  });
  expect(meshSettings(configured, { meshInterval: '0' }).value.intervalMs).toBe(0);
  expect(meshSettings(configured, { meshPeers: '0' }).value.peers).toBe(0);
});

it.each(['', '10', '-1s', '1h', '999ms', '11m', '10 s'])('names an interval that is none: %j', (meshInterval) => {
  const { value, faults } = meshSettings(configured, { meshInterval });
  expect(value).toEqual(configured);
  expect(faults).toEqual([
    expect.stringContaining(`mesh.interval in ConfigMap seine-system/seine-live: ${JSON.stringify(meshInterval)} is neither`),
  ]);
});

it.each(['65', '-1', 'all', '1.5', ''])('names a number of peers that is none: %j', (meshPeers) => {
  const { value, faults } = meshSettings(configured, { meshPeers });
  expect(value).toEqual(configured);
  expect(faults).toEqual([
    expect.stringContaining(`mesh.peers in ConfigMap seine-system/seine-live: ${JSON.stringify(meshPeers)} is not a number`),
  ]);
});
