/**
 * `npm run test:kubernetes`: a real Kubernetes on the nodes of a lab of its own, on which Seine is installed as a user does it, and against which
 * upstream's end-to-end tests of the network run.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { kubernetesVersion, otherControlPlanes } from './kubernetes/programs.mjs';
import { isWhole, ranAgain, summaryOf } from './kubernetes/upstream-report.mjs';
import { focusOf, readResults, sets, surprises } from './kubernetes/upstream-tests.mjs';
import { ask, lastLineOf, runForeground, runLogged } from './setup/commands.mjs';
import { unpackPackage } from './setup/debian.mjs';
import { cache, root } from './setup/paths.mjs';
import { SetupError } from './setup/progress.mjs';
import { runTests } from './test-run/run-tests.mjs';

const nodesUsual = '3';
const procsUsual = '3';
const help = `npm run test:kubernetes [-- options]: tests on a real Kubernetes, which is built if it is not there

  --only SET        install: Seine installed, broken and uninstalled as a user does it; chart: the Helm chart against \`npm run render\`, without a
                    cluster; helm-objects: it installed, upgraded, rolled back and uninstalled at an API server without nodes; helm: the
                    same with agents that run; kube-proxy: beside a real one that comes and goes; scale: what a thousand nodes and
                    twenty thousand pods cost an agent, and agents the API server; api-server:
                    one after another of several versions, as it fails those who follow it; timings: how long pods
                    and Services take, beside the reference plugins and a real kube-proxy; e2e: all of upstream's tests of the network
                    that need no cloud; policy or conformance: a part of those; all but the parts if absent
  --short           a few of upstream's, in one order of the families, and nothing else
  --focus REGEX     those of upstream's whose names match, instead of all
  --versions LIST   of API servers, such as 1.37,1.30; all that there are if absent
  --families LIST   such as ipv6,ipv4; if absent, upstream's once IPv4 first and once IPv6 first, others IPv4 first
  --nodes N         nodes of upstream's lab (${nodesUsual})
  --procs N         upstream's tests side by side (${procsUsual})
  --record          keep what e2e came to for docs/conformance.md, which \`npm run docs\` writes anew; of a part (--focus): which failures
                    did not come again
  --keep            leave the lab as it is after the tests, to be looked at
  -h, --help        this text

Nothing is tried twice. Reports and logs are in .cache/kubernetes.
`;

/** The sets that are ours, in their order. */
const ours = ['chart', 'helm-objects', 'api-server', 'install', 'helm', 'kube-proxy', 'scale', 'timings'];
/** What `helm` talks with where there is no node. */
const controlPlane = 'etcd,kube-apiserver,kube-controller-manager,kubectl';
const orders = ['ipv4,ipv6', 'ipv6,ipv4'];
/** All of upstream's for the network; the other sets are parts of it. */
const whole = 'e2e';
const labFolder = '/run/seine-kubernetes';
const labProgram = join(root, 'bin', 'seine-lab.mjs');
const recordFolder = join(root, 'test', 'fixtures', 'conformance');
const limit = '2h';

const options = {
  only: { type: 'string' },
  short: { type: 'boolean' },
  focus: { type: 'string' },
  families: { type: 'string' },
  versions: { type: 'string' },
  nodes: { type: 'string' },
  procs: { type: 'string' },
  record: { type: 'boolean' },
  keep: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
};

/** What was asked for; ends with a word of help if that is nothing there is. */
function parsed() {
  try {
    const { values } = parseArgs({ options });
    const names = [...ours, ...Object.keys(sets)];
    if (values.only !== undefined && !names.includes(values.only))
      throw new Error(`--only ${values.only}: ${names.join(' or ')} is wanted`);
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
    if ((await lab('up', '--kubernetes', '--nodes', asked.nodes ?? nodesUsual, '--families', families)) !== 0) return false;
    return await runSet(asked.only ?? whole, families, asked);
  } finally {
    if (!asked.keep) await lab('down');
  }
}

