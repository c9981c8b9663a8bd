import { randomBytes } from 'node:crypto';
import koffi, { type KoffiFunc, type LibraryHandle } from 'koffi';
import { SeineError } from '../base/errors/seine-error.ts';
import { kernelError } from './errno.ts';

/*
 * The one file that calls C. koffi checks nothing, so everything is checked here:
 *
 * 1. koffi reads and writes past the end of a buffer without an error: every length is compared with its buffer.
 * 2. It truncates integers silently (`close(2 ** 40)` closes 0): every integer is range-checked.
 * 3. It stops a string at the first NUL: strings with one are refused.
 * 4. An asynchronous call does not keep its buffers alive, and the kernel then writes into freed memory: the callback
 *    of every asynchronous call mentions its buffers.
 * 5. A poll handle is closed when it is collected as garbage: `Watch` keeps it. After its callback Node 26 does not run
 *    microtasks: the handler is called from `setImmediate`.
 * 6. libuv stops polling a descriptor for good once it has an error (a netlink socket has one after an overrun), and reports
 *    it with a status that koffi's types leave out: `Watch` starts again.
 */

const libc = koffi.load(null);

// `struct ifreq` with `ifr_data` (linux/if.h): koffi keeps the buffer that `data` points to alive during the call.
// Without a name, because koffi refuses a name it knows when this file is loaded twice in one process.
const ifreq = koffi.pack({ name: koffi.array('uint8_t', 16, 'Typed'), data: 'void *', rest: koffi.array('uint8_t', 16, 'Typed') });

type Buf = Uint8Array | null;
type Ifreq = { readonly name: Uint8Array; readonly data: Uint8Array; readonly rest: Uint8Array };

const native = {
  open: libc.func('int open(const char *, int, int)') as KoffiFunc<(path: string, flags: number, mode: number) => number>,
  close: libc.func('int close(int)') as KoffiFunc<(fd: number) => number>,
  setns: libc.func('int setns(int, int)') as KoffiFunc<(fd: number, type: number) => number>,
  unshare: libc.func('int unshare(int)') as KoffiFunc<(flags: number) => number>,
  mount: libc.func('int mount(const char *, const char *, const char *, unsigned long, const char *)') as KoffiFunc<
    (source: string, target: string, type: string, flags: number, data: null) => number
  >,
  umount2: libc.func('int umount2(const char *, int)') as KoffiFunc<(target: string, flags: number) => number>,
  socket: libc.func('int socket(int, int, int)') as KoffiFunc<(domain: number, type: number, protocol: number) => number>,
  bind: libc.func('int bind(int, void *, uint32_t)') as KoffiFunc<(fd: number, address: Uint8Array, size: number) => number>,
  connect: libc.func('int connect(int, void *, uint32_t)') as KoffiFunc<(fd: number, address: Uint8Array, size: number) => number>,
  listen: libc.func('int listen(int, int)') as KoffiFunc<(fd: number, backlog: number) => number>,
  send: libc.func('intptr_t send(int, void *, size_t, int)') as KoffiFunc<
    (fd: number, bytes: Uint8Array, size: number, flags: number) => number
  >,
  sendto: libc.func('intptr_t sendto(int, void *, size_t, int, void *, uint32_t)') as KoffiFunc<
    (fd: number, bytes: Uint8Array, size: number, flags: number, address: Uint8Array, addressSize: number) => number
  >,
  recv: libc.func('intptr_t recv(int, void *, size_t, int)') as KoffiFunc<
    (fd: number, bytes: Uint8Array, size: number, flags: number) => number
  >,
  setsockopt: libc.func('int setsockopt(int, int, int, void *, uint32_t)') as KoffiFunc<
    (fd: number, level: number, option: number, value: Uint8Array, size: number) => number
  >,
  getsockopt: libc.func('int getsockopt(int, int, int, void *, void *)') as KoffiFunc<
    (fd: number, level: number, option: number, value: Uint8Array, size: Uint8Array) => number
  >,
  ioctl: libc.func('int ioctl(int, unsigned long, void *)') as KoffiFunc<(fd: number, request: number, argument: Buf) => number>,
  ioctlIfreq: libc.func('ioctl', 'int', ['int', 'unsigned long', koffi.pointer(ifreq)]) as KoffiFunc<
    (fd: number, request: number, argument: Ifreq) => number
  >,
  flock: libc.func('int flock(int, int)') as KoffiFunc<(fd: number, operation: number) => number>,
  getsockname: libc.func('int getsockname(int, void *, void *)') as KoffiFunc<
    (fd: number, address: Uint8Array, size: Uint8Array) => number
  >,
  fstatfs: libc.func('int fstatfs(int, void *)') as KoffiFunc<(fd: number, buffer: Uint8Array) => number>,
};

