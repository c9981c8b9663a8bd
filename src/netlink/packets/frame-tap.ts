import type { IfIndex } from '../interface-name.ts';
import { AF_PACKET, ETH_P_ALL, linkAddress, SOCK_NONBLOCK, SOCK_RAW } from '../sockets/socket-address.ts';
import { bind, type OwnedFd, receiveStart, socket, Watch } from '../sys.ts';

/** Maximum number of frames read in one turn of the loop. */
const AT_ONCE = 256;

/**
 * Captures the frames of an interface of this namespace, in both directions, until it is closed (packet(7)). For short times only: each
 * frame is copied.
 */
export class FrameTap {
  readonly #fd: OwnedFd;
  readonly #watch: Watch;
  readonly #buffer = Buffer.alloc(2_048);
  readonly #seen: (frame: Uint8Array, bytes: number) => void;

  private constructor(fd: OwnedFd, seen: (frame: Uint8Array, bytes: number) => void) {
    this.#fd = fd;
    this.#seen = seen;
    this.#watch = new Watch(fd.number, 'readable', () => this.#drain());
  }

  /** @param seen called with each frame, cut to its first 2 KiB, and with its whole length; it must not keep it, nor throw */
  static open(link: IfIndex, seen: (frame: Uint8Array, bytes: number) => void): FrameTap {
    // Without a protocol: until it is bound it would receive the frames of all interfaces.
    const fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0, 'packet socket');
    bind(fd.number, linkAddress(link, ETH_P_ALL), `to link ${link}`);
    return new FrameTap(fd, seen);
  }

  close(): void {
    this.#watch.close();
    this.#fd.close();
  }

  #drain(): void {
    for (let count = 0; count < AT_ONCE; count++) {
      const size = this.#next();
      if (size === undefined) return;
      this.#seen(this.#buffer.subarray(0, size), size);
    }
  }

  /** The kernel reports an error (`ENETDOWN`, when the interface goes down) once; later frames are captured again. */
  #next(): number | undefined {
    try {
      const size = receiveStart(this.#fd.number, this.#buffer, 'frames');
      return size === 'empty' ? undefined : size;
    } catch {
      return undefined;
    }
  }
}
