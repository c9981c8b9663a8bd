/**
 * `npm run test:kubernetes`: a real Kubernetes on the nodes of its own lab, on which Seine is installed as a user does it, and on which
 * upstream's end-to-end tests of the network run. The last line has the sums.
 */
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { builtProgram } from './go/programs.mjs';
import { builtHelm } from './helm/program.mjs';
import { runPolicyApi } from './kubernetes/policy-api-run.mjs';
import { containerdVersions, kubernetesVersion, kubernetesVersionBefore, otherControlPlanes } from './kubernetes/programs.mjs';
import { recordPart, recordRun } from './kubernetes/upstream-records.mjs';
import { isWhole, summaryOf } from './kubernetes/upstream-report.mjs';
import { procsUsual, reportFile, runUpstream } from './kubernetes/upstream-run.mjs';
import { readResults, sets, surprises } from './kubernetes/upstream-tests.mjs';
import { ask, lastLineOf, runForeground, runLogged } from './setup/commands.mjs';
import { unpackPackage } from './setup/debian.mjs';
import { exclusively } from './setup/lock.mjs';
import { cache, root } from './setup/paths.mjs';
import { SetupError, say } from './setup/progress.mjs';
import { sayClosingLine } from './test-run/closing-line.mjs';
import { labFolderOf } from './test-run/lab-folder.mjs';
import { readRecord } from './test-run/record.mjs';
import { recordedReleases } from './test-run/releases.mjs';
import { recordFileOf, runTests } from './test-run/run-tests.mjs';

const nodesUsual = '3';
const help = `npm run test:kubernetes [-- options]: tests on a real Kubernetes, which is built if it is not there

  Without options: api-server, install, and e2e with IPv4 first.

  --only LIST       install: Seine installed, broken and uninstalled as a user does it; chart: the Helm chart against \`npm run render\`, without a
                    cluster; helm-objects: it installed, upgraded, rolled back and uninstalled at an API server without nodes; helm: the
                    same with agents that run; kubeadm: clusters that kubeadm makes, with all images from a registry in the lab; kube-proxy: beside a real one that comes and goes; scale: what a thousand nodes and
                    twenty thousand pods cost an agent, and agents the API server; api-server:
                    those of several versions, side by side, as each fails those who follow it; upgrade: the last two releases and
                    this version, one after another and beside each other, under traffic; timings: how long pods
                    and Services take, beside the reference plugins and a real kube-proxy; runtimes: \`npm run test:runtime\` with each
                    containerd that can be built; e2e: all of upstream's tests of the network
                    that need no cloud, once IPv4 first and once IPv6 first; policy, services or conformance: a part of those;
                    policy-api: the conformance suite of ClusterNetworkPolicy, once IPv4 first and once IPv6 first
  --all             all of these, but the parts
  --short           an installation and a few of upstream's tests on it, as CI does; with --only, a few of that set of upstream's
  --focus REGEX     those of upstream's, or of policy-api, whose names match, instead of all
  --versions LIST   of API servers, such as 1.37,1.30; all that there are if absent
  --families LIST   such as ipv6,ipv4
  --nodes N         nodes of upstream's lab (${nodesUsual})
  --procs N         upstream's tests side by side (${procsUsual})
  --pod-interface KIND  auto, standing or veth: what pods get; the agent's default if absent
  --mode MODE       traffic mode of upstream's lab: encap, noEncap or hybrid (encap)
  --datapath TYPE  of Open vSwitch in upstream's lab: netdev or system (netdev)
  --emulated       with longer limits of policy-api, for an emulated machine
  --encryption KIND  wireguard: encryption between the nodes of upstream's lab
  --record          keep what e2e came to for docs/records/conformance.md, which \`npm run docs\` regenerates; of a part (--focus): which failures
                    did not come again
  --keep            leave the lab as it is after the tests, to be looked at
  -h, --help        this text

Nothing is tried twice. Reports and logs are in .cache/kubernetes.
`;

/** Our own sets, in their order. */
const ours = [
  'chart',
  'helm-objects',
  'api-server',
  'install',
  'helm',
  'kubeadm',
  'upgrade',
  'kube-proxy',
  'scale',
  'timings',
  'runtimes',
  'policy-api',
];
/** The conformance suite of ClusterNetworkPolicy. */
const policyApi = 'policy-api';
/** Set that CI runs. */
const short = 'short';
/** Sets that install the images of this checkout. */
const withImages = ['install', 'helm', 'kubeadm', 'upgrade', short];
/** Number of previous releases that `upgrade` also installs. */
const releasesInstalled = 2;
/** Sets that need no programs, or others. */
const withoutPrograms = ['chart', 'api-server'];
/** Programs that `helm` needs without a node. */
const controlPlane = 'etcd,kube-apiserver,kube-controller-manager,kubectl';
const orders = ['ipv4,ipv6', 'ipv6,ipv4'];
/** All of upstream's for the network; the other sets are parts of it. */
const whole = 'e2e';
const usual = ['api-server', 'install', whole];
const labFolder = labFolderOf('kubernetes');
const labProgram = join(root, 'bin', 'seine-lab.mjs');
const recordFolder = join(root, 'test', 'fixtures', 'conformance');

