import { within } from '../../../base/async/time-limit.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { WireGuardDevice, WireGuardPeer } from '../../../netlink/wireguard/wireguard.ts';
import type { WireGuardPublicKey } from '../../../netlink/wireguard/wireguard-key.ts';

/** Maximum time to wait for the device (ms): a process that serves one may be stopped. */
const ANSWER_MS = 1_000;

type TrafficCounters = Pick<WireGuardPeer, 'receivedBytes' | 'sentBytes'>;

/** Reads the WireGuard device of this node for display and metrics, and sums up the bytes of all peers. */
export class WireGuardReader {
  readonly #device: { read(signal: AbortSignal): Promise<WireGuardDevice | undefined> };
  /** Counters of peers at the last reading: they begin at 0 again when a peer is put again. */
  #last: ReadonlyMap<WireGuardPublicKey, TrafficCounters> = new Map();
  #bytes: TrafficCounters = { receivedBytes: 0, sentBytes: 0 };

  constructor(device: { read(signal: AbortSignal): Promise<WireGuardDevice | undefined> }) {
    this.#device = device;
  }

  /** Bytes of all peers since the agent started, up to the last reading, with those of peers that are gone. */
  get bytes(): TrafficCounters {
    return this.#bytes;
  }

  /** Returns the peers of the device: none if there is no device, or it does not answer now. */
  async peers(signal: AbortSignal): Promise<readonly WireGuardPeer[]> {
    try {
      const { peers = [] } = (await this.#device.read(within(signal, ANSWER_MS))) ?? {};
      this.#count(peers);
      return peers;
    } catch (thrown) {
      if (SeineError.from(thrown, 'read the WireGuard device').code === 'INVARIANT') throw thrown;
      return [];
    }
  }

  #count(peers: readonly WireGuardPeer[]): void {
    const more = (key: WireGuardPublicKey, name: keyof TrafficCounters, now: number): number => {
      const before = this.#last.get(key)?.[name] ?? 0;
      return now >= before ? now - before : now;
    };
    for (const { publicKey, receivedBytes, sentBytes } of peers)
      this.#bytes = {
        receivedBytes: this.#bytes.receivedBytes + more(publicKey, 'receivedBytes', receivedBytes),
        sentBytes: this.#bytes.sentBytes + more(publicKey, 'sentBytes', sentBytes),
      };
    this.#last = new Map(peers.map(({ publicKey, receivedBytes, sentBytes }) => [publicKey, { receivedBytes, sentBytes }]));
  }
}
