import type { Cidr, Ip } from '../../base/net/ip.ts';
import type { WireGuardPrivateKey, WireGuardPublicKey } from './wireguard-key.ts';

/** UDP address of a peer. */
export interface WireGuardEndpoint {
  readonly address: Ip;
  readonly port: number;
}

/** Peer of a WireGuard device, as it is now. */
export interface WireGuardPeer {
  readonly publicKey: WireGuardPublicKey;
  /** Undefined until the peer was given one or sent a packet. A peer that changes its address changes this. */
  readonly endpoint: WireGuardEndpoint | undefined;
  /** Networks whose packets are sent to this peer, and accepted from it alone ("allowed IPs"). */
  readonly allowedNetworks: readonly Cidr[];
  /** Unix time (ms) of the last handshake; undefined if there was none. */
  readonly handshakeAt: number | undefined;
  /** Interval between packets that are sent without being asked for (s); 0: none. */
  readonly keepaliveSeconds: number;
  readonly receivedBytes: number;
  readonly sentBytes: number;
}

/** WireGuard device, as it is now. The private key is not read. */
export interface WireGuardDevice {
  /** Undefined until the device has a private key. */
  readonly publicKey: WireGuardPublicKey | undefined;
  /** UDP port, 0 if the device has not chosen one. */
  readonly listenPort: number;
  readonly peers: readonly WireGuardPeer[];
}

/** Peer that a device shall have. */
export interface WantedWireGuardPeer {
  readonly publicKey: WireGuardPublicKey;
  readonly endpoint: WireGuardEndpoint;
  /** All networks of the peer. A network moves here from any other peer that has it. */
  readonly allowedNetworks: readonly Cidr[];
  /** Interval between packets that are sent without being asked for, of which the first begins a handshake (s); absent: not changed. */
  readonly keepaliveSeconds?: number;
}

/** Changes of a device; what is absent is left unchanged. Peers are put before others are removed, so that a network is never without a peer. */
export interface WireGuardChange {
  readonly privateKey?: WireGuardPrivateKey;
  readonly listenPort?: number;
  readonly put?: readonly WantedWireGuardPeer[];
  readonly remove?: readonly WireGuardPublicKey[];
}

/** Reads and changes WireGuard devices: of the kernel (`KernelWireGuard`), or of a process (`ProcessWireGuard`). */
export interface WireGuard {
  /**
   * Reads a device.
   *
   * @returns undefined if there is no WireGuard device of this name
   * @throws SeineError `UNAVAILABLE`, `PROTOCOL`
   */
  read(device: string, signal: AbortSignal): Promise<WireGuardDevice | undefined>;

  /**
   * Applies changes. If it fails, a part of them may have been applied.
   *
   * @throws SeineError `REFUSED`, also if there is no such device; `UNAVAILABLE`; `INVALID_INPUT`
   */
  apply(device: string, change: WireGuardChange, signal: AbortSignal): Promise<void>;
}