const withValue = ['only', 'focus', 'families', 'versions', 'nodes', 'procs', 'pod-interface', 'mode', 'encryption', 'datapath'];
const options = {
  ...Object.fromEntries(withValue.map((name) => [name, { type: 'string' }])),
  ...Object.fromEntries(['all', 'short', 'emulated', 'record', 'keep'].map((name) => [name, { type: 'boolean' }])),
  help: { type: 'boolean', short: 'h' },
};

/** Parses the command line; ends with an error for an unknown option. */
function parsed() {
  try {
    const { values } = parseArgs({ options });
    const names = [...ours, ...Object.keys(sets)];
    const unknown = values.only?.split(',').find((name) => !names.includes(name));
    if (unknown !== undefined) throw new Error(`--only ${unknown}: ${names.join(' or ')} is wanted`);
    for (const name of ['nodes', 'procs'])
      if (values[name] !== undefined && !/^[1-9]\d?$/.test(values[name]))
        throw new Error(`--${name} ${values[name]}: a whole number is wanted`);
    return values;
  } catch (error) {
    process.stderr.write(`test:kubernetes: ${error.message}\n\n${help}`);
    process.exit(2);
  }
}

/** The names of the requested sets. */
function setsOf({ only, all, focus, short: few }) {
  if (only !== undefined) return only.split(',');
  if (all) return [...ours, whole];
  if (few) return [short];
  return focus === undefined ? usual : [whole];
}

/** Families with which each set runs. */
function familiesOf(set, { only, all, families, short: few }) {
  if (families !== undefined) return [families];
  return !(set in sets || set === policyApi) || few || (only === undefined && !all) ? orders.slice(0, 1) : orders;
}

/** Sums of all that ran. Upstream's expected failures that failed are in neither. */
const sums = { passed: 0, failed: 0 };

/** @returns {boolean} true if all of them passed */
function add(passed, failed) {
  sums.passed += passed;
  sums.failed += failed;
  return failed === 0;
}

function lab(...args) {
  return runForeground(process.execPath, [labProgram, ...args], { env: { ...process.env, SEINE_LAB_DIR: labFolder } });
}

/** @returns {Promise<boolean>} true if all of them passed */
async function runOrder(set, families, asked) {
  return await inLab(families, asked, async (nodes) => {
    const { file, failure, kubernetes } = await runUpstream({ set, families, labFolder }, asked);
    if (asked.record && set === whole && isWhole(file)) record(summaryOf(file, { families, ...factsOf(kubernetes, asked, nodes) }), asked);
    return report(set, families, file, failure);
  });
}

/**
 * Runs tests on a lab with the agents of this checkout.
 *
 * @param {(nodes: string) => Promise<boolean>} work
 * @returns {Promise<boolean>} what it returns; false if there is no lab
 */
async function inLab(families, asked, work) {
  if ((await lab('down')) !== 0) return add(0, 1);
  try {
    const nodes = asked.nodes ?? nodesUsual;
    const given = ['pod-interface', 'mode', 'encryption', 'datapath'].filter((name) => asked[name] !== undefined);
    const more = given.flatMap((name) => [`--${name}`, asked[name]]);
    if ((await lab('up', '--kubernetes', '--nodes', nodes, '--families', families, ...more)) !== 0) return add(0, 1);
    return await work(nodes);
  } finally {
    if (!asked.keep) await lab('down');
  }
}

/** Facts of the run, to be kept with its results. */
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
    nodes,
    'tests side by side': asked.procs ?? procsUsual,
  };
  return { date: new Date().toISOString().slice(0, 10), command: 'npm run test:kubernetes -- --only e2e', versions };
}

/** A part does not replace the record of the whole: it marks failures that did not recur. Runs in another mode or on another data path are not recorded. */
function record(summary, { focus, short: few, mode, encryption, datapath }) {
  if ([mode, encryption, datapath].some((each) => each !== undefined)) return;
  if (focus !== undefined || few) recordPart(recordFolder, summary);
  else recordRun(recordFolder, summary);
}

