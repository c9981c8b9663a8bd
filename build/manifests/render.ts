/** `npm run render -- …`: prints the manifest, or writes it. Options are what differs from cluster to cluster; `--help` lists them. */
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { asked, usage } from './asked.ts';
import { manifestText } from './manifest.ts';

try {
  const chosen = asked(process.argv.slice(2));
  const manifest = chosen && `${manifestText(chosen.parts(chosen.options))}\n`;
  if (chosen?.output !== undefined) writeFileSync(resolve(process.env['INIT_CWD'] ?? '.', chosen.output), manifest ?? '');
  else process.stdout.write(manifest ?? usage);
} catch (thrown) {
  process.stderr.write(`render: ${thrown instanceof Error ? thrown.message : String(thrown)}; --help lists the options\n`);
  process.exitCode = 2;
}
