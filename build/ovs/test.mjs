/**
 * `npm run test:ovs`: the suites on Open vSwitch of other Debian releases, which is downloaded once; or any command with one of them first
 * in PATH. See programs.mjs.
 */
import { parseArgs } from 'node:util';
import { lastLineOf, runForeground } from '../setup/commands.mjs';
import { root } from '../setup/paths.mjs';
import { pinnedNode } from '../setup/products.mjs';
import { SetupError, say } from '../setup/progress.mjs';
import { sayClosingLine } from '../test-run/closing-line.mjs';
import { readRecord } from '../test-run/record.mjs';
import { recordFile, runTests } from '../test-run/run-tests.mjs';
import { debianOf, ovsEnvironment } from './programs.mjs';

const help = `npm run test:ovs -- [options] [-- COMMAND…]: the suites on other versions of Open vSwitch

  --version LIST  which, with commas between them: ${Object.keys(debianOf).join(', ')}; without it, all but the machine's own
  --only LIST     parts: demo, integration, e2e, chaos, upgrade; all without it. upgrade takes a node from the machine's own version to
                  this one and back, under traffic
  --path TEXT     of a test's file, for integration and e2e: only those that have it
  -h, --help      this text

With a COMMAND that runs, and nothing else: \`npm run test:ovs -- --version 3.5 -- bin/seine-lab.mjs up\`.

The programs go to $XDG_CACHE_HOME/seine/ovs (~/.cache/seine/ovs), some 80 MB a version, which may be deleted at any time.
`;

const text = { type: 'string' };
const options = { version: text, only: text, path: text, help: { type: 'boolean', short: 'h' } };

/** Command of a part; resolves to its exit code and the numbers of passed and failed tests. */
const parts = {
  demo,
  integration: (env, path) => tests(['--project', 'integration', ...path], env),
  e2e: (env, path) => tests(['--project', 'e2e', '--project', 'waiting', ...path], env),
  chaos: async (env) => counted(await script(['test/chaos/main.ts'], env)),
  upgrade: (_, __, other) => tests(['--project', 'ovs'], { ...process.env, SEINE_TEST_OVS: JSON.stringify(other) }),
};

/** Counts each of its checks, if all pass. */
async function demo(env) {
  const args = ['lab/demo.ts', '--dir', `/run/seine-ovs-${process.pid}`, '--down', '--json'];
  const last = await lastLineOf(pinnedNode(), args, { cwd: root, env });
  return last === undefined ? counted(1) : counted(0, { passed: JSON.parse(last).checks.length, failed: 0 });
}

async function tests(args, env) {
  const code = await runTests(args, env);
  return counted(code, readRecord(recordFile));
}

function counted(code, { passed = code === 0 ? 1 : 0, failed = 0 } = {}) {
  return { code, passed, failed: failed > 0 || code === 0 ? failed : 1 };
}

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
  if (values.help) return void process.stdout.write(help);
  const versions = listed('version', values.version, Object.keys(debianOf));
  const wanted = listed('only', values.only, Object.keys(parts));
  const results = [];
  for (const version of versions) {
    const more = await ovsEnvironment(version);
    if (values.version === undefined && Object.keys(more).length === 0) continue;
    const env = { ...process.env, ...more };
    if (positionals.length > 0) results.push({ code: await commandOn(positionals, env) });
    else for (const part of wanted) results.push(await partOn({ version, env: more }, part, env, values.path));
  }
  if (positionals.length === 0) sayClosingLine(sumOf(results));
  process.exitCode = results.find(({ code }) => code !== 0)?.code ?? 0;
}

function sumOf(results) {
  const of = (key) => results.reduce((sum, result) => sum + result[key], 0);
  return { passed: of('passed'), failed: of('failed') };
}

function commandOn([command, ...args], env) {
  return /\.(?:ts|mjs)$/.test(command) ? script([command, ...args], env) : runForeground(command, args, { cwd: root, env });
}

async function partOn(other, part, env, path) {
  const { version } = other;
  console.log(`\n▶ Open vSwitch ${version}: ${part}`);
  const started = Date.now();
  const result = await parts[part](env, path === undefined ? [] : [path], other);
  console.log(`${result.code === 0 ? '✓' : '✗'} Open vSwitch ${version}: ${part} (${Math.round((Date.now() - started) / 1000)} s)`);
  return result;
}

try {
  await main();
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  say(`${error.message}\n→ ${error.remedy}`);
  // A release that is missing on the mirror is a failure: it was requested and not tested.
  sayClosingLine({ passed: 0, failed: 1 });
  process.exitCode = 1;
}
