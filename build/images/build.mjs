/**
 * `npm run build:images`: both images of a commit, reproducibly, and the provenance of each.
 *
 * The content is that of the commit, never of the working tree; files have the time of the commit, whatever the clock shows.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { root } from '../setup/paths.mjs';
import { argumentsOf, provenanceOf } from './provenance.mjs';

const help = `npm run build:images -- [options] [-- options of podman build]: both images of a commit, by podman

  --registry NAME     images are NAME/agent and NAME/ovs, with the version of the commit as their tag (seine.invalid)
  --commit REVISION   of this repository; HEAD if absent. What no commit holds is not built
  --base IMAGE        Debian 12, instead of what the Dockerfiles name; of Open vSwitch too, unless that has its own:
  --ovs-base IMAGE    Debian 12 or newer, of which Open vSwitch is
  --build-base IMAGE  with Node and npm, likewise
  --platform OS/ARCH  such as linux/arm64; programs of the image run while it is built, so another machine needs an emulator
  --builder URI       who builds, as provenance is to say it (${'https://seine.invalid/builders/by-hand'})
  --out FOLDER        where NAME.provenance.json and NAME.sbom.cdx.json of each image go, and seinectl (images)
  --only LIST         some of ovs, agent and seinectl, with commas between them (ovs,agent)
  --no-cache          rebuilds every layer
  -h, --help          this text

Equal are two builds of one commit on the same bases, with the same packages of Debian, by the same podman.
`;

const options = {
  registry: { type: 'string', default: 'seine.invalid' },
  commit: { type: 'string', default: 'HEAD' },
  base: { type: 'string' },
  'ovs-base': { type: 'string' },
  'build-base': { type: 'string' },
  platform: { type: 'string' },
  builder: { type: 'string', default: 'https://seine.invalid/builders/by-hand' },
  out: { type: 'string', default: 'images' },
  only: { type: 'string', default: 'ovs,agent' },
  'no-cache': { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
};

const said = (command, args) => execFileSync(command, args, { encoding: 'utf8', maxBuffer: 64 << 20 }).trim();
const git = (...args) => said('git', ['-c', `safe.directory=${root}`, '-C', root, ...args]);
const podman = (...args) => said('podman', args);
const sha256 = (content) => createHash('sha256').update(content).digest('hex');

/** Checks out a commit into its own folder. */
function checkedOut(commit, folder) {
  const tree = execFileSync('git', ['-c', `safe.directory=${root}`, '-C', root, 'archive', '--format=tar', commit], { maxBuffer: 1 << 30 });
  execFileSync('tar', ['-x', '--preserve-permissions', '-C', folder], { input: tree });
  return folder;
}

/** Options of `podman build` for the request, in the form of the provenance as well. */
function buildArguments(image, asked, dockerfile) {
  const given = { BASE: (image === 'ovs' ? asked['ovs-base'] : undefined) ?? asked.base, BUILD_BASE: asked['build-base'] };
  return Object.fromEntries(Object.entries(argumentsOf(dockerfile)).map(([name, value]) => [name, given[name] ?? value]));
}

function built(image, tree, commit, asked, more) {
  const file = `build/images/${image}.Dockerfile`;
  const { version } = JSON.parse(readFileSync(join(tree, 'package.json'), 'utf8'));
  const name = `${asked.registry}/${image}:${version}`;
  const args = buildArguments(image, asked, readFileSync(join(tree, file), 'utf8'));
  // podman 4.3 does not define BUILDPLATFORM when `--platform` is given.
  const here = `BUILDPLATFORM=linux/${process.arch === 'arm64' ? 'arm64' : 'amd64'}`;
  const platform = asked.platform === undefined ? [] : ['--platform', asked.platform, '--build-arg', here];
  const timestamp = Number(git('show', '--no-patch', '--format=%ct', commit));
  const how = [...platform, '--timestamp', String(timestamp), ...(asked['no-cache'] ? ['--no-cache'] : []), ...more];
  const given = Object.entries(args).flatMap(([key, value]) => ['--build-arg', `${key}=${value}`]);
  const startedOn = new Date().toISOString();
  execFileSync('podman', ['build', ...how, ...given, '--file', join(tree, file), '--tag', name, tree], { stdio: 'inherit' });
  const parameters = { dockerfile: file, buildArguments: args, timestamp, options: [...platform, ...more] };
  return { name, args, parameters, startedOn, finishedOn: new Date().toISOString() };
}

