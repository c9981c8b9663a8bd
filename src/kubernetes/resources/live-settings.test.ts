import { expect, it } from 'vitest';
import { ReplicaStore } from '../client/replica/replica.ts';
import { followSetting, type LiveSettings, liveSettingsKey } from './live-settings.ts';

it('follows a setting, and names a value that does not count until it is corrected', () => {
  const settings = new ReplicaStore<LiveSettings>();
  const warnings = new Map<string, readonly string[]>();
  let version = 0;
  const set = (flowLog: string): void => {
    settings.put(liveSettingsKey, String(++version), { flowLog });
    settings.flush();
  };
  const inForce = followSetting(settings, { name: 'flow log', warnings }, (live) =>
    live?.flowLog === 'maybe' ? { value: 'configured', faults: ['maybe is neither true nor false'] } : { value: live?.flowLog, faults: [] },
  );
  expect([inForce(), [...warnings]]).toEqual([undefined, []]);
  set('true');
  expect([inForce(), [...warnings]]).toEqual(['true', []]);
  set('maybe');
  expect([inForce(), [...warnings]]).toEqual(['configured', [['flow log', ['maybe is neither true nor false']]]]);
  set('false');
  expect([inForce(), [...warnings]]).toEqual(['false', []]);
});
