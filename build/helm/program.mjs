import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { ask, runLogged } from '../setup/commands.mjs';
import { exclusively } from '../setup/lock.mjs';
import { SetupError, say } from '../setup/progress.mjs';
import { contentHash } from '../setup/stamps.mjs';

const moduleFolder = join(import.meta.dirname, 'program');
const hashLength = 12;

/** The version of Helm that the module pins, such as `4.3.1`. */
export function helmVersion() {
  const [, version] = /^\thelm\.sh\/helm\/v4 v(\S+)/m.exec(readFileSync(join(moduleFolder, 'go.mod'), 'utf8')) ?? [];
  if (version === undefined) throw new SetupError('build/helm/program/go.mod names no helm.sh/helm/v4', 'restore the file');
  return version;
}

/** Path of the program of these sources: outside of the tree, like those of build/kubernetes. */
export function helmProgram(environment = process.env) {
  const cache = environment.XDG_CACHE_HOME || join(homedir(), '.cache');
  return join(cache, 'seine', 'helm', `${helmVersion()}-${contentHash([moduleFolder]).slice(0, hashLength)}`, 'helm');
}

/**
 * Builds it with Go if absent: about two minutes.
 *
 * @returns {Promise<string>} its path
 */
export async function builtHelm() {
  const program = helmProgram();
  if (existsSync(program)) return program;
  if (ask('go', ['version']) === undefined)
    throw new SetupError(
      'Helm is built from source, and this machine has no `go`',
      'install Go 1.21 or newer, so that `go version` finds it',
    );
  await exclusively(join(dirname(dirname(program)), 'build.lock'), async () => {
    if (existsSync(program)) return;
    say(`building Helm ${helmVersion()}, once`);
    mkdirSync(dirname(program), { recursive: true });
    const flags = `-s -w -X helm.sh/helm/v4/internal/version.version=v${helmVersion()}`;
    await runLogged('helm', 'go', ['build', '-trimpath', '-ldflags', flags, '-o', `${program}.draft`, 'helm.sh/helm/v4/cmd/helm'], {
      cwd: moduleFolder,
      env: { CGO_ENABLED: '0' },
      remedy: 'look at the log; modules come from where `go env GOPROXY` says, and a newer Go by GOTOOLCHAIN=auto',
    });
    renameSync(`${program}.draft`, program);
  });
  return program;
}
