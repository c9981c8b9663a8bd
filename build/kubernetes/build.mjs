/**
 * `npm run build:kubernetes`: a real Kubernetes from Go modules, into a cache outside of the tree. The last line of standard output is
 * JSON: the version, the folder of the programs, and that of their images.
 *
 * Plain JavaScript, like the set-up: the lab runs it as well.
 */
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { ask, runLogged } from '../setup/commands.mjs';
import { exclusively } from '../setup/lock.mjs';
import { SetupError, say } from '../setup/progress.mjs';
import { imageFolder, makeImages } from './images.mjs';
import { kubeadmImageFolder, kubeadmImageNames, makeKubeadmImages } from './kubeadm-images.mjs';
import { variants as policyApiVariants, writeChangedModule } from './policy-api-variants.mjs';
import {
  containerdOf,
  containerdVersions,
  controlPlaneOf,
  controlPlanePrograms,
  crictl,
  kubeadmOf,
  kubernetesVersion,
  modulesFolder,
  otherControlPlanes,
  policyApiSuite,
  programFolder,
  programs,
  runc,
} from './programs.mjs';

const help = `npm run build:kubernetes [-- options]: builds what \`seine-lab up --kubernetes\` runs, once; by Go, from modules by name

  --only LIST              these programs only, with commas between them
  --control-plane VERSION  API server, controllers and scheduler of one version alone, with etcd and kubectl: what
                           \`seine-lab up --control-plane\` runs; ${[kubernetesVersion(), ...otherControlPlanes()].map(minorOf).join(', ')}
  --containerd VERSION     containerd of one version alone: ${containerdVersions.join(', ')}
  --crictl                 \`crictl\` alone, with which the test of the pages looks at a runtime
  --policy-api             the conformance suite of ClusterNetworkPolicy alone, as it is, without SCTP and with longer limits, and its resource definition
  --runc                   runc alone, which containerd of kubeadm's nodes calls; needs gcc and libseccomp-dev
  --kubeadm VERSION        kubeadm of one version, and its kubelet if the version is not ${kubernetesVersion()}
  --list                   what there is to build, and what is there
  -h, --help               this text

The programs go to $XDG_CACHE_HOME/seine/kubernetes (~/.cache/seine/kubernetes), which may be deleted at any time. From nothing
it takes some twelve minutes on two processors and 9 GB of disk, most of it in Go's own caches; a control plane of another version five.
`;

/** Go 1.21 is the first that downloads the release which a module requires. */
const oldestMinor = 21;
const installGo = `install Go 1.${oldestMinor} or newer (Debian: \`apt-get install -t bookworm-backports golang-go\`, or https://go.dev/dl), so that \`go version\` finds it`;

/** @throws SetupError naming the missing installation */
function needGo() {
  const said = ask('go', ['version']);
  if (said === undefined) throw new SetupError('a real Kubernetes is built from source, and this machine has no `go`', installGo);
  const [, major, minor] = /go(\d+)\.(\d+)/.exec(said) ?? [];
  if (Number(major) === 1 && Number(minor) < oldestMinor)
    throw new SetupError(`a real Kubernetes is built from source, and this is ${said.trim()}`, installGo);
}

/**
 * Builds missing programs. Each program is moved to its place when complete: an interrupted one is built again, the others stay.
 *
 * @param {string} folder destination
 * @param {typeof programs} wanted
 * @param {string} of subject and version, for progress
 */
async function buildPrograms(folder, wanted, of) {
  const missing = () => wanted.filter(({ name }) => !existsSync(join(folder, name)));
  if (missing().length === 0) return;
  needGo();
  await exclusively(join(dirname(folder), 'build.lock'), async () => {
    mkdirSync(folder, { recursive: true });
    const all = missing();
    for (const [index, program] of all.entries())
      await build(folder, program, `${of} (${index + 1} of ${all.length}; the first ones take minutes, once)`);
  });
}

const ofKubernetes = (version = kubernetesVersion()) => `Kubernetes ${version}`;

const named = (only) => programs.filter(({ name }) => only === undefined || only.includes(name));

