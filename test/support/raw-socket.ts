import { getLink } from '../../src/netlink/links.ts';
import { NetworkNamespace } from '../../src/netlink/namespace.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { AF_PACKET, ETH_P_ALL, linkAddress, SOCK_NONBLOCK, SOCK_RAW } from '../../src/netlink/sockets/socket-address.ts';
import { bind, type OwnedFd, receive, send, socket, Watch } from '../../src/netlink/sys.ts';
import { slowness } from './test-datapath.ts';

/** Sends frames unchanged, and receives every frame of an interface, its own too. packet(7) */
export class RawSocket {
  readonly frames: Buffer[] = [];
  readonly #fd: OwnedFd;
  readonly #watch: Watch;
  readonly #buffer = Buffer.alloc(1 << 16);
  readonly #waiting = new Set<() => void>();

  private constructor(fd: OwnedFd) {
    this.#fd = fd;
    this.#watch = new Watch(fd.number, 'readable', () => this.#drain());
  }

  /** @param place name of a network namespace */
  static open(place: string, interfaceName: string): RawSocket {
    const namespace = NetworkNamespace.open(`/run/netns/${place}`);
    try {
      const netlink = NetlinkSocket.open({ namespace });
      const link = getLink(netlink, interfaceName);
      netlink.close();
      if (!link) throw new Error(`${place} has no interface ${interfaceName}`);
      const fd = namespace.run(() => socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, ETH_P_ALL, 'packet socket'));
      bind(fd.number, linkAddress(link.index, ETH_P_ALL), `to ${interfaceName}`);
      return new RawSocket(fd);
    } finally {
      namespace.close();
    }
  }

  send(frame: Uint8Array): void {
    send(this.#fd.number, frame, 'frame');
  }

  received(bytes: Uint8Array): boolean {
    const wanted = Buffer.from(bytes);
    return this.frames.some((frame) => frame.includes(wanted));
  }

  /** Waits until a frame with these bytes passes. @throws Error after `withinMs` */
  async hears(bytes: Uint8Array, withinMs = 5_000 * slowness): Promise<void> {
    const deadline = AbortSignal.timeout(withinMs);
    while (!this.received(bytes)) {
      if (deadline.aborted) throw new Error(`not heard within ${withinMs} ms: ${Buffer.from(bytes).toString('hex')}`);
      await new Promise<void>((resolve) => {
        this.#waiting.add(resolve);
        deadline.addEventListener('abort', () => resolve(), { once: true });
      });
    }
  }

  close(): void {
    this.#watch.close();
    this.#fd.close();
  }

  #drain(): void {
    for (;;) {
      const size = receive(this.#fd.number, this.#buffer, 'frames');
      if (size === 'empty') break;
      this.frames.push(Buffer.from(this.#buffer.subarray(0, size)));
    }
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }
}
