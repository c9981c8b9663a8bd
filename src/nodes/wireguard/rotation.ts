import { parseWireGuardPublicKey, type WireGuardPublicKey } from '../../netlink/wireguard/wireguard-key.ts';
import type { NodeKeys } from './key-file.ts';

/** Time between the announcement of a new key and its use (ms): all peers have read it by then. */
export const announcedForMs = 30_000;

/** Time by which a node changes its key after its peers (ms): a handshake with a key that a peer does not know is repeated after 5 s only. */
const afterPeersMs = 100;

/** Key of a node, and the one that replaces it. */
export interface AnnouncedKeys {
  readonly current: WireGuardPublicKey;
  readonly next?: { readonly key: WireGuardPublicKey; readonly at: number };
}

/** Returns the text of an annotation that announces a key and its time. */
export function nextKeyText({ key, at }: NonNullable<NodeKeys['next']>): string {
  return `${key.publicKey} ${new Date(at).toISOString()}`;
}

/**
 * Parses the annotations of a peer.
 *
 * @throws SeineError `INVALID_INPUT` if the present key is invalid; an invalid next one is left out, because the peer continues with the
 *   present one
 */
export function announcedKeys(current: string, next: string | undefined): AnnouncedKeys {
  return { current: parseWireGuardPublicKey(current), ...nextKeyIn(next) };
}

function nextKeyIn(text: string | undefined): Pick<AnnouncedKeys, 'next'> {
  const [key = '', time = '', ...others] = text?.split(' ') ?? [];
  const at = Date.parse(time);
  if (others.length > 0 || !Number.isFinite(at)) return {};
  try {
    return { next: { key: parseWireGuardPublicKey(key), at } };
  } catch {
    return {};
  }
}

/** Returns the key that a peer has at this time (Unix, ms). */
export function keyAt({ current, next }: AnnouncedKeys, now: number): WireGuardPublicKey {
  return next !== undefined && now >= next.at ? next.key : current;
}

/** Step of a node that changes its key. */
type RotationStep =
  | { readonly do: 'nothing' }
  /** Check again at this time (Unix, ms). */
  | { readonly do: 'wait'; readonly until: number }
  /** The announcement has not been acknowledged: peers do not know the key. */
  | { readonly do: 'waitForAnnouncement' }
  | { readonly do: 'change'; readonly keys: NodeKeys };

/**
 * Returns the next step of a node that changes its key. Peers change first, at the announced time, and the owner shortly after. It never
 * changes to a key that is not announced: peers would drop all of its packets.
 *
 * @param isAnnounced the node's object has the annotation for the next key
 */
export function rotationStep({ next }: NodeKeys, isAnnounced: boolean, now: number): RotationStep {
  if (next === undefined) return { do: 'nothing' };
  if (now < next.at + afterPeersMs) return { do: 'wait', until: next.at + afterPeersMs };
  return isAnnounced ? { do: 'change', keys: { current: next.key } } : { do: 'waitForAnnouncement' };
}
