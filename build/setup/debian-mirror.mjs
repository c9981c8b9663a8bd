import { join } from 'node:path';
import { ask, runLogged } from './commands.mjs';
import { SetupError } from './progress.mjs';

/**
 * The mirror that apt uses for a release of Debian, or for the host's own: mirrors have all releases. @throws SetupError if apt has none
 */
export function mirror(release) {
  const targets = ask('apt-get', ['indextargets', '--format', '$(SITE) $(RELEASE) $(COMPONENT)', 'Created-By: Packages']) ?? '';
  const sites = targets.split('\n').map((line) => line.split(' '));
  const own = ask('sh', ['-c', '. /etc/os-release && printf %s "$VERSION_CODENAME"']);
  const found = [release, own].flatMap((name) => sites.find(([, of, component]) => of === name && component === 'main')?.[0] ?? []);
  if (found.length === 0) throw new SetupError('apt knows no mirror of Debian', 'see sources.list(5)');
  return found[0];
}

/** Also for callers that unpack the result of `download`. */
export const remedy = 'see that apt’s mirror of Debian has that release and can be reached, and run the command again';

/**
 * Downloads packages with their dependencies, and installs nothing.
 *
 * @param {{ name: string, release: string, include: string, folder: string }} what `name` of the log
 * @returns {Promise<string>} the folder of their archives
 * @throws SetupError if the mirror has no such release, or no such package
 */
export async function download({ name, release, include, folder }) {
  const what = ['--download-only', '--variant=minbase', `--include=${include}`, release, folder, mirror(release)];
  await runLogged(`${name}-download`, 'debootstrap', what, { remedy });
  return join(folder, 'var', 'cache', 'apt', 'archives');
}
