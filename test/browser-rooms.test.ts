import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { build, stop } from 'esbuild';
import { afterAll, expect, it } from 'vitest';
import { browserRooms } from './rooms.ts';
import { root } from './support/source-tree.ts';

/* The simulator and the policy engine run in a browser as well: their rooms are bundled for one, and may import nothing of Node.js. */

afterAll(stop);

function sourcesOf(room: string): readonly string[] {
  return readdirSync(join(root, 'src', room))
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .map((name) => `./${join('src', room, name)}`);
}

/** Bundles modules for a browser. @returns the messages of what cannot be bundled */
async function faultsOf(modules: readonly string[]): Promise<readonly string[]> {
  const contents = modules.map((path, at) => `export * as m${at} from '${path}';`).join('\n');
  try {
    await build({
      stdin: { contents, resolveDir: root },
      bundle: true,
      platform: 'browser',
      format: 'esm',
      write: false,
      logLevel: 'silent',
    });
    return [];
  } catch (thrown) {
    return (thrown as { errors: { text: string; location: { file: string } | null }[] }).errors.map(
      ({ text, location }) => `${location?.file}: ${text}`,
    );
  }
}

it('rooms for browsers import nothing of Node.js', async () => {
  const modules = browserRooms.flatMap(sourcesOf);
  expect(modules.length).toBeGreaterThan(100);
  expect(await faultsOf(modules)).toEqual([]);
});

it('an import of Node.js is found, however indirect', async () => {
  expect(await faultsOf(['./src/kubernetes/resources/cluster-policy-api.ts'])).toEqual([
    expect.stringMatching(/^src\/base\/async\/pause\.ts: Could not resolve "node:timers\/promises"/),
  ]);
});
