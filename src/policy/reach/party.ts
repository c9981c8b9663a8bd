import { type Family, parseIp } from '../../base/net/ip.ts';
import type { NodeObject, PodObject } from '../verify/reference/objects.ts';
import { keyOf } from './objects.ts';

/** End of a connection. */
export type ReachParty =
  | { readonly is: 'pod'; readonly pod: PodObject }
  | { readonly is: 'node'; readonly node: NodeObject }
  /** External host. Canonical text. */
  | { readonly is: 'outside'; readonly address: string };

/** Returns one address of each family that a party has. */
export function addressesOf(party: ReachParty): ReadonlyMap<Family, string> {
  const texts =
    party.is === 'outside'
      ? [party.address]
      : party.is === 'pod'
        ? (party.pod.status.podIPs ?? []).map(({ ip }) => ip)
        : party.node.status.addresses.flatMap(({ type, address }) => (type === 'InternalIP' ? [address] : []));
  const found = new Map<Family, string>();
  for (const text of texts) {
    const ip = parseIp(text);
    if (!found.has(ip.family)) found.set(ip.family, ip.text);
  }
  return found;
}

/** Returns a text that names a party: `pod shop/db-0`, `node n1`, `outside 192.0.2.7`. */
export function partyKey(party: ReachParty): string {
  return party.is === 'pod' ? `pod ${keyOf(party.pod)}` : partyName(party);
}

/** Returns the name of a party: `shop/db-0`, `node n1`, `outside 192.0.2.7`. */
export function partyName(party: ReachParty): string {
  if (party.is === 'pod') return keyOf(party.pod);
  return party.is === 'node' ? `node ${party.node.metadata.name}` : `outside ${party.address}`;
}