/** Prints each test that did not pass, and the sums. A run without a result counts as failed. */
function report(set, families, file, failure) {
  const results = readResults(file);
  for (const { name, state, said } of results) if (state !== 'passed') console.log(`✗ ${name}: ${state}: ${said}`);
  const passed = results.filter(({ state }) => state === 'passed').length;
  const unexpected = surprises(results);
  const known = results.length - passed - unexpected.filter(({ state }) => state !== 'passed').length;
  console.log(
    `${set}, ${families}: ${passed} passed, ${results.length - passed} failed, ${known} of these as docs/records/conformance.md says`,
  );
  const isWithoutCause = failure !== undefined && (passed === 0 || passed === results.length);
  if (isWithoutCause) console.log(failure.message);
  for (const { name, state } of unexpected) if (state === 'passed') console.log(`! ${name}: passed, and was expected to fail`);
  return add(passed, unexpected.length + (passed === 0 || isWithoutCause ? 1 : 0));
}

/**
 * Builds images before the tests, whose durations are limited: Debian's and npm's packages take long.
 *
 * @param which a released version, or `older-ovs`; the checkout if absent
 * @returns {Promise<string>} their archive
 */
async function builtImages(which) {
  const archive = join(cache, 'kubernetes', which === undefined ? 'images.tar' : `images-${which}.tar`);
  mkdirSync(dirname(archive), { recursive: true });
  const remedy = 'look at the log; what was built so far is kept';
  const command = [join(root, 'test', 'kernel', 'export-images.ts'), archive, ...(which === undefined ? [] : [which])];
  // Another run of this checkout would delete the archive.
  await exclusively(join(cache, 'kubernetes', 'images.lock'), () =>
    runLogged('kubernetes-images', process.execPath, command, { cwd: root, remedy }),
  );
  return archive;
}

/** @returns {Promise<string>} the archives of a set, separated by commas */
async function imagesOf(set) {
  const archives = [await builtImages()];
  const [newest] = recordedReleases();
  const others = { upgrade: [...recordedReleases().slice(0, releasesInstalled), 'older-ovs'], kubeadm: [newest] }[set] ?? [];
  for (const which of others) archives.push(await builtImages(which));
  return archives.join(',');
}

/** Debian's Prometheus, not installed, because it would be a service. @returns {Promise<string>} folder of its `bin` */
async function unpackedPrometheus() {
  const folder = join(cache, 'prometheus-debian');
  if (!existsSync(join(folder, 'usr', 'bin', 'promtool'))) await unpackPackage('prometheus', folder);
  return join(folder, 'usr');
}

/** @returns {Promise<string>} its path */
async function builtCrictl() {
  const built = await lastLineOf(process.execPath, ['build/kubernetes/build.mjs', '--crictl'], { cwd: root });
  if (built === undefined) throw new SetupError('crictl was not built', 'see the output above');
  return join(JSON.parse(built).programs, 'crictl');
}

/** Programs that the pages for operators use besides Seine. */
const forPages = async () => ({ SEINE_TEST_PROMETHEUS: await unpackedPrometheus(), SEINE_TEST_CRICTL: await builtCrictl() });

/** @returns {Promise<unknown>} what build/kubernetes/build.mjs reports */
async function builtKubernetes(...args) {
  const reported = await lastLineOf(process.execPath, ['build/kubernetes/build.mjs', ...args], { cwd: root });
  if (reported === undefined) throw new SetupError('Kubernetes was not built', 'read the messages above');
  return JSON.parse(reported);
}

/** Programs, images and tools of clusters that kubeadm makes. */
async function forKubeadm() {
  const programs = {
    whole: await builtKubernetes(),
    current: await builtKubernetes('--kubeadm', kubernetesVersion()),
    before: await builtKubernetes('--kubeadm', kubernetesVersionBefore()),
    runc: join((await builtKubernetes('--runc')).programs, 'runc'),
    crane: await builtProgram('crane'),
    helm: await builtHelm(),
  };
  return { SEINE_TEST_KUBEADM: JSON.stringify(programs) };
}

/** @returns {Promise<boolean>} true if all tests of the suite passed that could run */
async function runPolicySuite(families, asked) {
  const built = await builtKubernetes('--policy-api');
  return await inLab(families, asked, async () => {
    const { results, log, failure, isReduced } = await runPolicyApi({ families, labFolder }, asked, built);
    for (const { name, state, seconds, leftOut } of results)
      console.log(
        `${state === 'passed' ? ' ' : '✗'} ${name}: ${state}, ${seconds} s${leftOut > 0 ? `, ${leftOut} attempts by SCTP left out` : ''}`,
      );
    const passed = results.filter(({ state }) => state === 'passed').length;
    console.log(`policy-api, ${families}: ${passed} of ${results.length} passed${isReduced ? ', without SCTP' : ''}; ${log}`);
    if (failure && passed === results.length) console.log(failure.message);
    return add(passed, Math.max(results.length - passed, passed === 0 || failure !== undefined ? 1 : 0));
  });
}

/** @returns {Promise<boolean>} true if all of our tests passed */
async function runOurs(set, families, asked) {
  if (set === policyApi) return await runPolicySuite(families, asked);
  if (set === 'runtimes') return await runRuntimes(asked);
  if (set === short) return await runShort(families, asked);
  return await (set === 'api-server' ? runApiServers(families, asked) : runOne(set, families, asked));
}

