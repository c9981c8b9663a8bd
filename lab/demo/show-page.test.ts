import { existsSync, mkdtempSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { showPage } from './show-page.ts';

const folder = mkdtempSync(join(tmpdir(), 'seine-show-page-'));
afterAll(() => rmSync(folder, { recursive: true }));

function program(text: string): string {
  const path = join(folder, 'page.mjs');
  writeFileSync(path, text);
  return path;
}

const never = new AbortController().signal;

it('runs seinectl ui with the kubeconfig of the lab, and returns its exit code', async () => {
  const said = join(folder, 'words');
  const path = program(
    `import { writeFileSync } from 'node:fs'; writeFileSync(${JSON.stringify(said)}, process.argv.slice(2).join(' ')); process.exitCode = 3;`,
  );
  expect(await showPage('/lab/kubeconfig', never, path)).toBe(3);
  expect(readFileSync(said, 'utf8')).toBe('ui --kubeconfig /lab/kubeconfig');
});

it('ends the page with the demo', async () => {
  const started = join(folder, 'started');
  const path = program(
    `import { writeFileSync } from 'node:fs'; process.on('SIGTERM', () => process.exit(7)); setInterval(() => {}, 1000); writeFileSync(${JSON.stringify(started)}, '');`,
  );
  const demo = new AbortController();
  const isStarted = new Promise<void>((resolve) => {
    const watcher = watch(folder, () => {
      if (!existsSync(started)) return;
      watcher.close();
      resolve();
    });
  });
  const code = showPage('/lab/kubeconfig', demo.signal, path);
  await isStarted;
  demo.abort();
  expect(await code).toBe(7);
});
