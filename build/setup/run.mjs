#!/usr/bin/env node
/**
 * `node build/setup/run.mjs VERB [arguments]`: prepares the host for VERB, then runs it.
 *
 * Plain JavaScript without a dependency: it runs on the host's own Node (18 or newer), before npm has installed anything. Safe to call any
 * number of times and concurrently; does nothing, quickly, when nothing is missing.
 */
import { join } from 'node:path';
import { runForeground } from './commands.mjs';
import {
  arm64Packages,
  browserPackages,
  exportPackages,
  imagePackages,
  installPackages,
  kernelDemoPackages,
  kernelTestPackages,
  kubectlStep,
  kubernetesPackages,
  missingPackages,
  packages,
  releasePackages,
  runtimePackages,
  unpackKubectl,
} from './debian.mjs';
import { downloadKernel, kernelIsThere } from './kernel.mjs';
import { exclusively } from './lock.mjs';
import { installNodePackages, nodePackagesAreThere } from './node-packages.mjs';
import { cache, root, toolPath } from './paths.mjs';
import { make, pinnedNode, staleProducts } from './products.mjs';
import { SetupError, say } from './progress.mjs';
import { verbs } from './verbs.mjs';

const machineLock = '/run/seine-setup.lock';

async function main([name = '', ...args]) {
  const verb = Object.hasOwn(verbs, name) ? verbs[name] : undefined;
  if (verb === undefined) throw new SetupError(`there is no verb "${name}"`, `one of: ${Object.keys(verbs).join(', ')}`);
  if (verb.needs.includes('machine') && process.getuid?.() !== 0)
    throw new SetupError(
      `\`npm run ${name}\` needs root: it installs packages, and makes network namespaces and bridges`,
      `run \`sudo npm run ${name}\`, or use a root shell in a container or virtual machine`,
    );
  await setUp(verb.needs);
  if (verb.run === undefined) return 0;
  const [command, ...rest] = verb.run;
  const script = /\.(ts|mjs)$/.test(command);
  return runForeground(script ? pinnedNode() : command, [...(script ? [join(root, command)] : []), ...rest, ...args], {
    cwd: root,
    env: { ...process.env, PATH: toolPath() },
  });
}

async function setUp(needs) {
  if (needs.includes('machine')) await setUpMachine(needs);
  const local = join(cache, 'setup.lock');
  if (!nodePackagesAreThere()) await exclusively(local, () => nodePackagesAreThere() || installNodePackages());
  if (!needs.includes('products') || staleProducts().length === 0) return;
  await exclusively(local, async () => {
    for (const product of staleProducts()) await make(product);
  });
}

async function setUpMachine(needs) {
  const withKernel = needs.includes('kernel');
  const wanted = {
    ...packages,
    ...(withKernel && kernelDemoPackages),
    ...(needs.includes('kernel tests') && kernelTestPackages),
    ...(needs.includes('arm64') && arm64Packages),
    ...(needs.includes('runtimes') && runtimePackages),
    ...(needs.includes('browser') && browserPackages),
    ...(needs.includes('export') && exportPackages),
    ...(needs.includes('kubernetes') && kubernetesPackages),
    ...(needs.includes('images') && imagePackages),
    ...(needs.includes('release') && releasePackages),
  };
  const isReady = () => missingPackages(wanted).length === 0 && kubectlStep() === 'nothing' && (!withKernel || kernelIsThere());
  if (isReady()) return;
  await exclusively(machineLock, async () => {
    await installPackages(missingPackages(wanted));
    if (kubectlStep() === 'unpack') await unpackKubectl();
    if (withKernel && !kernelIsThere()) await downloadKernel();
  });
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  say(error.message);
  say(`→ ${error.remedy}`);
  process.exitCode = 1;
}
