import { expect, it } from 'vitest';
import { LabVersions } from './status.ts';

it('reads the version of Open vSwitch once, however often the status is asked for', async () => {
  let started = 0;
  const versions = new LabVersions(async () => {
    started++;
    return 'ovs-vswitchd (Open vSwitch) 3.1.0\n';
  });
  const { signal } = new AbortController();
  for (let count = 0; count < 3; count++) expect((await versions.read(signal))['openvswitch']).toBe('3.1.0');
  expect(started).toBe(1);
});
