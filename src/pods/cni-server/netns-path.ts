import { lstatSync } from 'node:fs';
import { CniError, cniCodes } from '../../cni/errors.ts';
import { show } from '../../cni/json.ts';

const rootUid = 0;
/** Of /proc only a process's own namespace; `root`, `cwd` and `fd` lead into what a container controls. */
const ofProcess = /^\/proc\/(self|thread-self|\d+)(\/task\/\d+)?\/ns\/net$/;

/**
 * Refuses a path to a namespace that another user than root could have bent: with `..` in it, through a file system that a
 * container sees, by another user's link, or with a link at its end. A link of root's on the way is fine: `/var/run` is one.
 * What is there at all, and whether it is a network namespace, shows when it is opened.
 *
 * @param path absolute
 * @param trusted whose links are followed
 * @throws CniError 4
 */
export function assertTrustedNetnsPath(path: string, trusted = rootUid): void {
  const refuse = (why: string) => new CniError(cniCodes.invalidEnvironment, `CNI_NETNS: ${show(path)}: ${why}`);
  const parts = path.split('/').slice(1);
  if (parts.some((part) => part === '' || part === '.' || part === '..')) throw refuse('not a plain path: it has "..", "." or "//"');
  if (path.startsWith('/proc/')) {
    if (ofProcess.test(path)) return;
    throw refuse('under /proc only /proc/PID/ns/net is a namespace');
  }
  for (let length = 1; length <= parts.length; length++) {
    const part = `/${parts.slice(0, length).join('/')}`;
    const found = lstatSync(part, { throwIfNoEntry: false });
    if (!found) return;
    if (!found.isSymbolicLink()) continue;
    if (length === parts.length) throw refuse('a symbolic link');
    if (found.uid !== trusted) throw refuse(`${show(part)} is a symbolic link that is not root's`);
  }
}