async function runSet(set, families, asked) {
  const { kubernetes, nodes } = JSON.parse(readFileSync(join(labFolder, 'lab.json'), 'utf8'));
  const folder = join(cache, 'kubernetes', `${set}-${families.replace(',', '-')}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const { focus, skip } = focusOf(set, asked);
  const ginkgo = [
    `--procs=${asked.procs ?? procsUsual}`,
    '--no-color',
    '--flake-attempts=0',
    `--timeout=${limit}`,
    `--focus=${focus}`,
    `--skip=${skip}`,
  ];
  const kubeconfig = join(labFolder, 'kubeconfig');
  giveZones(join(kubernetes.programs, 'kubectl'), kubeconfig, nodes.length);
  const tests = [`--kubeconfig=${kubeconfig}`, '--provider=skeleton', `--num-nodes=${nodes.length}`];
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
  const file = join(folder, 'report.json');
  if (asked.record && set === whole && isWhole(file))
    record(summaryOf(file, { families, ...factsOf(kubernetes, asked, nodes.length) }), asked);
  return report(set, families, file, failure);
}

/** What ran, to be kept with what it came to. */
function factsOf({ version, programs }, asked, nodes) {
  const first = (command, ...args) => /v?(\d+\.\d+\.\d+)/.exec(ask(command, args) ?? '')?.[1] ?? 'unknown';
  const { version: seine } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const versions = {
    Seine: seine,
    Kubernetes: version,
    containerd: first(join(programs, 'containerd'), '--version'),
    runc: first('runc', '--version'),
    'Open vSwitch': `${first('ovs-vswitchd', '--version')}, in userspace`,
    Linux: first('uname', '--kernel-release'),
    nodes: String(nodes),
    'tests side by side': asked.procs ?? procsUsual,
  };
  return { date: new Date().toISOString().slice(0, 10), command: 'npm run test:kubernetes -- --only e2e', versions };
}

/** A part does not replace what is on record of the whole: it says of failures that they did not come again. */
function record(summary, { focus, short }) {
  const file = join(recordFolder, `e2e-${summary.families.replace(',', '-')}.json`);
  const part = focus !== undefined || short;
  const kept = part ? ranAgain(JSON.parse(readFileSync(file, 'utf8')), summary) : summary;
  mkdirSync(recordFolder, { recursive: true });
  writeFileSync(file, `${JSON.stringify(kept, undefined, 1)}\n`);
}

/** Each node is a zone of its own: tests of topology run where there are three. */
function giveZones(kubectl, kubeconfig, count) {
  for (let number = 1; number <= count; number += 1) {
    const label = `topology.kubernetes.io/zone=zone-${number}`;
    execFileSync(kubectl, ['--kubeconfig', kubeconfig, 'label', '--overwrite', 'node', `node-${number}`, label], { stdio: 'ignore' });
  }
}

/** Says each test that did not pass, and the sums. A run without a result is one that failed. */
function report(set, families, file, failure) {
  const results = readResults(file);
  for (const { name, state, said } of results) if (state !== 'passed') console.log(`✗ ${name}: ${state}: ${said}`);
  const passed = results.filter(({ state }) => state === 'passed').length;
  console.log(`${set}, ${families}: ${passed} passed, ${results.length - passed} failed`);
  if (failure !== undefined && (results.length === 0 || passed === results.length)) console.log(failure.message);
  const unexpected = surprises(results);
  for (const { name, state } of unexpected) if (state === 'passed') console.log(`! ${name}: passed, and was expected to fail`);
  return passed > 0 && unexpected.length === 0 && (failure === undefined || passed < results.length);
}

/**
 * Images take as long as the machine needs for Debian's and npm's packages: built before the tests, of which the longest is known.
 *
 * @returns {Promise<string>} the archive of both
 */
async function builtImages() {
  const archive = join(cache, 'kubernetes', 'images.tar');
  mkdirSync(dirname(archive), { recursive: true });
  const remedy = 'look at the log; what was built so far is kept';
  await runLogged('kubernetes-images', process.execPath, [join(root, 'test', 'kernel', 'export-images.ts'), archive], {
    cwd: root,
    remedy,
  });
  return archive;
}

/** Debian's, which nothing installs: it is a service there. @returns {Promise<string>} where its `bin` is */
async function unpackedPrometheus() {
  const folder = join(cache, 'prometheus-debian');
  if (!existsSync(join(folder, 'usr', 'bin', 'promtool'))) await unpackPackage('prometheus', folder);
  return join(folder, 'usr');
}

/** @returns {Promise<boolean>} did all tests of ours pass? */
async function runOurs(set, asked) {
  if (set !== 'api-server') return await runOne(set, asked);
  let ok = true;
  for (const version of asked.versions?.split(',') ?? [kubernetesVersion(), ...otherControlPlanes()]) {
    const built = await lastLineOf(process.execPath, ['build/kubernetes/build.mjs', '--control-plane', version], { cwd: root });
    if (built === undefined) return false;
    const { version: whole, programs } = JSON.parse(built);
    console.log(`API server ${whole}`);
    ok = (await runOne(set, asked, { SEINE_TEST_CONTROL_PLANE: whole, SEINE_TEST_CONTROL_PLANE_PROGRAMS: programs })) && ok;
  }
  return ok;
}

async function runOne(set, { families = orders[0], keep }, more = {}) {
  if (
    set === 'helm-objects' &&
    (await runForeground(process.execPath, ['build/kubernetes/build.mjs', '--only', controlPlane], { cwd: root })) !== 0
  )
    return false;
  const args = ['--project=kubernetes', '--disable-console-intercept', '--bail=1', `test/kubernetes/${set}.test.ts`];
  const images = ['install', 'helm'].includes(set) ? { SEINE_TEST_IMAGES: await builtImages() } : {};
  const prometheus = set === 'install' ? { SEINE_TEST_PROMETHEUS: await unpackedPrometheus() } : {};
  const env = { ...process.env, SEINE_TEST_FAMILIES: families, ...images, ...prometheus, ...more };
  // What is to stay must not be in the mounts of a run that removes all that is left.
  const kept = () => runForeground('vitest', ['run', ...args], { cwd: root, env: { ...env, SEINE_TEST_KEEP: 'yes' } });
  return (await (keep ? kept() : runTests(args, env))) === 0;
}

const asked = parsed();
if (asked.help) process.stdout.write(help);
else {
  const { only } = asked;
  const wantedOurs = only === undefined ? (asked.short ? [] : ours) : ours.filter((set) => set === only);
  const upstream = ours.includes(only) ? [] : asked.short ? orders.slice(0, 1) : orders;
  const wanted = asked.families === undefined ? upstream : upstream.slice(0, 1).map(() => asked.families);
  let ok = true;
  for (const set of wantedOurs) ok = (await runOurs(set, asked)) && ok;
  for (const families of wanted) ok = (await runOrder(families, asked)) && ok;
  process.exitCode = ok ? 0 : 1;
}
