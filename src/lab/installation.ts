import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { SeineError } from '../errors/seine-error.ts';

const self = fileURLToPath(import.meta.url);

/** The command that starts us again. */
export const labProgram = (): string => join(packageRoot, 'bin', 'seine-lab.mjs');

/** The folder of the package this code belongs to. */
export const packageRoot = rootAbove(dirname(self));

const description = z
  .object({ version: z.string(), config: z.object({ 'agent-node-flags': z.string() }) })
  .parse(JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')));

export const packageVersion = description.version;

/** Of node, for the agent. */
export const agentFlags: readonly string[] = description.config['agent-node-flags'].split(' ');

/** What node runs as the agent: from sources if we run from sources, else the bundle. */
export function agentProgram(): string {
  return extname(self) === '.ts' ? join(packageRoot, 'src', 'agent', 'main.ts') : join(packageRoot, 'dist', 'seine-agent.mjs');
}

/** Where Debian puts the plugins that are chained after ours. */
export const debianPlugins = '/usr/lib/cni';

/**
 * Fills a folder with the programs a node of the lab has under their own names: the plugin and seinectl.
 *
 * @returns the folders plugins are looked for in
 * @throws SeineError `REFUSED` if the plugin was never built
 */
export function installPrograms(folder: string): string[] {
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  const plugin = join(packageRoot, 'dist', 'bin', 'seine');
  if (!existsSync(plugin)) throw new SeineError('REFUSED', `the plugin is not built: ${plugin} is missing; \`npm run setup\` makes it`);
  link(plugin, join(folder, 'seine'));
  link(join(packageRoot, 'bin', 'seinectl.mjs'), join(folder, 'seinectl'));
  return [folder, debianPlugins];
}

function link(target: string, path: string): void {
  rmSync(path, { force: true });
  symlinkSync(target, path);
}

function rootAbove(folder: string): string {
  if (existsSync(join(folder, 'package.json'))) return folder;
  if (dirname(folder) === folder) throw new SeineError('INVARIANT', `${self} is in no package`);
  return rootAbove(dirname(folder));
}