/** A folder with all programs of a control plane of this version. */
async function madeControlPlane(version) {
  const whole = programFolder();
  await buildPrograms(whole, named(version === kubernetesVersion() ? controlPlanePrograms : ['etcd', 'kubectl']), ofKubernetes());
  if (version === kubernetesVersion()) return { version, programs: whole };
  const { folder, programs: own } = controlPlaneOf(version);
  await buildPrograms(folder, own, ofKubernetes(version));
  for (const name of controlPlanePrograms) {
    if (existsSync(join(folder, name))) continue;
    const draft = join(folder, `.${name}.${process.pid}`);
    copyFileSync(join(whole, name), draft);
    renameSync(draft, join(folder, name));
  }
  return { version, programs: folder };
}

async function madeContainerd(version) {
  const { folder, programs: wanted } = containerdOf(version);
  await buildPrograms(folder, wanted, `containerd ${version}`);
  return { version, programs: folder };
}

async function madeCrictl() {
  const { folder, programs: wanted } = crictl();
  await buildPrograms(folder, wanted, 'cri-tools');
  return { programs: folder };
}

/** The conformance suite of ClusterNetworkPolicy and its variants, with the resource definition of its experimental channel. */
async function madePolicyApi() {
  const { folder, programs: wanted } = policyApiSuite();
  const definition = join(folder, 'clusternetworkpolicies.yaml');
  const paths = Object.fromEntries(Object.entries(wanted).map(([key, { name }]) => [key, join(folder, name)]));
  if (![...Object.values(paths), definition].every((path) => existsSync(path))) {
    needGo();
    mkdirSync(folder, { recursive: true });
    const requiring = wanted.suite.folder;
    const module = moduleFolder(requiring, 'sigs.k8s.io/network-policy-api');
    const changed = Object.entries(policyApiVariants).map(([key, changes]) => {
      const modfile = writeChangedModule({ module, requiring, folder: join(folder, key) }, changes);
      return { ...wanted[key], args: [...wanted[key].args, `-modfile=${modfile}`] };
    });
    await buildPrograms(folder, [wanted.suite, ...changed], 'the conformance suite of ClusterNetworkPolicy');
    copyFileSync(join(module, 'config/crd/experimental/policy.networking.k8s.io_clusternetworkpolicies.yaml'), definition);
  }
  return { ...paths, definition };
}

async function madeRunc() {
  const { folder, programs: wanted } = runc();
  await buildPrograms(folder, wanted, 'the Open Container Initiative');
  return { programs: folder };
}

/**
 * kubeadm and the kubelet of one version, and archives of the images that kubeadm asks for. Only the version of the whole Kubernetes has kube-proxy.
 */
async function madeKubeadm(version) {
  const { folder, programs: wanted } = kubeadmOf(version);
  await buildPrograms(folder, wanted, `Kubernetes ${version}`);
  const { programs: controlPlane } = await madeControlPlane(version);
  const whole = programFolder();
  const isWhole = version === kubernetesVersion();
  await buildPrograms(whole, named(['coredns', 'kubelet', 'kube-proxy', 'containerd', 'containerd-shim-runc-v2', 'ctr']), ofKubernetes());
  const names = kubeadmImageNames.filter((name) => isWhole || name !== 'kube-proxy');
  const folderOf = (name) => (name === 'pause' ? folder : controlPlanePrograms.includes(name) ? controlPlane : whole);
  const sources = names.map((name) => [name, join(folderOf(name), name)]);
  const images = kubeadmImageFolder(folder);
  await exclusively(join(dirname(folder), 'kubeadm-images.lock'), () => makeKubeadmImages(Object.fromEntries(sources), images));
  return { version, kubeadm: join(folder, 'kubeadm'), kubelet: join(isWhole ? whole : folder, 'kubelet'), images };
}

/** Images contain all programs, so there are none while one is missing. */
async function made(only) {
  const folder = programFolder();
  await buildPrograms(folder, named(only), ofKubernetes());
  const images = imageFolder(folder);
  if (!existsSync(images) && programs.every(({ name }) => existsSync(join(folder, name))))
    await exclusively(join(dirname(folder), 'build.lock'), () => existsSync(images) || makeImages({ programs: folder, porter: porter() }));
  return { version: kubernetesVersion(), programs: folder, images };
}

/** Folder of agnhost's sources with its server's certificate. */
function porter() {
  return join(moduleFolder(join(modulesFolder, 'kubernetes'), 'k8s.io/kubernetes'), 'test/images/agnhost/porter');
}

/** Folder of a module's sources in Go's cache, downloaded if it is missing. @param {string} cwd folder of a module that requires it */
function moduleFolder(cwd, module) {
  spawnSync('go', ['mod', 'download', module], { cwd });
  const { stdout } = spawnSync('go', ['list', '-m', '-f', '{{.Dir}}', module], { cwd, encoding: 'utf8' });
  return stdout.trim();
}