/** Files of an image, which is not run for it. */
function filesOf(name, paths) {
  const container = podman('create', '--network', 'none', name);
  const folder = mkdtempSync(join(tmpdir(), 'seine-image-'));
  try {
    return paths.map((path, at) => {
      podman('cp', `${container}:${path}`, join(folder, String(at)));
      return readFileSync(join(folder, String(at)), 'utf8');
    });
  } finally {
    rmSync(folder, { recursive: true });
    podman('rm', container);
  }
}

function inspected(name) {
  const [{ Id, Digest, RepoDigests, RootFS }] = JSON.parse(podman('image', 'inspect', name));
  const [, digest = Digest] = /@(sha256:\w+)$/.exec(RepoDigests?.[0] ?? '') ?? [];
  return { id: Id, digest: digest.replace('sha256:', ''), layers: RootFS.Layers.map((layer) => layer.replace('sha256:', '')) };
}

function packagesIn(sbom) {
  return JSON.parse(sbom).components.flatMap(({ purl }) => (purl.startsWith('pkg:deb/') ? [purl] : []));
}

function writeProvenance(image, built, { tree, commit, asked }) {
  const { name, args, ...when } = built;
  const { id, layers } = inspected(name);
  const [sbom, builtWith = ''] = filesOf(name, [
    '/usr/share/seine/sbom.cdx.json',
    ...(image === 'agent' ? ['/usr/share/seine/built-with'] : []),
  ]);
  const bases = Object.entries(args).map(([as, base]) => ({ as, name: base, digest: inspected(base).digest }));
  const statement = provenanceOf({
    ...when,
    name,
    id,
    layers,
    commit,
    lock: sha256(readFileSync(join(tree, 'package-lock.json'))),
    bases,
    packages: packagesIn(sbom),
    builtWith: builtWith.split('\n').filter((line) => line !== ''),
    builder: asked.builder,
    versions: { podman: podman('version', '--format', '{{.Client.Version}}'), node: process.version },
  });
  writeFileSync(join(resolve(asked.out), `${image}.sbom.cdx.json`), sbom);
  const file = join(resolve(asked.out), `${image}.provenance.json`);
  writeFileSync(file, `${JSON.stringify(statement, null, 2)}\n`);
  console.log(`${name}\n  image ${id}\n  ${file}`);
}

/** The one file that the image of seinectl has; the image is not kept. */
function takeSeinectl({ name }, { asked }) {
  const container = podman('create', '--network', 'none', name);
  const file = join(resolve(asked.out), 'seinectl');
  try {
    podman('cp', `${container}:/seinectl`, file);
    chmodSync(file, 0o755);
  } finally {
    podman('rm', container);
    podman('image', 'rm', name);
  }
  console.log(file);
}

/** Names of `--only`. @throws Error for an unknown one, with exit code 2 */
function wanted({ only }) {
  const names = only.split(',');
  const unknown = names.find((name) => !['ovs', 'agent', 'seinectl'].includes(name));
  if (unknown === undefined) return names;
  const error = new Error(`--only ${JSON.stringify(unknown)}: expected ovs, agent or seinectl`);
  throw Object.assign(error, { code: 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE' });
}

function main() {
  const { values: asked, positionals: more } = parseArgs({ options, allowPositionals: true });
  if (asked.help) return void process.stdout.write(help);
  const names = wanted(asked);
  const commit = git('rev-parse', '--verify', `${asked.commit}^{commit}`);
  mkdirSync(resolve(asked.out), { recursive: true });
  const tree = checkedOut(commit, mkdtempSync(join(tmpdir(), 'seine-build-')));
  try {
    for (const image of names) {
      const made = built(image, tree, commit, asked, more);
      if (image === 'seinectl') takeSeinectl(made, { asked });
      else writeProvenance(image, made, { tree, commit, asked });
    }
  } finally {
    rmSync(tree, { recursive: true });
  }
}

try {
  main();
} catch (error) {
  process.stderr.write(`build:images: ${error.message}\n`);
  process.exitCode = error.code?.startsWith('ERR_PARSE_ARGS') ? 2 : 1;
}
