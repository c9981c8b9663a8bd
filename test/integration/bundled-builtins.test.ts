import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build, stop } from 'esbuild';
import { afterAll, expect, it } from 'vitest';
import { builtinsAsAsked } from '../../build/esbuild/lazy-builtins.mjs';

const folder = mkdtempSync(join(tmpdir(), 'seine-bundled-'));

afterAll(async () => {
  await stop();
  rmSync(folder, { recursive: true, force: true });
});

/** @returns output of a bundle of these lines */
async function bundled(lines: readonly string[]): Promise<unknown> {
  const outfile = join(folder, 'program.mjs');
  const stdin = { contents: lines.join('\n'), loader: 'ts', resolveDir: folder } as const;
  const banner = { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" };
  await build({ stdin, outfile, bundle: true, platform: 'node', format: 'esm', minifySyntax: true, banner, plugins: [builtinsAsAsked] });
  return JSON.parse(execFileSync(process.execPath, [outfile], { encoding: 'utf8' }));
}

it('creates no HTTP client of Node’s for importers of node:http', async () => {
  const made = "process.moduleLoadList.filter((name) => name.includes('undici'))";
  expect(await bundled(["import http from 'node:http';", `console.log(JSON.stringify([typeof http.request, ${made}]))`])).toEqual([
    'function',
    [],
  ]);
  const named = ["import { Agent, request } from 'node:http';", `console.log(JSON.stringify([typeof request, typeof Agent, ${made}]))`];
  expect(await bundled(named)).toEqual(['function', 'function', []]);
});

it('loads assert for the log only when a condition is checked', async () => {
  const root = join(import.meta.dirname, '../..');
  const loaded = "process.moduleLoadList.includes('NativeModule assert')";
  const lines = [`import { SonicBoom } from '${root}/node_modules/sonic-boom/index.js';`, `const before = ${loaded};`];
  const written = "const log = new SonicBoom({ fd: 2, sync: true }); log.write(''); log.flushSync();";
  const ended = `const after = ${loaded}; log.on('finish', () => console.log(JSON.stringify([before, after, ${loaded}]))); log.end();`;
  expect(await bundled([...lines, written, ended])).toEqual([false, false, true]);
});

it('provides named, whole, default and type imports', async () => {
  const program = [
    "import { createHash, type Hash } from 'node:crypto';",
    "import * as path from 'node:path';",
    "import { EventEmitter, once } from 'node:events';",
    "import { setTimeout as sleep } from 'node:timers/promises';",
    'class Own extends EventEmitter {}',
    "const hash: Hash = createHash('md5').update('');",
    "const own = new Own(); sleep(1).then(() => own.emit('done', path.posix.join('a', 'b')));",
    "once(own, 'done').then((given) => console.log(JSON.stringify([hash.digest('hex'), given])));",
  ];
  expect(await bundled(program)).toEqual(['d41d8cd98f00b204e9800998ecf8427e', ['a/b']]);
});