async function build(folder, { name, folder: cwd, path, args, env }, which) {
  say(`building ${name} of ${which}`);
  const started = Date.now();
  const draft = join(folder, `.${name}.draft`);
  await runLogged(`kubernetes-${name}`, 'go', [...args, '-o', draft, path], {
    cwd,
    env: { CGO_ENABLED: '0', ...env },
    remedy: 'look at the log; modules come from where `go env GOPROXY` says, and a newer Go by GOTOOLCHAIN=auto',
  });
  renameSync(draft, join(folder, name));
  say(`built ${name} in ${Math.round((Date.now() - started) / 1000)} s`);
}

function list() {
  const folder = programFolder();
  const lines = programs.map(({ name, path }) => `${existsSync(join(folder, name)) ? 'there  ' : 'missing'}  ${name}  ${path}`);
  const others = otherControlPlanes().map((version) => {
    const { folder: place, programs: own } = controlPlaneOf(version);
    return `${own.every(({ name }) => existsSync(join(place, name))) ? 'there  ' : 'missing'}  control plane ${version}, ${place}`;
  });
  return `Kubernetes ${kubernetesVersion()}, ${folder}\n${[...lines, ...others].join('\n')}\n`;
}

/** Minor version, such as `1.30`. */
function minorOf(version) {
  return version.split('.').slice(0, 2).join('.');
}

/** The version of a control plane, by its minor version or whole. @throws Error if there is none */
function controlPlaneVersion(text) {
  const all = [kubernetesVersion(), ...otherControlPlanes()];
  const found = all.find((version) => [version, minorOf(version)].includes(text.replace(/^v/, '')));
  if (found === undefined) throw new Error(`--control-plane ${JSON.stringify(text)}: one of ${all.map(minorOf).join(', ')} is wanted`);
  return found;
}

/** @throws SetupError naming an unknown option or program */
function parsed() {
  const options = {
    only: { type: 'string' },
    'control-plane': { type: 'string' },
    containerd: { type: 'string' },
    crictl: { type: 'boolean' },
    'policy-api': { type: 'boolean' },
    runc: { type: 'boolean' },
    kubeadm: { type: 'string' },
    list: { type: 'boolean' },
    help: { type: 'boolean', short: 'h' },
  };
  const remedy = '`npm run build:kubernetes -- --help` says what there is';
  try {
    const { only, 'control-plane': asked, ...rest } = parseArgs({ options }).values;
    const names = only?.split(',');
    const unknown = names?.find((name) => !programs.some((program) => program.name === name));
    if (unknown !== undefined) throw new Error(`no program ${JSON.stringify(unknown)}`);
    if (rest.containerd !== undefined && !containerdVersions.includes(rest.containerd))
      throw new Error(`--containerd ${JSON.stringify(rest.containerd)}: one of ${containerdVersions.join(', ')} is wanted`);
    const ofVersion = (text) => (text === undefined ? undefined : controlPlaneVersion(text));
    return { names, controlPlane: ofVersion(asked), ...rest, kubeadm: ofVersion(rest.kubeadm) };
  } catch (error) {
    throw new SetupError(error.message, remedy);
  }
}

try {
  const {
    names,
    controlPlane,
    containerd,
    crictl: client,
    'policy-api': suite,
    runc: starter,
    kubeadm,
    list: listed,
    help: asked,
  } = parsed();
  if (asked) process.stdout.write(help);
  else if (listed) process.stdout.write(list());
  else if (containerd) process.stdout.write(`${JSON.stringify(await madeContainerd(containerd))}\n`);
  else if (client) process.stdout.write(`${JSON.stringify(await madeCrictl())}\n`);
  else if (suite) process.stdout.write(`${JSON.stringify(await madePolicyApi())}\n`);
  else if (starter) process.stdout.write(`${JSON.stringify(await madeRunc())}\n`);
  else if (kubeadm) process.stdout.write(`${JSON.stringify(await madeKubeadm(kubeadm))}\n`);
  else process.stdout.write(`${JSON.stringify(await (controlPlane ? madeControlPlane(controlPlane) : made(names)))}\n`);
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  say(error.message);
  say(`→ ${error.remedy}`);
  process.exitCode = 1;
}
