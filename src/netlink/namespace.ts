import { fstatSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { SeineError } from '../base/errors/seine-error.ts';
import { errnoOf } from './errno.ts';
import { fileSystemType, ioctl, mount, type OwnedFd, open, setns, umount, unshare, warmThreadPool } from './sys.ts';

/** Directory of mounted named namespaces, as in ip-netns(8). */
export const namedNamespaces = '/run/netns';

/** Synchronous block of code. A promise is refused by the type, and at run time too. */
type SynchronousBlock<T> = () => T extends PromiseLike<unknown> ? never : T;

/** Open network namespace. The opener closes it; sockets created inside outlive the handle. */
export class NetworkNamespace {
  /** Path with which it was opened, for errors and logs. */
  readonly path: string;
  readonly #fd: OwnedFd;

  private constructor(path: string, fd: OwnedFd) {
    this.path = path;
    this.#fd = fd;
  }

  /**
   * Opens the network namespace mounted at `path`, e.g. `/run/netns/x` or `/proc/PID/ns/net`.
   *
   * @throws SeineError `INVALID_INPUT` if the path does not exist, is not a network namespace, or is the namespace of this thread: a pod's
   *   configuration must never be applied to the node.
   */
  static open(path: string): NetworkNamespace {
    const fd = openPath(path);
    try {
      refuseOther(fd, path);
      if (identity(fd.number) === ownIdentity())
        throw new SeineError('INVALID_INPUT', `${path} is the network namespace of this process`, { context: { path } });
      return new NetworkNamespace(path, fd);
    } catch (error) {
      fd.close();
      throw error;
    }
  }

  /** Descriptor for a netlink message that refers to a namespace. Belongs to this object. */
  get fd(): number {
    return this.#fd.number;
  }

  /** Device and inode: equal for two handles of one namespace, as long as one of them is open. */
  get identity(): string {
    return identity(this.#fd.number);
  }

  close(): void {
    this.#fd.close();
  }

  /**
   * Runs `block` inside the namespace, on this thread. Sockets that it opens stay in the namespace.
   *
   * Nothing may wait inside: the event loop would continue in the namespace. If returning fails, the process is aborted, because otherwise
   * it would apply the node's configuration to the pod.
   */
  run<T>(block: SynchronousBlock<T>): T {
    return inside(this.#fd.number, block);
  }
}

/**
 * Creates a network namespace and mounts it as `/run/netns/NAME`, like `ip netns add`.
 *
 * @throws SeineError `REFUSED` with errno `EEXIST` if the name is in use
 */
export function createNamedNamespace(name: string): NetworkNamespace {
  const path = namedPath(name);
  prepareNamedNamespaces();
  try {
    writeFileSync(path, '', { flag: 'wx', mode: 0o444 });
  } catch (error) {
    throw new SeineError('REFUSED', `create network namespace ${name}: ${errnoOf(error)}`, {
      context: { path, errno: errnoOf(error) },
      cause: error,
    });
  }
  try {
    // The thread returns with the own namespace's descriptor, so "enter the own one, then unshare" needs no second mechanism.
    inside(ownNamespace().number, () => {
      unshare(CLONE_NEWNET);
      mount('/proc/thread-self/ns/net', path, 'none', MS_BIND);
    });
    return NetworkNamespace.open(path);
  } catch (error) {
    deleteNamedNamespace(name);
    throw error;
  }
}

/** Unmounts and removes `/run/netns/NAME`; the kernel deletes it after its last user. Absence is not an error. */
export function deleteNamedNamespace(name: string): void {
  removeMountPoint(namedPath(name));
}

/** Unmounts a file, and removes it. Absence is not an error. */
export function removeMountPoint(path: string): void {
  try {
    umount(path, MNT_DETACH);
  } catch (error) {
    if (!['EINVAL', 'ENOENT'].includes(errnoOf(error) ?? '')) throw error; // not mounted, or absent
  }
  rmSync(path, { force: true });
}

/** @throws SeineError `INVALID_INPUT` unless `name` is a single path component of safe characters */
export function namedPath(name: string): string {
  if (!/^[A-Za-z0-9_][A-Za-z0-9._-]{0,249}$/.test(name))
    throw new SeineError('INVALID_INPUT', `${JSON.stringify(name)} is not a name for a network namespace`);
  return `${namedNamespaces}/${name}`;
}

/** Network namespace of this thread, opened once and never closed. `/proc/self` would be the main thread's. */
function ownNamespace(): OwnedFd {
  return (own ??= open('/proc/thread-self/ns/net', 0, 'own network namespace'));
}
let own: OwnedFd | undefined;
let visiting = false;

function ownIdentity(): string {
  return identity(ownNamespace().number);
}

function identity(fd: number): string {
  const { dev, ino } = fstatSync(fd, { bigint: true });
  return `${dev}:${ino}`;
}

function inside<T>(fd: number, block: SynchronousBlock<T>): T {
  if (visiting) throw new SeineError('INVARIANT', 'already inside another network namespace');
  warmThreadPool();
  const home = ownNamespace().number;
  setns(fd, CLONE_NEWNET);
  visiting = true;
  try {
    const result = block();
    if (isThenable(result)) throw new SeineError('INVARIANT', 'nothing may wait inside a network namespace');
    return result;
  } finally {
    restoreNamespace(home);
    visiting = false;
  }
}

function restoreNamespace(home: number): void {
  try {
    setns(home, CLONE_NEWNET);
  } catch (error) {
    process.stderr.write(`seine: cannot leave a network namespace: ${String(error)}\n`);
    process.abort();
  }
}

function isThenable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}

function openPath(path: string): OwnedFd {
  try {
    return open(path, O_NONBLOCK, 'network namespace'); // a FIFO at that path must not block the agent
  } catch (error) {
    if (error instanceof SeineError && ['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG', 'ENXIO'].includes(errnoOf(error) ?? ''))
      throw new SeineError('INVALID_INPUT', `no network namespace at ${path}: ${errnoOf(error)}`, { context: error.context, cause: error });
    throw error;
  }
}

function refuseOther(fd: OwnedFd, path: string): void {
  const magic = fileSystemType(fd.number);
  if (magic !== NSFS_MAGIC || ioctl(fd.number, NS_GET_NSTYPE, 'get the type of a namespace') !== CLONE_NEWNET)
    throw new SeineError('INVALID_INPUT', `${path} is not a network namespace`, { context: { path } });
}

/**
 * Makes `/run/netns` a shared mount, so that a namespace mounted here is visible, and can be unmounted, in every mount namespace that
 * copied ours. Source: iproute2's behaviour, ip-netns(8); mount_namespaces(7).
 */
function prepareNamedNamespaces(): void {
  mkdirSync(namedNamespaces, { recursive: true, mode: 0o755 });
  try {
    mount('none', namedNamespaces, 'none', MS_SHARED | MS_REC);
  } catch (error) {
    if (errnoOf(error) !== 'EINVAL') throw error; // EINVAL: not a mount point yet
    mount(namedNamespaces, namedNamespaces, 'none', MS_BIND | MS_REC);
    mount('none', namedNamespaces, 'none', MS_SHARED | MS_REC);
  }
}

const O_NONBLOCK = 0o4000;
const CLONE_NEWNET = 0x4000_0000;
const MS_BIND = 0x1000;
const MS_REC = 0x4000;
const MS_SHARED = 0x10_0000;
const MNT_DETACH = 2;
/** `NSFS_MAGIC` of linux/magic.h. */
const NSFS_MAGIC = 0x6e73_6673;
/** `_IO(0xb7, 0x3)`, ioctl_ns(2). */
const NS_GET_NSTYPE = 0xb703;
