import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { FakeFleet, fakeStatus } from '../support/fake-fleet.ts';

const root = resolve(import.meta.dirname, '../..');

/**
 * Asks a `seinectl ui` of its own process for the view Now of a fake cluster, again and again.
 *
 * @returns its resident memory after each refresh (MiB)
 */
export async function memoryOfRefreshes(folder: string, nodes: number, refreshes: number): Promise<readonly number[]> {
  const agents = Array.from({ length: nodes }, (_, at) => ({ node: `node-${at}`, reply: { answer: fakeStatus(`node-${at}`) } }));
  const fleet = new FakeFleet({ agents, paths: { '/v1/drops': '{"items":[]}' } });
  const kubeconfig = join(folder, 'kubeconfig-of-process');
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      clusters: [{ name: 'here', cluster: { server: `http://127.0.0.1:${await fleet.listen()}` } }],
      contexts: [{ name: 'here', context: { cluster: 'here' } }],
      'current-context': 'here',
    }),
  );
  const child = spawn(process.execPath, [join(root, 'dist/seinectl.mjs'), 'ui', '--no-open', '--kubeconfig', kubeconfig], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const [address = ''] = await new Promise<readonly string[]>((found, failed) => {
      createInterface(child.stdout).once('line', (line) => found([line]));
      child.once('exit', (code) => failed(new Error(`seinectl ended with ${code}`)));
    });
    const { headers } = await fetch(address, { redirect: 'manual' });
    const cookie = (headers.get('set-cookie') ?? '').split(';')[0] ?? '';
    const memory: number[] = [];
    for (let turn = 0; turn < refreshes; turn++) {
      const answer = await fetch(new URL('/api/now', address), { headers: { cookie } });
      if (!answer.ok) throw new Error(`the view Now answers with ${answer.status}: ${await answer.text()}`);
      await answer.text();
      memory.push(residentMiB(child.pid ?? 0));
    }
    return memory;
  } finally {
    child.kill();
    await fleet.close();
  }
}

function residentMiB(pid: number): number {
  const [, kib = '0'] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Math.round(Number(kib) / 1_024);
}
