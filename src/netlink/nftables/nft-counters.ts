import { SeineError } from '../../base/errors/seine-error.ts';
import { type Nftables, nftName, objectsIn } from './nftables.ts';

/**
 * Returns the packets of each named counter of a table of family `inet`; empty if there is no such table. Its sets are not read, so their
 * size does not matter.
 *
 * @throws SeineError `PROTOCOL` if the listing has an unknown form
 */
export function readCounters(nftables: Pick<Nftables, 'run'>, table: string): ReadonlyMap<string, number> {
  const packets = new Map<string, number>();
  for (const object of objectsIn(listing(nftables, table))) {
    const { counter } = object as { readonly counter?: { readonly name?: unknown; readonly packets?: unknown } };
    if (counter === undefined) continue;
    if (typeof counter.name !== 'string' || typeof counter.packets !== 'number')
      throw new SeineError('PROTOCOL', 'nftables listed a counter of an unknown form');
    packets.set(counter.name, counter.packets);
  }
  return packets;
}

function listing(nftables: Pick<Nftables, 'run'>, table: string): string {
  try {
    return nftables.run(`list counters table inet ${nftName(table)}`);
  } catch (error) {
    if (error instanceof SeineError && error.context['missing'] === true) return '{"nftables": []}';
    throw error;
  }
}
