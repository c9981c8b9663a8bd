import { addressBits, type Ip } from '../../base/net/ip.ts';
import { isSpecial } from '../../base/net/special-ranges.ts';
import { type Link, listLinks } from '../../netlink/links.ts';
import { type Address, listAddresses } from '../../netlink/routing/addresses.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';

/** Maximum number of addresses: each takes a few flows. */
const ADDRESSES_MAX = 64;
/** Interface of kube-proxy's mode ipvs: its addresses are Services', with any pod as endpoint. */
const IPVS_INTERFACE = 'kube-ipvs0';

/** Returns the current local addresses. */
export function readLocalAddresses(socket: NetlinkSocket, gateway: string): readonly Ip[] {
  return localAddresses(listAddresses(socket), listLinks(socket), gateway);
}

/**
 * Returns addresses of the node's interfaces at which pods reach it, in order of their text, the first 64; they include those that
 * NodeLocal DNSCache binds on its own interface. A link-local address counts only if it was assigned as a single address
 * (169.254.20.10/32). Pure.
 *
 * @param gateway name of the bridge's gateway, whose own addresses are known: any other on it is removed (`HostTarget`), and is not a
 * change of the node
 */
export function localAddresses(
  addresses: readonly Pick<Address, 'link' | 'address' | 'prefixLength' | 'scope' | 'duplicateDetection'>[],
  links: readonly Pick<Link, 'name' | 'index'>[],
  gateway: string,
): readonly Ip[] {
  const left = new Set(links.filter(({ name }) => name === IPVS_INTERFACE || name === gateway).map(({ index }) => index));
  const reached = addresses.filter(
    ({ link, address, prefixLength, scope, duplicateDetection }) =>
      !left.has(link) &&
      scope === 'global' &&
      duplicateDetection !== 'failed' &&
      (!isSpecial(address) || (address.text.startsWith('169.254.') && prefixLength === addressBits(address.family))),
  );
  const byText = new Map(reached.map(({ address }) => [address.text, address]));
  return [...byText.values()].sort((a, b) => (a.text < b.text ? -1 : 1)).slice(0, ADDRESSES_MAX);
}
