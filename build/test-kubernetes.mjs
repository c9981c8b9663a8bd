/**
 * `npm run test:kubernetes`: a real Kubernetes on the nodes of a lab of its own, on which Seine is installed as a user does it, and against which
 * upstream's end-to-end tests of the network run.
 */
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { focusOf, readResults, sets } from './kubernetes/upstream-tests.mjs';
import { runForeground, runLogged } from './setup/commands.mjs';
import { cache, root } from './setup/paths.mjs';
import { SetupError } from './setup/progress.mjs';
import { runTests } from './test-run/run-tests.mjs';

const help = `npm run test:kubernetes [-- options]: tests on a real Kubernetes, which is built if it is not there

  --only SET        install: Seine installed, broken and uninstalled as a user does it; chart: the Helm chart against \`npm run render\`, without a
                    cluster; helm: it installed, upgraded, rolled back and uninstalled by the real helm; ${Object.keys(sets).join(' or ')}: upstream's tests; all if absent
  --short           a few of upstream's, in one order of the families
  --focus REGEX     those of upstream's whose names match, instead of all
  --families LIST   such as ipv6,ipv4; if absent, upstream's once IPv4 first and once IPv6 first, install IPv4 first
  --nodes N         nodes of upstream's lab (2)
  --procs N         upstream's tests side by side (3)
  --keep            leave the lab as it is after the tests, to be looked at
  -h, --help        this text

Nothing is tried twice. Reports and logs are in .cache/kubernetes.
`;

/** The sets that are ours, in their order. */
const ours = ['chart', 'install', 'helm'];
const orders = ['ipv4,ipv6', 'ipv6,ipv4'];
const labFolder = '/run/seine-kubernetes';
const labProgram = join(root, 'bin', 'seine-lab.mjs');
const limit = '2h';

const options = {
  only: { type: 'string' },
  short: { type: 'boolean' },
  focus: { type: 'string' },
  families: { type: 'string' },
  nodes: { type: 'string' },
  procs: { type: 'string' },
  keep: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
};

/** What was asked for; ends with a word of help if that is nothing there is. */
function parsed() {
  try {
    const { values } = parseArgs({ options });
    if (values.only !== undefined && !ours.includes(values.only) && !Object.hasOwn(sets, values.only))
      throw new Error(`--only ${values.only}: ${[...ours, ...Object.keys(sets)].join(' or ')} is wanted`);
    for (const name of ['nodes', 'procs'])
      if (values[name] !== undefined && !/^[1-9]\d?$/.test(values[name]))
        throw new Error(`--${name} ${values[name]}: a whole number is wanted`);
    return values;
  } catch (error) {
    process.stderr.write(`test:kubernetes: ${error.message}\n\n${help}`);
    process.exit(2);
  }
}

function lab(...args) {
  return runForeground(process.execPath, [labProgram, ...args], { env: { ...process.env, SEINE_LAB_DIR: labFolder } });
}

/** @returns {Promise<boolean>} did all of them pass? */
async function runOrder(families, asked) {
  if ((await lab('down')) !== 0) return false;
  try {
    if ((await lab('up', '--kubernetes', '--nodes', asked.nodes ?? '2', '--families', families)) !== 0) return false;
    let ok = true;
    for (const set of asked.only === undefined ? Object.keys(sets) : [asked.only]) ok = (await runSet(set, families, asked)) && ok;
    return ok;
  } finally {
    if (!asked.keep) await lab('down');
  }
}

async function runSet(set, families, asked) {
  const { kubernetes } = JSON.parse(readFileSync(join(labFolder, 'lab.json'), 'utf8'));
  const folder = join(cache, 'kubernetes', `${set}-${families.replace(',', '-')}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const { focus, skip } = focusOf(set, asked);
  const ginkgo = [
    `--procs=${asked.procs ?? 3}`,
    '--no-color',
    '--flake-attempts=0',
    `--timeout=${limit}`,
    `--focus=${focus}`,
    `--skip=${skip}`,
  ];
  const tests = [`--kubeconfig=${join(labFolder, 'kubeconfig')}`, '--provider=skeleton', `--num-nodes=${asked.nodes ?? 2}`];
  const reports = ['--json-report=report.json', '--junit-report=junit.xml', `--output-dir=${folder}`];
  const name = `kubernetes-${set}-${families.replace(',', '-')}`;
  const failure = await runLogged(
    name,
    join(kubernetes.programs, 'ginkgo'),
    [...ginkgo, ...reports, join(kubernetes.programs, 'e2e.test'), '--', ...tests],
    {
      cwd: folder,
      env: { PATH: `${kubernetes.programs}:${process.env.PATH}` },
      remedy: `look at the log, and at ${folder}`,
    },
  ).catch((error) => {
    if (error instanceof SetupError) return error;
    throw error;
  });
  return report(set, families, join(folder, 'report.json'), failure);
}

/** Says each test that did not pass, and the sums. A run without a result is one that failed. */
function report(set, families, file, failure) {
  const results = readResults(file);
  for (const { name, state, said } of results) if (state !== 'passed') console.log(`✗ ${name}: ${state}: ${said}`);
  const passed = results.filter(({ state }) => state === 'passed').length;
  console.log(`${set}, ${families}: ${passed} passed, ${results.length - passed} failed`);
  if (failure !== undefined && (results.length === 0 || passed === results.length)) console.log(failure.message);
  return failure === undefined && passed > 0 && passed === results.length;
}

/** @returns {Promise<boolean>} did all of them pass? */
async function runOurs(set, { families = orders[0], keep }) {
  const args = ['--project=kubernetes', '--disable-console-intercept', '--bail=1', `test/kubernetes/${set}.test.ts`];
  const env = { ...process.env, SEINE_TEST_FAMILIES: families };
  // What is to stay must not be in the mounts of a run that removes all that is left.
  const kept = () => runForeground('vitest', ['run', ...args], { cwd: root, env: { ...env, SEINE_TEST_KEEP: 'yes' } });
  return (await (keep ? kept() : runTests(args, env))) === 0;
}

const asked = parsed();
if (asked.help) process.stdout.write(help);
else {
  const { only } = asked;
  const upstream = ours.includes(only) ? [] : asked.short ? orders.slice(0, 1) : orders;
  const wanted = asked.families === undefined ? upstream : upstream.slice(0, 1).map(() => asked.families);
  let ok = true;
  for (const set of ours) if (only === undefined || only === set) ok = (await runOurs(set, asked)) && ok;
  for (const families of wanted) ok = (await runOrder(families, asked)) && ok;
  process.exitCode = ok ? 0 : 1;
}
