import type { WireGuardDevice } from '../../netlink/wireguard/wireguard.ts';
import type { WireGuardPublicKey } from '../../netlink/wireguard/wireguard-key.ts';

/** Age of a handshake after which WireGuard discards its keys (ms): with packets to send, there is a new one every two minutes. */
export const staleHandshakeMs = 180_000;

/** Peer to which packets are sent, and which does not answer. */
export interface SilentPeer {
  readonly key: WireGuardPublicKey;
  /** Undefined: there was no handshake. */
  readonly ageMs: number | undefined;
}

/** Finds peers of the WireGuard device that do not answer handshakes while packets are sent to them. */
export class Handshakes {
  readonly #sent = new Map<WireGuardPublicKey, number>();

  /** Returns the peers that do not answer. @param now Unix time (ms) */
  check(device: WireGuardDevice | undefined, now: number): readonly SilentPeer[] {
    const peers = device?.peers ?? [];
    const silent = peers.flatMap(({ publicKey: key, handshakeAt, sentBytes }): readonly SilentPeer[] => {
      const isSending = sentBytes > (this.#sent.get(key) ?? sentBytes);
      const ageMs = handshakeAt === undefined ? undefined : now - handshakeAt;
      return isSending && (ageMs === undefined || ageMs > staleHandshakeMs) ? [{ key, ageMs }] : [];
    });
    this.#sent.clear();
    for (const { publicKey, sentBytes } of peers) this.#sent.set(publicKey, sentBytes);
    return silent;
  }
}
