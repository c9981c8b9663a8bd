/**
 * `npm run typecheck`: everything that Node runs, and the page, which has the types of a browser instead. What was found is kept in `.cache`:
 * the next run reads changed files only.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { cache, root } from './setup/paths.mjs';

for (const [name, project] of Object.entries({ node: '.', page: 'src/ui/page' })) {
  const args = ['--noEmit', '-p', project, '--incremental', '--tsBuildInfoFile', join(cache, 'types', name)];
  const { status } = spawnSync(join(root, 'node_modules/.bin/tsc'), args, { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
