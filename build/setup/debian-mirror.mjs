import { ask } from './commands.mjs';
import { SetupError } from './progress.mjs';

/** The site that apt has for a release of Debian, or for the machine's own: mirrors have them all. @throws SetupError if apt knows none */
export function mirror(release) {
  const targets = ask('apt-get', ['indextargets', '--format', '$(SITE) $(RELEASE) $(COMPONENT)', 'Created-By: Packages']) ?? '';
  const sites = targets.split('\n').map((line) => line.split(' '));
  const own = ask('sh', ['-c', '. /etc/os-release && printf %s "$VERSION_CODENAME"']);
  const found = [release, own].flatMap((name) => sites.find(([, of, component]) => of === name && component === 'main')?.[0] ?? []);
  if (found.length === 0) throw new SetupError('apt knows no mirror of Debian', 'see sources.list(5)');
  return found[0];
}