/** Runs them concurrently, once all are built: most of the time each waits for a server to start, or for an agent to retry. */
async function runApiServers(families, asked) {
  const servers = [];
  for (const version of asked.versions?.split(',') ?? [kubernetesVersion(), ...otherControlPlanes()]) {
    const built = await lastLineOf(process.execPath, ['build/kubernetes/build.mjs', '--control-plane', version], { cwd: root });
    if (built === undefined) return add(0, 1);
    servers.push(JSON.parse(built));
  }
  const runs = servers.map(({ version, programs }) => {
    const env = { SEINE_TEST_CONTROL_PLANE: version, SEINE_TEST_CONTROL_PLANE_PROGRAMS: programs };
    return runOne('api-server', families, asked, { env, name: `api-server-${version}` });
  });
  return (await Promise.all(runs)).every(Boolean);
}

/** Its tests run upstream's, and their report is the result. */
async function runShort(families, asked) {
  const file = reportFile(whole, families, { short: true });
  rmSync(file, { force: true });
  const ok = await runOne(short, families, asked);
  return ok ? report(whole, families, file) : false;
}

/** They need their own packages, so the set-up comes before each. */
async function runRuntimes({ 'pod-interface': kind }) {
  const pods = kind === undefined ? [] : ['--pod-interface', kind];
  let ok = true;
  for (const version of containerdVersions) {
    const command = [join(root, 'build', 'setup', 'run.mjs'), 'test:runtime', '--containerd', version, ...pods];
    const code = await runForeground(process.execPath, command, { cwd: root });
    ok = add(code === 0 ? 1 : 0, code === 0 ? 0 : 1) && ok;
  }
  return ok;
}

/** Builds programs before the tests, whose durations are limited: the first build takes minutes. */
async function builtPrograms(set) {
  if (withoutPrograms.includes(set)) return true;
  const some = set === 'helm-objects' ? ['--only', controlPlane] : [];
  return (await lastLineOf(process.execPath, ['build/kubernetes/build.mjs', ...some], { cwd: root })) !== undefined;
}

/** Files of a set in groups. Groups run side by side: clusters of kubeadm spend most of the time in roll-outs, which wait for each node. */
function fileGroupsOf(set) {
  const parts = set === 'kubeadm' ? [['', '-kube-proxy'], ['-upgrade']] : [['']];
  return parts.map((group) => group.map((part) => `test/kubernetes/${set}${part}.test.ts`));
}

async function runOne(set, families, { keep, 'pod-interface': kind }, { env: more, name = set } = {}) {
  if (!(await builtPrograms(set))) return add(0, 1);
  const images = withImages.includes(set) ? { SEINE_TEST_IMAGES: await imagesOf(set) } : {};
  const beside = { install: forPages, kubeadm: forKubeadm }[set];
  const pods = kind === undefined ? {} : { SEINE_TEST_POD_INTERFACE: kind };
  const env = { ...process.env, SEINE_TEST_FAMILIES: families, ...pods, ...images, ...(await beside?.()), ...more };
  const runs = fileGroupsOf(set).map((files, index) => runFiles(files, env, { keep, name: index === 0 ? name : `${name}-${index + 1}` }));
  return (await Promise.all(runs)).every(Boolean);
}

/** Runs files one after the other. @returns {Promise<boolean>} true if all their tests passed */
async function runFiles(files, env, { keep, name }) {
  const args = ['--project=kubernetes', '--disable-console-intercept', '--bail=1', ...files];
  // Files that must stay must not be in the mounts of a run that removes its remains.
  const kept = () => runForeground('vitest', ['run', ...args], { cwd: root, env: { ...env, SEINE_TEST_KEEP: 'yes' } });
  const code = await (keep ? kept() : runTests(args, env, { name }));
  const { passed, failed } = readRecord(recordFileOf(name)) ?? { passed: 0, failed: 0 };
  return add(passed, failed > 0 || code === 0 ? failed : 1) && code === 0;
}

/** The requirements of a set could not be built: it failed, and the next may not. */
function notSetUp(error) {
  if (!(error instanceof SetupError)) throw error;
  say(error.message);
  say(`→ ${error.remedy}`);
  return add(0, 1);
}

const asked = parsed();
if (asked.help) process.stdout.write(help);
else {
  const runs = setsOf(asked).flatMap((set) => familiesOf(set, asked).map((families) => ({ set, families })));
  for (const { set, families } of runs) {
    console.log(`\n▶ ${set}, ${families}`);
    const ok = await (set in sets ? runOrder(set, families, asked) : runOurs(set, families, asked)).catch(notSetUp);
    if (!ok) process.exitCode = 1;
  }
  sayClosingLine(sums);
}
