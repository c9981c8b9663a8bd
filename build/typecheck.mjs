/** `npm run typecheck`: everything that Node runs, and the page, which has the types of a browser instead. */
import { spawnSync } from 'node:child_process';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');
for (const project of ['.', 'src/ui/page']) {
  const { status } = spawnSync(join(root, 'node_modules/.bin/tsc'), ['--noEmit', '-p', project], { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
