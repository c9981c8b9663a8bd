/**
 * `npm run build:kubernetes`: a real Kubernetes from Go modules, into a cache outside of the tree. The last line of standard output
 * is JSON: the version, the folder of the programs, and that of the images made of them.
 *
 * Plain JavaScript, as the set-up: the lab runs it as well.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { ask, runLogged } from '../setup/commands.mjs';
import { exclusively } from '../setup/lock.mjs';
import { SetupError, say } from '../setup/progress.mjs';
import { imageFolder, makeImages } from './images.mjs';
import { kubernetesVersion, modulesFolder, programFolder, programs } from './programs.mjs';

const help = `npm run build:kubernetes [-- options]: builds what \`seine-lab up --kubernetes\` runs, once; by Go, from modules by name

  --only LIST   these programs only, with commas between them
  --list        what there is to build, and what is there
  -h, --help    this text

The programs go to $XDG_CACHE_HOME/seine/kubernetes (~/.cache/seine/kubernetes), which may be deleted at any time. From nothing
it takes some twelve minutes on two processors and 9 GB of disk, most of it in Go's own caches.
`;

/** Go 1.21 is the first that fetches the release which a module asks for. */
const oldestMinor = 21;
const installGo = `install Go 1.${oldestMinor} or newer (Debian: \`apt-get install -t bookworm-backports golang-go\`, or https://go.dev/dl), so that \`go version\` finds it`;

/** @throws SetupError saying what to install */
function needGo() {
  const said = ask('go', ['version']);
  if (said === undefined) throw new SetupError('a real Kubernetes is built from source, and this machine has no `go`', installGo);
  const [, major, minor] = /go(\d+)\.(\d+)/.exec(said) ?? [];
  if (Number(major) === 1 && Number(minor) < oldestMinor)
    throw new SetupError(`a real Kubernetes is built from source, and this is ${said.trim()}`, installGo);
}

/**
 * Builds what is not there. Each program is put in its place when it is whole: one that was cut short is built again, the others stay.
 *
 * @param {string} folder where they go
 * @param {string[]} [only] names; all if absent
 */
async function buildPrograms(folder, only) {
  const wanted = programs.filter(({ name }) => only === undefined || only.includes(name));
  const missing = () => wanted.filter(({ name }) => !existsSync(join(folder, name)));
  if (missing().length === 0) return;
  needGo();
  await exclusively(join(dirname(folder), 'build.lock'), async () => {
    mkdirSync(folder, { recursive: true });
    const all = missing();
    for (const [index, program] of all.entries()) await build(folder, program, `${index + 1} of ${all.length}`);
  });
}

/** Images are of all programs, so there are none while one is missing. */
async function made(only) {
  const folder = programFolder();
  await buildPrograms(folder, only);
  const images = imageFolder(folder);
  if (!existsSync(images) && programs.every(({ name }) => existsSync(join(folder, name))))
    await exclusively(join(dirname(folder), 'build.lock'), () => existsSync(images) || makeImages({ programs: folder, porter: porter() }));
  return { version: kubernetesVersion(), programs: folder, images };
}

/** Where the sources of agnhost keep the certificate that its server shows. */
function porter() {
  const cwd = join(modulesFolder, 'kubernetes');
  const { stdout } = spawnSync('go', ['list', '-m', '-f', '{{.Dir}}', 'k8s.io/kubernetes'], { cwd, encoding: 'utf8' });
  return join(stdout.trim(), 'test/images/agnhost/porter');
}

async function build(folder, { name, folder: cwd, path, args }, which) {
  say(`building ${name} of Kubernetes ${kubernetesVersion()} (${which}; the first ones take minutes, once)`);
  const started = Date.now();
  const draft = join(folder, `.${name}.draft`);
  await runLogged(`kubernetes-${name}`, 'go', [...args, '-o', draft, path], {
    cwd,
    env: { CGO_ENABLED: '0' },
    remedy: 'look at the log; modules come from where `go env GOPROXY` says, and a newer Go by GOTOOLCHAIN=auto',
  });
  renameSync(draft, join(folder, name));
  say(`built ${name} in ${Math.round((Date.now() - started) / 1000)} s`);
}

function list() {
  const folder = programFolder();
  const lines = programs.map(({ name, path }) => `${existsSync(join(folder, name)) ? 'there  ' : 'missing'}  ${name}  ${path}`);
  return `Kubernetes ${kubernetesVersion()}, ${folder}\n${lines.join('\n')}\n`;
}

/** @throws SetupError naming an option or a program that there is none of */
function parsed() {
  const options = { only: { type: 'string' }, list: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } };
  const remedy = '`npm run build:kubernetes -- --help` says what there is';
  try {
    const { only, ...rest } = parseArgs({ options }).values;
    const names = only?.split(',');
    const unknown = names?.find((name) => !programs.some((program) => program.name === name));
    if (unknown !== undefined) throw new Error(`no program ${JSON.stringify(unknown)}`);
    return { names, ...rest };
  } catch (error) {
    throw new SetupError(error.message, remedy);
  }
}

try {
  const { names, list: listed, help: asked } = parsed();
  if (asked) process.stdout.write(help);
  else if (listed) process.stdout.write(list());
  else process.stdout.write(`${JSON.stringify(await made(names))}\n`);
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  say(error.message);
  say(`→ ${error.remedy}`);
  process.exitCode = 1;
}
