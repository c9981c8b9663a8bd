import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** Folders that sysctl(8) and systemd-sysctl read (sysctl.d(5)). */
const folders = ['etc/sysctl.d', 'run/sysctl.d', 'usr/local/lib/sysctl.d', 'usr/lib/sysctl.d', 'lib/sysctl.d'] as const;
const FILES_MAX = 200;
const FILE_BYTES_MAX = 64 * 1024;

/** Returns the root of the node's files. A container sees them only where they are mounted; its own files are not the node's. */
function rootOfNode(): string {
  return existsSync('/host/proc/sys/net') ? '/host' : '/';
}

/**
 * Returns files that set this setting to another value, as far as they can be read. Not necessarily the cause: any program may write it.
 *
 * @param setting with slashes, `net/ipv4/ip_forward`
 * @param root of the node's files
 */
export function filesThatSet(setting: string, wanted: string, root = rootOfNode()): readonly string[] {
  const candidates = ['etc/sysctl.conf', ...folders.flatMap((folder) => filesIn(root, folder))].slice(0, FILES_MAX);
  const found = candidates.filter((path) => setsOtherwise(textOf(join(root, path)), setting, wanted));
  return [...new Set(found.map((path) => `/${path}`))];
}

function filesIn(root: string, folder: string): readonly string[] {
  try {
    return readdirSync(join(root, folder))
      .filter((name) => name.endsWith('.conf'))
      .toSorted()
      .map((name) => join(folder, name));
  } catch {
    return []; // there is none
  }
}

function textOf(path: string): string {
  try {
    const stat = statSync(path);
    return stat.isFile() && stat.size <= FILE_BYTES_MAX ? readFileSync(path, 'utf8') : '';
  } catch {
    return ''; // missing, or not readable
  }
}

function setsOtherwise(text: string, setting: string, wanted: string): boolean {
  return text.split('\n').some((line) => {
    const [, name = '', value = ''] = /^\s*-?\s*([^#;=\s][^=]*?)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    return name !== '' && value !== wanted && namesOf(setting).some((each) => isMeant(name, each));
  });
}

/** Returns the names of a setting: some have two in the kernel. */
function namesOf(setting: string): readonly string[] {
  return setting === 'net/ipv4/ip_forward' ? [setting, 'net/ipv4/conf/all/forwarding'] : [setting];
}

/**
 * Reports whether a name means the setting. sysctl.d(5): a name whose first separator is a slash has slashes, otherwise dots and slashes
 * are exchanged; `*` is one part.
 */
function isMeant(name: string, setting: string): boolean {
  const withSlashes = /^[^./]*\//.test(name) ? name : name.replaceAll(/[./]/g, (separator) => (separator === '.' ? '/' : '.'));
  const [parts, meant] = [withSlashes.split('/'), setting.split('/')];
  return parts.length === meant.length && parts.every((part, at) => part === '*' || part === meant[at]);
}
