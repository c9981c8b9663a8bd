import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { delegatedIpam } from './delegated-ipam.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-delegated-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function call(script: string) {
  const path = join(folder, 'slow');
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  const key = { network: 'n', containerId: 'c', ifName: 'eth0', netns: '', args: '' };
  return { ...key, ipamType: 'slow', cniVersion: '1.0.0', pluginFolders: [folder], conf: '{}' } as const;
}

it('waits for no child of a plugin that was stopped', async () => {
  const startedMs = performance.now();
  const work = delegatedIpam.del(call('sleep 20 &\nwait'), AbortSignal.timeout(300));
  await expect(work).rejects.toMatchObject({ code: 'CANCELLED' });
  expect(performance.now() - startedMs).toBeLessThan(10_000);
});

it('stops a plugin with endless output', async () => {
  const work = delegatedIpam.check(call('exec yes'), AbortSignal.timeout(20_000));
  await expect(work).rejects.toMatchObject({ code: 105 });
});
