/**
 * `npm run demo:kernel`: the demo on the kernel's data path, in a virtual machine, because the host's own kernel may lack Open vSwitch and
 * must not be changed. Arguments go to the demo. `--smoke` runs a short check of the guest itself; `--script FILE [arguments]` runs
 * anything else.
 */
import { readFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { dist, root, toolPath } from '../setup/paths.mjs';
import { pinnedNode } from '../setup/products.mjs';
import { SetupError, say } from '../setup/progress.mjs';
import { runWithOneMoreBoot } from './one-more-boot.mjs';
import { logsOf } from './vm.mjs';

/** Far above the duration on an idle host: detects a hang. */
const limitSeconds = 1_800;

function jobFor([first, ...rest]) {
  if (first === '--smoke') return readFileSync(join(import.meta.dirname, 'smoke.sh'), 'utf8');
  const command =
    first === '--script'
      ? ['bash', resolve(rest[0] ?? ''), ...rest.slice(1)]
      : [pinnedNode(), join(dist, 'seine-demo.mjs'), '--datapath', 'system', '--down', ...(first === undefined ? [] : [first, ...rest])];
  return `cd ${quote(root)} && PATH=${quote(toolPath())} exec ${command.map(quote).join(' ')}\n`;
}

function quote(word) {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

const words = process.argv.slice(2);
if (words.includes('--help') && !words[0].startsWith('--s')) {
  process.stdout.write(
    'Usage: npm run demo:kernel -- [--smoke | --script FILE [ARGUMENTS] | options of the demo: npm run demo -- --help]\n',
  );
  process.exit();
}
say('booting a virtual machine');
try {
  const name = words[0] === '--script' ? `script-${basename(words[1] ?? '')}` : words[0] === '--smoke' ? 'smoke' : 'demo';
  process.exitCode = await runWithOneMoreBoot({ name, script: jobFor(words), limitSeconds });
  say(`logs are in ${logsOf(name)}`);
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  say(error.message);
  say(`→ ${error.remedy}`);
  process.exitCode = 1;
}
