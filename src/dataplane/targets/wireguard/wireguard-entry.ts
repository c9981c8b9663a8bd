import type { WantedWireGuardPeer } from '../../../netlink/wireguard/wireguard.ts';
import { parseWireGuardPublicKey, type WireGuardPrivateKey, type WireGuardPublicKey } from '../../../netlink/wireguard/wireguard-key.ts';

/** `device`, or `peer/PUBLIC KEY`. */
export type WireGuardKey = 'device' | `peer/${string}`;

/** The node's WireGuard device itself. A device that is down has no entry. */
export interface DeviceEntry {
  readonly kind: 'device';
  /** Undefined for an observed device without a key. */
  readonly publicKey: WireGuardPublicKey | undefined;
  /** Set in a desired entry: the key itself is never read from a device. */
  readonly privateKey?: WireGuardPrivateKey;
  readonly listenPort: number;
  readonly mtu: number;
}

/** Entry of the node's WireGuard device, desired or observed. */
export type WireGuardEntry = DeviceEntry | { readonly kind: 'peer'; readonly peer: WantedWireGuardPeer | ObservedPeer };

/** Peer without an endpoint: another program put it. It equals no desired one. */
type ObservedPeer = Omit<WantedWireGuardPeer, 'endpoint'> & { readonly endpoint: undefined };

export function wantedDevice(privateKey: WireGuardPrivateKey, listenPort: number, mtu: number): WireGuardEntry {
  return { kind: 'device', publicKey: privateKey.publicKey, privateKey, listenPort, mtu };
}

export function peerKey(publicKey: WireGuardPublicKey): WireGuardKey {
  return `peer/${publicKey}`;
}

/** @throws SeineError `INVALID_INPUT` unless `key` is of a peer */
export function publicKeyOfPeer(key: WireGuardKey): WireGuardPublicKey {
  return parseWireGuardPublicKey(key.slice('peer/'.length));
}

export function sameWireGuardEntry(a: WireGuardEntry, b: WireGuardEntry): boolean {
  return a === b || textOf(a) === textOf(b);
}

/** WireGuard keeps no order of networks. */
function textOf(entry: WireGuardEntry): string {
  if (entry.kind === 'device') return [entry.publicKey, entry.listenPort, entry.mtu].join(' ');
  const { publicKey, endpoint, allowedNetworks, keepaliveSeconds = 0 } = entry.peer;
  const networks = allowedNetworks.map(({ text }) => text).toSorted();
  return [publicKey, endpoint?.address.text, endpoint?.port, keepaliveSeconds, ...networks].join(' ');
}
