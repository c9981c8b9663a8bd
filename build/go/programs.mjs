import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { ask, runLogged } from '../setup/commands.mjs';
import { exclusively } from '../setup/lock.mjs';
import { SetupError, say } from '../setup/progress.mjs';
import { contentHash } from '../setup/stamps.mjs';

const modulesFolder = join(import.meta.dirname, 'modules');
const hashLength = 12;

/** Go module and package of each program, and the package variable that holds its version. */
const programs = {
  registry: {
    module: 'github.com/distribution/distribution/v3',
    path: 'cmd/registry',
    version: 'github.com/distribution/distribution/v3/version.version',
  },
  crane: {
    module: 'github.com/google/go-containerregistry',
    path: 'cmd/crane',
    version: 'github.com/google/go-containerregistry/cmd/crane/cmd.Version',
  },
  cosign: { module: 'github.com/sigstore/cosign/v3', path: 'cmd/cosign', version: 'sigs.k8s.io/release-utils/version.gitVersion' },
  builder: {
    module: 'go.opentelemetry.io/collector/cmd/builder',
    path: '',
    version: 'go.opentelemetry.io/collector/cmd/builder/internal.version',
  },
  actionlint: { module: 'github.com/rhysd/actionlint', path: 'cmd/actionlint', version: 'github.com/rhysd/actionlint.version' },
};

/** Names of the programs that can be built. */
export const programNames = Object.keys(programs);

/**
 * Version of a program that its module pins, such as `3.1.2`.
 *
 * @param {string} name one of `programNames`
 */
export function programVersion(name) {
  const { module } = rowOf(name);
  const goMod = readFileSync(join(modulesFolder, name, 'go.mod'), 'utf8');
  const line = goMod.split('\n').find((each) => each.startsWith(`\t${module} v`));
  if (line === undefined) throw new SetupError(`build/go/modules/${name}/go.mod does not require ${module}`, 'restore the file');
  return line.split(' ')[1].slice(1);
}

/** Path of a program in the cache, outside of the checkout; the path changes with the pinned modules. */
export function programPath(name, environment = process.env) {
  const cache = environment.XDG_CACHE_HOME || join(homedir(), '.cache');
  const key = contentHash([join(modulesFolder, name)]).slice(0, hashLength);
  return join(cache, 'seine', 'go', `${name}-${programVersion(name)}-${key}`, name);
}

/**
 * Builds a program with Go, unless it is in the cache. Cosign takes several minutes, the others less than one or two.
 *
 * @param {string} name one of `programNames`
 * @returns {Promise<string>} its path
 * @throws SetupError if there is no Go, or the build fails
 */
export async function builtProgram(name) {
  const program = programPath(name);
  if (existsSync(program)) return program;
  if (ask('go', ['version']) === undefined)
    throw new SetupError(
      `${name} is built from source, and this host has no \`go\``,
      'install Go 1.21 or newer, so that `go version` finds it',
    );
  await exclusively(join(dirname(dirname(program)), 'build.lock'), async () => {
    if (existsSync(program)) return;
    const { module, path, version } = rowOf(name);
    say(`building ${name} ${programVersion(name)}, once`);
    mkdirSync(dirname(program), { recursive: true });
    const flags = `-s -w -X ${version}=v${programVersion(name)}`;
    await runLogged(
      `go-${name}`,
      'go',
      ['build', '-trimpath', '-ldflags', flags, '-o', `${program}.draft`, path === '' ? module : `${module}/${path}`],
      {
        cwd: join(modulesFolder, name),
        env: { CGO_ENABLED: '0' },
        remedy: 'read the log; `go env GOPROXY` prints where modules come from, and GOTOOLCHAIN=auto allows a newer Go',
      },
    );
    renameSync(`${program}.draft`, program);
  });
  return program;
}

function rowOf(name) {
  const row = programs[name];
  if (row === undefined) throw new SetupError(`no Go program ${JSON.stringify(name)}`, `use one of ${programNames.join(', ')}`);
  return row;
}
