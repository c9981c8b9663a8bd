import { lstatSync } from 'node:fs';
import { CniError, cniCodes } from '../../cni/errors.ts';
import { show } from '../../cni/json.ts';

const rootUid = 0;
/**
 * Path of a process's namespace. Under /proc only this is allowed; `root`, `cwd` and `fd` lead into file systems that a container controls.
 */
const ofProcess = /^\/proc\/(self|thread-self|\d+)(\/task\/\d+)?\/ns\/net$/;

/**
 * Refuses a namespace path that a user other than root could redirect: with `..`, through a file system visible to a container, through a
 * symbolic link of another user, or with a link as its last part. Links owned by root are allowed on the way: `/var/run` is one. Whether
 * the path exists and is a network namespace is found when it is opened.
 *
 * @param path absolute path
 * @param trusted user whose links are followed
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