/** File descriptor with one owner, who closes it. Closing twice is harmless; using it after that throws. */
export class OwnedFd {
  #fd: number;
  readonly #what: string;

  /** @param fd an open descriptor without another owner; @param what for errors, e.g. `netlink socket` */
  constructor(fd: number, what: string) {
    this.#fd = int32(fd, what);
    this.#what = what;
  }

  get number(): number {
    if (this.#fd < 0) throw new SeineError('INVARIANT', `the ${this.#what} is closed`);
    return this.#fd;
  }

  get closed(): boolean {
    return this.#fd < 0;
  }

  close(): void {
    if (this.#fd < 0) return;
    const fd = this.#fd;
    this.#fd = -1;
    native.close(fd); // Linux frees the number also if close() fails
  }

  /** Returns the descriptor and gives up ownership: the caller closes it. */
  release(): number {
    const fd = this.number;
    this.#fd = -1;
    return fd;
  }
}

/** `open(2)`, always close-on-exec. @param flags without O_CLOEXEC */
export function open(path: string, flags: number, what: string): OwnedFd {
  const fd = native.open(cString(path), int32(flags | O_CLOEXEC, 'flags'), 0o600);
  return new OwnedFd(checked('open', fd, `open ${path}`, { path }), what);
}

/** `socket(2)`, always close-on-exec. @param type without SOCK_CLOEXEC */
export function socket(domain: number, type: number, protocol: number, what: string): OwnedFd {
  const fd = native.socket(int32(domain, 'domain'), int32(type | SOCK_CLOEXEC, 'type'), int32(protocol, 'protocol'));
  return new OwnedFd(checked('socket', fd, `open a ${what}`), what);
}

export function setns(fd: number, type: number): void {
  checked('setns', native.setns(int32(fd, 'fd'), int32(type, 'type')), 'enter a namespace');
}

export function unshare(flags: number): void {
  checked('unshare', native.unshare(int32(flags, 'flags')), 'create a namespace');
}

export function mount(source: string, target: string, type: string, flags: number): void {
  const result = native.mount(cString(source), cString(target), cString(type), uint32(flags, 'flags'), null);
  checked('mount', result, `mount ${source} on ${target}`, { source, target });
}

export function umount(target: string, flags: number): void {
  checked('umount2', native.umount2(cString(target), int32(flags, 'flags')), `unmount ${target}`, { target });
}

/** @param address a whole `struct sockaddr_*` */
export function bind(fd: number, address: Uint8Array, what: string): void {
  checked('bind', native.bind(int32(fd, 'fd'), filled(address), address.length), `bind ${what}`);
}

/** On a nonblocking socket, returns `inProgress` if `connect(2)` fails with EINPROGRESS. */
export function connect(fd: number, address: Uint8Array, what: string): 'connected' | 'inProgress' {
  const result = native.connect(int32(fd, 'fd'), filled(address), address.length);
  if (result < 0 && koffi.errno() === koffi.os.errno['EINPROGRESS']) return 'inProgress';
  checked('connect', result, `connect ${what}`);
  return 'connected';
}

export function listen(fd: number, backlog: number): void {
  checked('listen', native.listen(int32(fd, 'fd'), int32(backlog, 'backlog')), 'listen');
}

/** Sends all of `bytes` as one datagram. */
export function send(fd: number, bytes: Uint8Array, what: string): void {
  for (;;) {
    const sent = native.send(int32(fd, 'fd'), filled(bytes), bytes.length, 0);
    if (sent < 0 && koffi.errno() === EINTR) continue;
    checkedLength(checked('send', sent, `send ${what}`), bytes.length, what);
    return;
  }
}

/** Like `send`, to this address, on a socket that is not connected. @param to a whole `struct sockaddr_*` */
export function sendTo(fd: number, bytes: Uint8Array, to: Uint8Array, what: string): void {
  for (;;) {
    const sent = native.sendto(int32(fd, 'fd'), filled(bytes), bytes.length, 0, filled(to), to.length);
    if (sent < 0 && koffi.errno() === EINTR) continue;
    checkedLength(checked('sendto', sent, `send ${what}`), bytes.length, what);
    return;
  }
}

/** Like `send`, but in a thread of libuv's pool, for requests that keep the kernel busy for milliseconds. `bytes` must not change meanwhile. */
export function sendOffThread(fd: number, bytes: Uint8Array, what: string): Promise<void> {
  return new Promise((resolve, reject) => {
    native.send.async(int32(fd, 'fd'), filled(bytes), bytes.length, 0, (failure: unknown, sent: number) => {
      try {
        if (failure !== null && failure !== undefined) throw SeineError.from(failure, `send ${what}`);
        checkedLength(checked('send', sent, `send ${what}`), bytes.length, what); // mentions `bytes`: trap 4
        resolve();
      } catch (error) {
        reject(error);
      }
    });
  });
}

/**
 * Receives one datagram without waiting.
 *
 * @returns its length, or `empty` if none is there
 * @throws SeineError `PROTOCOL` if the datagram is longer than `into`; `REFUSED` with errno `ENOBUFS` if some were lost
 */
export function receive(fd: number, into: Uint8Array, what: string): number | 'empty' {
  for (;;) {
    const length = native.recv(int32(fd, 'fd'), filled(into), into.length, MSG_DONTWAIT | MSG_TRUNC);
    if (length >= 0 || koffi.errno() !== EINTR) return received(length, into, what);
  }
}

/** Like `receive`, but bytes that do not fit into `into` are cut off. @returns the whole length */
export function receiveStart(fd: number, into: Uint8Array, what: string): number | 'empty' {
  for (;;) {
    const length = native.recv(int32(fd, 'fd'), filled(into), into.length, MSG_DONTWAIT | MSG_TRUNC);
    if (length >= 0) return length;
    if (koffi.errno() !== EINTR) return received(length, into, what);
  }
}

/** Like `receive`, but in a thread of libuv's pool, for answers that take the kernel long. */
export function receiveOffThread(fd: number, into: Uint8Array, what: string): Promise<number | 'empty'> {
  return new Promise((resolve, reject) => {
    native.recv.async(int32(fd, 'fd'), filled(into), into.length, MSG_DONTWAIT | MSG_TRUNC, (failure: unknown, length: number) => {
      try {
        if (failure !== null && failure !== undefined) throw SeineError.from(failure, `receive from ${what}`);
        resolve(received(length, into, what)); // mentions `into`: trap 4
      } catch (error) {
        reject(error);
      }
    });
  });
}

function received(length: number, into: Uint8Array, what: string): number | 'empty' {
  if (length < 0 && koffi.errno() === EAGAIN) return 'empty';
  if (length < 0) throw kernelError('recv', koffi.errno(), `receive from ${what}`);
  if (length > into.length) throw new SeineError('PROTOCOL', `${what}: a message of ${length} bytes, room for ${into.length}`);
  return length;
}

export function setSocketOption(fd: number, level: number, option: number, value: number | Uint8Array): void {
  const bytes = typeof value === 'number' ? new Uint8Array(Int32Array.of(int32(value, 'option')).buffer) : filled(value);
  const result = native.setsockopt(int32(fd, 'fd'), int32(level, 'level'), int32(option, 'option'), bytes, bytes.length);
  checked('setsockopt', result, `set socket option ${level}/${option}`);
}

/** Returns the `struct sockaddr_*` of a socket, at most `size` bytes of it. getsockname(2) */
export function socketName(fd: number, size: number): Uint8Array {
  const address = new Uint8Array(int32(size, 'size'));
  const length = Uint32Array.of(size);
  checked('getsockname', native.getsockname(int32(fd, 'fd'), address, new Uint8Array(length.buffer)), 'getsockname');
  return address.subarray(0, Math.min(size, length[0] ?? 0));
}

/** @param room maximum number of bytes to read, or a buffer with the request that the kernel fills. @returns the bytes of the kernel */
export function getSocketOption(fd: number, level: number, option: number, room: number | Uint8Array): Uint8Array {
  const value = typeof room === 'number' ? new Uint8Array(int32(room, 'size')) : filled(room);
  const size = value.length;
  const length = Uint32Array.of(size);
  const result = native.getsockopt(int32(fd, 'fd'), int32(level, 'level'), int32(option, 'option'), value, new Uint8Array(length.buffer));
  checked('getsockopt', result, `get socket option ${level}/${option}`);
  return value.subarray(0, Math.min(size, length[0] ?? 0));
}

/** Calls an ioctl without argument, e.g. NS_GET_NSTYPE (ioctl_ns(2)). */
export function ioctl(fd: number, request: number, what: string): number {
  return checked('ioctl', native.ioctl(int32(fd, 'fd'), uint32(request, 'request'), null), what);
}

/** Calls an ioctl on `struct ifreq` whose `ifr_data` points to `data`, which the kernel reads and writes. */
export function ioctlInterface(fd: number, request: number, interfaceName: Uint8Array, data: Uint8Array, what: string): void {
  if (interfaceName.length > 15) throw new SeineError('INVARIANT', `an interface name has at most 15 bytes, not ${interfaceName.length}`);
  const name = new Uint8Array(16);
  name.set(interfaceName);
  const argument = { name, data: filled(data), rest: new Uint8Array(16) };
  checked('ioctl', native.ioctlIfreq(int32(fd, 'fd'), uint32(request, 'request'), argument), what);
}

/** `f_type` of `fstatfs(2)`: the magic number of the file system. */
export function fileSystemType(fd: number): number {
  const buffer = new Uint8Array(256); // `struct statfs` has 120 bytes on 64-bit hosts
  checked('fstatfs', native.fstatfs(int32(fd, 'fd'), buffer), 'fstatfs');
  return new DataView(buffer.buffer).getUint32(0, littleEndian); // a long; the magics have 32 bits
}

/**
 * Locks a file against other processes until the descriptor is closed, also by the end of the process. False if it is already locked.
 * flock(2)
 */
export function tryLock(fd: number): boolean {
  const result = native.flock(int32(fd, 'fd'), 2 | 4); // LOCK_EX | LOCK_NB
  if (result < 0 && koffi.errno() === EAGAIN) return false;
  checked('flock', result, 'lock a file');
  return true;
}

/** Calls `handler`, from the event loop, whenever `fd` is ready or has an error, until closed. Close it before the descriptor. */
export class Watch {
  readonly #handle: ReturnType<typeof koffi.node.poll>;
  readonly #ready: 'readable' | 'writable';
  readonly #handler: () => void;
  #pending: NodeJS.Immediate | undefined;
  #closed = false;

  /** @param handler must read the error of the descriptor if there is one; otherwise it is called in every turn of the loop */
  constructor(fd: number, ready: 'readable' | 'writable', handler: () => void) {
    this.#ready = ready;
    this.#handler = handler;
    this.#handle = koffi.node.poll(int32(fd, 'fd'), { [ready]: true }, this.#onReady);
  }

  readonly #onReady = (status: unknown): void => {
    this.#pending ??= setImmediate(() => {
      this.#pending = undefined;
      if (!this.#closed) this.#handler();
      if (!this.#closed && status !== 0) this.#handle.start({ [this.#ready]: true }, this.#onReady);
    });
  };

  /** Keeps the watch from keeping the process running. */
  unref(): this {
    this.#handle.unref();
    return this;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#pending) clearImmediate(this.#pending);
    this.#handle.close();
  }
}

/**
 * Loads a shared library by the first of `names` that the loader finds.
 *
 * @throws SeineError `REFUSED` with the Debian package that contains it
 */
export function loadLibrary(names: readonly string[], debianPackage: string): LibraryHandle {
  let cause: unknown;
  for (const name of names) {
    try {
      return koffi.load(name);
    } catch (error) {
      cause = error;
    }
  }
  throw new SeineError('REFUSED', `${names[0]} is not installed; install the Debian package ${debianPackage}`, { cause });
}

let threadPoolIsWarm = false;

/**
 * Makes libuv start its thread pool now, in the namespaces of the calling thread.
 *
 * libuv starts the pool at its first use, and the threads inherit the network namespace of the thread that does so. If that happens inside
 * a pod's namespace, `fs`, `dns.lookup` and `crypto` of the whole process stay in the pod's namespace. `crypto.randomBytes` always uses the
 * pool, and the threads exist before it returns.
 */
export function warmThreadPool(): void {
  if (threadPoolIsWarm) return;
  threadPoolIsWarm = true;
  randomBytes(1, () => {});
}

/** Sizes that this file assumes about C; the self-test compares them. */
export function abiSizes(): Readonly<Record<string, number>> {
  const sizes = { int: 'int', long: 'unsigned long', pointer: 'void *', size_t: 'size_t', ifreq };
  return Object.fromEntries(Object.entries(sizes).map(([name, type]) => [name, koffi.sizeof(type)]));
}

/** The kernel uses the host's byte order in netlink messages and structs. */
export const littleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

const O_CLOEXEC = 0o2000000;
const SOCK_CLOEXEC = 0o2000000;
const MSG_TRUNC = 0x20;
const MSG_DONTWAIT = 0x40;
const EINTR = 4;
const EAGAIN = 11;

function checked(call: string, result: number, doing: string, context: Readonly<Record<string, unknown>> = {}): number {
  if (result < 0) throw kernelError(call, koffi.errno(), doing, { context });
  return result;
}

function checkedLength(sent: number, length: number, what: string): void {
  if (sent !== length) throw new SeineError('UNAVAILABLE', `${what}: ${sent} of ${length} bytes were sent`);
}

function int32(value: number, what: string): number {
  if (!Number.isInteger(value) || value < -0x8000_0000 || value > 0x7fff_ffff)
    throw new SeineError('INVARIANT', `${what}: ${value} is not a 32-bit integer`);
  return value;
}

function uint32(value: number, what: string): number {
  if (!Number.isInteger(value) || value < 0 || value > 0xffff_ffff)
    throw new SeineError('INVARIANT', `${what}: ${value} is not an unsigned 32-bit integer`);
  return value;
}

/** C gets the address of the first byte, which an empty buffer does not have. */
function filled(bytes: Uint8Array): Uint8Array {
  if (bytes.length === 0) throw new SeineError('INVARIANT', 'an empty buffer cannot be passed to C');
  return bytes;
}

/** The path can come from a container runtime, so an invalid one is not a bug. */
function cString(text: string): string {
  if (text.includes('\0')) throw new SeineError('INVALID_INPUT', `${JSON.stringify(text)} contains a NUL`);
  return text;
}
