import { SeineError } from '../../base/errors/seine-error.ts';
import { AddressPool } from './address-pool.ts';
import type { LeaseRequest, Pool } from './lease.ts';

/** Makes the pools, IPv4 first. @throws SeineError `INVALID_INPUT` for two pools of one family, and for one without room */
export function poolsOf(pools: readonly Pool[]): readonly AddressPool[] {
  const families = new Set(pools.map(({ cidr }) => cidr.family));
  if (families.size !== pools.length) throw new SeineError('INVALID_INPUT', 'more than one pod CIDR of one family');
  return pools.toSorted((a, b) => a.cidr.family.localeCompare(b.cidr.family)).map((pool) => new AddressPool(pool));
}

/**
 * Returns the pools from which a request needs an address.
 *
 * @throws SeineError `REFUSED` if there is no pool; `INVALID_INPUT`, with `asked` and `ip`, if a requested address is not possible
 */
export function poolsFor({ addresses }: LeaseRequest, pools: readonly AddressPool[]): readonly AddressPool[] {
  if (pools.length === 0) throw new SeineError('REFUSED', 'the node has no pod CIDR yet');
  for (const family of ['ipv4', 'ipv6'] as const) {
    const wanted = addresses.filter((ip) => ip.family === family);
    const [first] = wanted;
    if (!first) continue;
    const context = { asked: 'ip', ip: first.text };
    if (wanted.length > 1)
      throw new SeineError('INVALID_INPUT', `more than one ${family} address requested: ${wanted.map(({ text }) => text).join(', ')}`, {
        context,
      });
    if (!pools.some(({ pool }) => pool.cidr.family === family))
      throw new SeineError('INVALID_INPUT', `${first.text} requested, but the node has no ${family} pod CIDR`, { context });
  }
  return pools;
}
