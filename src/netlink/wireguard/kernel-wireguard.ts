import { SeineError } from '../../base/errors/seine-error.ts';
import { errnoOf } from '../errno.ts';
import { familyNumber } from '../generic.ts';
import type { NetworkNamespace } from '../namespace.ts';
import { NetlinkSocket } from '../socket.ts';
import type { WireGuard, WireGuardChange, WireGuardDevice } from './wireguard.ts';
import { decodeDevicePart, encodeChange, encodeDeviceRequest, joinParts, wireGuardFamily } from './wireguard-messages.ts';

/** WireGuard devices of the kernel's module, by generic netlink. */
export class KernelWireGuard implements WireGuard {
  readonly #socket: NetlinkSocket;
  /** The socket works for one caller at a time. */
  #turn: Promise<unknown> = Promise.resolve();

  private constructor(socket: NetlinkSocket) {
    this.#socket = socket;
  }

  /** The caller closes it. @param namespace of the devices; absent: this process's */
  static open(namespace?: NetworkNamespace): KernelWireGuard {
    return new KernelWireGuard(NetlinkSocket.open({ protocol: 'generic', ...(namespace && { namespace }) }));
  }

  close(): void {
    this.#socket.close();
  }

  read(device: string, signal: AbortSignal): Promise<WireGuardDevice | undefined> {
    return this.#inTurn(signal, () => this.#read(device));
  }

  apply(device: string, change: WireGuardChange, signal: AbortSignal): Promise<void> {
    return this.#inTurn(signal, async () => {
      const family = familyNumber(this.#socket, wireGuardFamily);
      if (family === undefined) throw new SeineError('REFUSED', `WireGuard device ${device}: the kernel has no WireGuard`);
      await this.#socket.transactOffThread(encodeChange(family, device, change));
    });
  }

  async #read(device: string): Promise<WireGuardDevice | undefined> {
    const family = familyNumber(this.#socket, wireGuardFamily);
    if (family === undefined) return undefined;
    try {
      const parts = await this.#socket.listOffThread({
        type: family,
        what: `read WireGuard device ${device}`,
        body: (batch) => void encodeDeviceRequest(batch, device),
        decode: decodeDevicePart,
      });
      return joinParts(parts);
    } catch (thrown) {
      if (noDevice.has(errnoOf(thrown) ?? '')) return undefined;
      throw thrown;
    }
  }

  #inTurn<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(() => {
      if (signal.aborted) throw new SeineError('CANCELLED', 'WireGuard: the caller stopped waiting');
      return work();
    });
    this.#turn = mine.catch(() => undefined); // reported to its caller
    return mine;
  }
}

/** ENODEV: no device of this name; EOPNOTSUPP: a device of another kind. */
const noDevice: ReadonlySet<string> = new Set(['ENODEV', 'EOPNOTSUPP', 'ENOTSUP']);
