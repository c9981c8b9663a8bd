/**
 * `npm run test:modes`: policy and Services see the same in every traffic mode. The suites of the lab that follow upstream's tests, once in
 * each mode; with `--upstream` upstream's own, on a real Kubernetes.
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { runForeground } from './setup/commands.mjs';
import { root } from './setup/paths.mjs';
import { runTests } from './test-run/run-tests.mjs';

const modes = ['noEncap', 'hybrid', 'wireguard'];
/** Suites that do not depend on the mode; the labs have both families. */
const suites = [
  'policy-peers',
  'policy.test',
  'policy-tiers',
  'service-cluster-ip',
  'service-endpoints',
  'service-outside',
  'service-change',
];
const shortSuites = ['policy-peers', 'service-cluster-ip'];
/** Options of the lab with a real Kubernetes, whose nodes are in one subnet. */
const upstreamOptions = {
  noEncap: ['--mode', 'noEncap'],
  hybrid: ['--mode', 'hybrid'],
  wireguard: ['--encryption', 'wireguard'],
};
const help = `npm run test:modes [-- options]: NetworkPolicies and Services in each traffic mode, both families; about ten minutes a mode.
\`npm test\` has both in noEncap, in test/e2e/no-encap.test.ts

  --only LIST   modes, with commas between them: ${modes.join(', ')}; all if absent
  --short       policies by peers and cluster addresses only
  --upstream    upstream's tests of NetworkPolicy and Services on a real Kubernetes instead, with each family first; hours
  -h, --help    this text
`;

const flag = { type: 'boolean' };

function parsed() {
  try {
    const options = { only: { type: 'string' }, short: flag, upstream: flag, help: { ...flag, short: 'h' } };
    const { values } = parseArgs({ options });
    const unknown = values.only?.split(',').find((name) => !modes.includes(name));
    if (unknown !== undefined) throw new Error(`--only ${unknown}: one of ${modes.join(', ')} is wanted`);
    return values;
  } catch (error) {
    process.stderr.write(`test:modes: ${error.message}\n\n${help}`);
    process.exit(2);
  }
}

/** @returns {Promise<number>} exit code */
async function runMode(mode, { short, upstream }) {
  if (upstream) {
    const script = join(root, 'build', 'test-kubernetes.mjs');
    return await runForeground(process.execPath, [
      script,
      '--only',
      'policy,services',
      ...upstreamOptions[mode],
      ...(short ? ['--short'] : []),
    ]);
  }
  const files = (short ? shortSuites : suites).map((name) => `test/e2e/${name}`);
  return await runTests(['--project', 'e2e', '--project', 'waiting', ...files], { ...process.env, SEINE_TEST_MODE: mode });
}

const asked = parsed();
if (asked.help) process.stdout.write(help);
else {
  const failed = [];
  for (const mode of asked.only?.split(',') ?? modes) {
    console.log(`\n▶ ${mode}`);
    if ((await runMode(mode, asked)) !== 0) failed.push(mode);
  }
  if (failed.length > 0) console.log(`\nfailed in ${failed.join(', ')}; \`npm run test:modes -- --only MODE\` repeats one`);
  process.exitCode = failed.length === 0 ? 0 : 1;
}
