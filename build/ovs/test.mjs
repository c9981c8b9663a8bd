/**
 * `npm run test:ovs`: the suites on Open vSwitch of other Debian releases, which is fetched once; or any command with one of them first
 * in PATH. See programs.mjs.
 */
import { parseArgs } from 'node:util';
import { runForeground } from '../setup/commands.mjs';
import { root } from '../setup/paths.mjs';
import { pinnedNode } from '../setup/products.mjs';
import { SetupError, say } from '../setup/progress.mjs';
import { runTests } from '../test-run/run-tests.mjs';
import { debianOf, ovsEnvironment } from './programs.mjs';

const help = `npm run test:ovs -- [options] [-- COMMAND…]: the suites on other versions of Open vSwitch

  --version LIST  which, with commas between them: ${Object.keys(debianOf).join(', ')}; without it, all but the machine's own
  --only LIST     parts: demo, integration, e2e, torture, upgrade; all without it. upgrade takes a node from the machine's own version to
                  this one and back, under traffic
  --path TEXT     of a test's file, for integration and e2e: only those that have it
  -h, --help      this text

With a COMMAND that runs, and nothing else: \`npm run test:ovs -- --version 3.5 -- bin/seine-lab.mjs up\`.

The programs go to $XDG_CACHE_HOME/seine/ovs (~/.cache/seine/ovs), some 80 MB a version, which may be deleted at any time.
`;

const text = { type: 'string' };
const options = { version: text, only: text, path: text, help: { type: 'boolean', short: 'h' } };

/** What a part runs; resolves to its exit code. */
const parts = {
  demo: (env) => script(['src/lab/demo.ts', '--dir', `/run/seine-ovs-${process.pid}`, '--down'], env),
  integration: (env, path) => runTests(['--project', 'integration', ...path], env),
  e2e: (env, path) => runTests(['--project', 'e2e', ...path], env),
  torture: (env) => script(['test/torture/main.ts'], env),
  upgrade: (_, __, other) => runTests(['--project', 'ovs'], { ...process.env, SEINE_TEST_OVS: JSON.stringify(other) }),
};

function script(args, env) {
  return runForeground(pinnedNode(), args, { cwd: root, env });
}

function listed(name, given, known) {
  const all = given === undefined ? known : given.split(',');
  const wrong = all.find((one) => !known.includes(one));
  if (wrong !== undefined) throw new SetupError(`--${name}: there is no ${wrong}`, `some of ${known.join(', ')}`);
  return all;
}

async function main() {
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  if (values.help) {
    process.stdout.write(help);
    return 0;
  }
  const versions = listed('version', values.version, Object.keys(debianOf));
  const wanted = listed('only', values.only, Object.keys(parts));
  const codes = [];
  for (const version of versions) {
    const more = await ovsEnvironment(version);
    if (values.version === undefined && Object.keys(more).length === 0) continue;
    const env = { ...process.env, ...more };
    if (positionals.length > 0) codes.push(await commandOn(positionals, env));
    else for (const part of wanted) codes.push(await partOn({ version, env: more }, part, env, values.path));
  }
  return codes.find((code) => code !== 0) ?? 0;
}

function commandOn([command, ...args], env) {
  return /\.(?:ts|mjs)$/.test(command) ? script([command, ...args], env) : runForeground(command, args, { cwd: root, env });
}

async function partOn(other, part, env, path) {
  const { version } = other;
  console.log(`\n▶ Open vSwitch ${version}: ${part}`);
  const started = Date.now();
  const code = await parts[part](env, path === undefined ? [] : [path], other);
  console.log(`${code === 0 ? '✓' : '✗'} Open vSwitch ${version}: ${part} (${Math.round((Date.now() - started) / 1000)} s)`);
  return code;
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  say(`${error.message}\n→ ${error.remedy}`);
  process.exitCode = 1;
}
