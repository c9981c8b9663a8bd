import { closeSync, existsSync, openSync, readFileSync, writeSync } from 'node:fs';
import { SeineError } from '../base/errors/seine-error.ts';
import { errnoOf } from './errno.ts';

/**
 * Components of a kernel parameter's name, `['net', 'ipv6', 'conf', 'eth0.7', 'disable_ipv6']`. Not a dotted name, because names of
 * interfaces have dots too.
 *
 * `/proc/sys/net` shows the network namespace of the thread that opens a file: for another namespace call these functions inside
 * `NetworkNamespace.run`.
 */
export type SysctlName = readonly string[];

/** @throws SeineError `INVALID_INPUT` for an impossible name, `REFUSED` with errno `ENOENT` if the kernel has no such parameter */
export function readSysctl(name: SysctlName): string {
  const path = sysctlPath(name);
  try {
    return readFileSync(path, 'utf8').trimEnd();
  } catch (error) {
    throw refusal('read', name, error);
  }
}

export function writeSysctl(name: SysctlName, value: string | number): void {
  const path = sysctlPath(name);
  const text = String(value);
  if (!/^[\w .,:/-]{1,255}$/.test(text))
    throw new SeineError('INVALID_INPUT', `${JSON.stringify(text)} is not a value for ${name.join('.')}`);
  try {
    const fd = openSync(path, 'w');
    try {
      writeSync(fd, text);
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    throw refusal('write', name, error);
  }
}

/** Writes only if the value differs, because writing needs a writable `/proc/sys` and reading does not. */
export function ensureSysctl(name: SysctlName, value: string | number): 'changed' | 'unchanged' {
  if (readSysctl(name) === String(value)) return 'unchanged';
  writeSysctl(name, value);
  return 'changed';
}

/** Reports whether the kernel forwards packets received by this interface. @throws SeineError like `readSysctl` */
export function isForwarding(family: 'ipv4' | 'ipv6', interfaceName: string): boolean {
  // For IPv6, only the setting of all interfaces counts (ip-sysctl of the kernel's documentation).
  const name = ['net', family, 'conf', family === 'ipv4' ? interfaceName : 'all', 'forwarding'];
  return readSysctl(name).trim() !== '0';
}

function sysctlPath(name: SysctlName): string {
  if (name.length === 0 || !name.every((part) => /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/.test(part)))
    throw new SeineError('INVALID_INPUT', `${JSON.stringify(name.join('.'))} is not the name of a kernel parameter`);
  const [part, ...rest] = name;
  return part === 'net' ? `${netFolder()}/${rest.join('/')}` : `/proc/sys/${name.join('/')}`;
}

/**
 * A container's own /proc/sys is read-only, so the manifest mounts the node's /proc/sys/net a second time for the agent. Like the original,
 * it shows the settings of the reader's network namespace.
 */
const mountedNet = '/host/proc/sys/net';

let knownFolder: string | undefined;

function netFolder(): string {
  return (knownFolder ??= existsSync(mountedNet) ? mountedNet : '/proc/sys/net');
}

function refusal(verb: string, name: SysctlName, cause: unknown): SeineError {
  const errno = errnoOf(cause);
  if (errno === undefined) return SeineError.from(cause, `${verb} ${name.join('.')}`);
  return new SeineError('REFUSED', `${verb} kernel parameter ${name.join('.')}: ${errno}`, { context: { errno }, cause });
}
