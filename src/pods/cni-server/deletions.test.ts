import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { silentLog } from '../../base/log/log.ts';
import { deletionFileName } from '../../cni/deletions.ts';
import { encodeRequest } from '../../cni/wire.ts';
import { RecordedDeletions } from './deletions.ts';

let state: string;
let folder: string;
beforeEach(() => {
  state = mkdtempSync(join(tmpdir(), 'seine-deletions-'));
  folder = join(state, 'deletions');
  mkdirSync(folder);
});
afterEach(() => rmSync(state, { recursive: true, force: true }));

const keyOf = (containerId: string) => ({ network: 'net', containerId, ifName: 'eth0' });
const pathOf = (containerId: string): string => join(folder, deletionFileName(keyOf(containerId)));

function record(containerId: string): void {
  const env = { CNI_COMMAND: 'DEL', CNI_CONTAINERID: containerId, CNI_IFNAME: 'eth0', CNI_NETNS: '', CNI_PATH: '/opt/cni/bin' };
  const conf = JSON.stringify({ cniVersion: '1.0.0', name: 'net', type: 'seine' });
  writeFileSync(pathOf(containerId), encodeRequest({ env, conf, attempt: 1, deadlineMs: 1_000 }));
}

async function listed(): Promise<readonly string[]> {
  const found = await new RecordedDeletions(state, silentLog).list();
  return found.map(({ request }) => request.attachment.containerId).toSorted();
}

it('lists recorded DELs, and drops invalid ones', async () => {
  record('a');
  writeFileSync(pathOf('b'), '{"v":');
  expect(await listed()).toEqual(['a']);
  expect([existsSync(pathOf('a')), existsSync(pathOf('b'))]).toEqual([true, false]);
});

it('removes remains of a killed plugin, and nothing that one is writing', async () => {
  const [left, fresh] = [join(folder, '.new-12-34'), join(folder, '.new-56-78')];
  for (const path of [left, fresh]) writeFileSync(path, '{"v":');
  utimesSync(left, 0, 0);
  record('a');
  expect(await listed()).toEqual(['a']);
  expect([existsSync(left), existsSync(fresh)]).toEqual([false, true]);
});

it('lists the others when a temporary file was deleted before it was read', async () => {
  symlinkSync('gone', join(folder, '.new-12-34'));
  record('a');
  expect(await listed()).toEqual(['a']);
});

it('keeps unreadable files for the next time, and lists the others', async () => {
  record('a');
  mkdirSync(pathOf('b'));
  expect(await listed()).toEqual(['a']);
  expect(existsSync(pathOf('b'))).toBe(true);
});
