import { Turn } from '../../base/async/turn.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { errnoOf } from '../errno.ts';
import { familyNumber } from '../generic.ts';
import type { NetworkNamespace } from '../namespace.ts';
import { NetlinkSocket } from '../socket.ts';
import type { WireGuard, WireGuardChange, WireGuardDevice } from './wireguard.ts';
import { decodeDevicePart, encodeChange, encodeDeviceRequest, joinParts, wireGuardFamily } from './wireguard-messages.ts';

/** WireGuard devices of the kernel's module, by generic netlink. */
export class KernelWireGuard implements WireGuard {
  /** The socket works for one caller at a time. */
  readonly #socket: Turn<NetlinkSocket>;

  private constructor(socket: NetlinkSocket) {
    this.#socket = new Turn(socket);
  }

  /** The caller closes it. @param namespace of the devices; absent: this process's */
  static open(namespace?: NetworkNamespace): KernelWireGuard {
    return new KernelWireGuard(NetlinkSocket.open({ protocol: 'generic', ...(namespace && { namespace }) }));
  }

  close(): void {
    this.#socket.thing.close();
  }

  read(device: string, signal: AbortSignal): Promise<WireGuardDevice | undefined> {
    return this.#inTurn(signal, (socket) => readDevice(socket, device));
  }

  apply(device: string, change: WireGuardChange, signal: AbortSignal): Promise<void> {
    return this.#inTurn(signal, async (socket) => {
      const family = familyNumber(socket, wireGuardFamily);
      if (family === undefined) throw new SeineError('REFUSED', `WireGuard device ${device}: the kernel has no WireGuard`);
      await socket.transactOffThread(encodeChange(family, device, change));
    });
  }

  #inTurn<T>(signal: AbortSignal, work: (socket: NetlinkSocket) => Promise<T>): Promise<T> {
    return this.#socket.take((socket) => {
      if (signal.aborted) throw new SeineError('CANCELLED', 'WireGuard: the caller stopped waiting');
      return work(socket);
    });
  }
}

async function readDevice(socket: NetlinkSocket, device: string): Promise<WireGuardDevice | undefined> {
  const family = familyNumber(socket, wireGuardFamily);
  if (family === undefined) return undefined;
  try {
    const parts = await socket.listOffThread({
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

/** ENODEV: no device of this name; EOPNOTSUPP: a device of another kind. */
const noDevice: ReadonlySet<string> = new Set(['ENODEV', 'EOPNOTSUPP', 'ENOTSUP']);
