import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { SeineError } from '../../src/base/errors/seine-error.ts';

const self = fileURLToPath(import.meta.url);
const launcher = join('bin', 'seine-lab.mjs');

/** The folder of Seine's package: the checkout, or where the package is installed. The lab's own manifest is in a folder below. */
export const packageRoot = rootAbove(dirname(self));

/** The command that starts this program again. */
export const labProgram = join(packageRoot, launcher);

const description = z
  .object({ version: z.string(), config: z.object({ 'agent-environment': z.string(), 'agent-node-flags': z.string() }) })
  .parse(JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')));

export const packageVersion = description.version;

/** Options of node for the agent. */
export const agentFlags: readonly string[] = description.config['agent-node-flags'].split(' ');

/** Environment variables of the agent, as in the image. */
export const agentEnvironment: Readonly<Record<string, string>> = Object.fromEntries(
  description.config['agent-environment'].split(' ').map((each) => each.split('=')),
);

/**
 * Script that node runs as the agent: from sources if the lab runs from sources, else the bundle. `npm test` sets `SEINE_LAB_AGENT=bundle`,
 * whose bundle is up to date and starts in a seventh of the CPU time.
 */
export function agentProgram(): string {
  const isSource = extname(self) === '.ts' && process.env['SEINE_LAB_AGENT'] !== 'bundle';
  return isSource ? join(packageRoot, 'src', 'agent', 'main.ts') : join(packageRoot, 'dist', 'seine-agent.mjs');
}

/** Debian's folder of CNI plugins, which are chained after Seine's. */
export const debianPlugins = '/usr/lib/cni';

/**
 * Creates the programs of a node in a folder under their own names: the plugin and seinectl.
 *
 * @returns the folders that plugins are searched in
 * @throws SeineError `REFUSED` if the plugin was never built
 */
export function installPrograms(folder: string): string[] {
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  const plugin = join(packageRoot, 'dist', 'bin', 'seine');
  if (!existsSync(plugin)) throw new SeineError('REFUSED', `the plugin is not built: ${plugin} is missing; run \`npm run setup\``);
  link(plugin, join(folder, 'seine'));
  link(join(packageRoot, 'bin', 'seinectl.mjs'), join(folder, 'seinectl'));
  return [folder, debianPlugins];
}

function link(target: string, path: string): void {
  rmSync(path, { force: true });
  symlinkSync(target, path);
}

function rootAbove(folder: string): string {
  if (existsSync(join(folder, launcher))) return folder;
  if (dirname(folder) === folder) throw new SeineError('INVARIANT', `${self} is in no package`);
  return rootAbove(dirname(folder));
}
