/** `npm run build:go -- NAME…`: builds Go programs that suites and releases use; prints the path of each. */
import { parseArgs } from 'node:util';
import { SetupError, say } from '../setup/progress.mjs';
import { builtProgram, programNames, programVersion } from './programs.mjs';

const help = `npm run build:go -- NAME [NAME…]: builds programs with Go from pinned modules, and prints their paths

${programNames.map((name) => `  ${name} ${programVersion(name)}`).join('\n')}

The programs go to $XDG_CACHE_HOME/seine/go (~/.cache/seine/go), which may be deleted at any time.
`;

try {
  const { values, positionals } = parseArgs({ options: { help: { type: 'boolean', short: 'h' } }, allowPositionals: true });
  if (values.help || positionals.length === 0) process.stdout.write(help);
  else for (const name of positionals) process.stdout.write(`${await builtProgram(name)}\n`);
} catch (error) {
  say(error.message);
  if (error instanceof SetupError) say(`→ ${error.remedy}`);
  process.exitCode = error.code?.startsWith('ERR_PARSE_ARGS') ? 2 : 1;
}
