import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-plugin-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it('does not wait for a child that outlives its plugin', async () => {
  const plugin = join(folder, 'slow');
  writeFileSync(plugin, '#!/bin/sh\nsleep 20 &\nwait\n');
  chmodSync(plugin, 0o755);
  const asking = `
    import { runPlugin } from ${JSON.stringify(new URL('./plugin-program.ts', import.meta.url).href)};
    const ask = { command: 'VERSION', binDir: '/', stdin: '{}' };
    await runPlugin(${JSON.stringify(plugin)}, ask, AbortSignal.timeout(300)).catch(({ code }) => console.log(code));
  `;
  const startedMs = performance.now();
  const child = spawn(process.execPath, ['--input-type=module', '--eval', asking], { stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  await once(child, 'exit');
  expect(said).toBe('UNAVAILABLE\n');
  expect(performance.now() - startedMs).toBeLessThan(15_000);
});
