/** `npm run release:seinectl`: `seinectl` as one file for Linux nodes, for each architecture, of the commit that is checked out. */
import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../setup/paths.mjs';
import { buildArguments, buildRows, chosenArchitectures } from './build-options.ts';
import { commonRows, type OptionValues } from './options.ts';
import { type Architecture, filesFolder, fromCaller, imagesFolder } from './record.ts';
import { type Runner, runStep } from './step.ts';

const rows = { out: commonRows.out, ...buildRows } as const;

async function main(values: OptionValues<keyof typeof rows>, runner: Runner): Promise<void> {
  const out = fromCaller(values.text('out'));
  const buildFile = async (architecture: Architecture) => {
    const folder = imagesFolder(out, architecture);
    if (!runner.isDry) mkdirSync(folder, { recursive: true });
    const prefix = `localhost/seine-release/${architecture}`;
    const args = buildArguments({ values, architecture, prefix, out: folder, only: ['seinectl'] });
    await runner.run(process.execPath, [join(root, 'build', 'images', 'build.mjs'), ...args]);
    const file = join(filesFolder(out), `seinectl-linux-${architecture}`);
    if (runner.isDry) return runner.note(`would write: ${file}`);
    mkdirSync(filesFolder(out), { recursive: true });
    copyFileSync(join(folder, 'seinectl'), file);
    runner.note(file);
  };
  for (const architecture of chosenArchitectures(values)) await buildFile(architecture);
}

await runStep({ name: 'release:seinectl', about: 'builds seinectl as one file for each architecture', rows, run: main });
