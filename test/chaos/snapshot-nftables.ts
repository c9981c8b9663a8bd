import { type Place, runOn } from './host.ts';

type Statement = Readonly<Record<string, unknown>>;
interface NftObject extends Statement {
  readonly family: string;
  readonly table?: string;
  readonly chain?: string;
  readonly name?: string;
  readonly elem?: readonly unknown[];
}

/** A line for each table, chain, rule with its place in the chain, set, and element. The lab's own table is omitted. */
export async function packetFilterLines(place: Place): Promise<string[]> {
  const { nftables } = JSON.parse(await runOn(place, 'nft', '-j', 'list', 'ruleset')) as { nftables: Record<string, NftObject>[] };
  const places = new Map<string, number>();
  return nftables
    .flatMap((each) => Object.entries(each))
    .filter(([kind, { table, name }]) => kind !== 'metainfo' && (table ?? name) !== 'seine-lab')
    .flatMap(([kind, object]) => {
      const chain = `${object.family} ${object.table} ${object.chain}`;
      const at = places.get(chain) ?? 0;
      if (kind === 'rule') places.set(chain, at + 1);
      const { elem, ...rest } = object;
      const elements = (elem ?? []).map((one) => `nft element ${object.family} ${object.table} ${object.name} ${JSON.stringify(one)}`);
      return [`nft ${kind} ${kind === 'rule' ? at : ''} ${JSON.stringify(rest, withoutCounts)}`, ...elements];
    });
}

/** Handles are numbers of the kernel, and counters change. */
function withoutCounts(key: string, value: unknown): unknown {
  return key === 'handle' || key === 'packets' || key === 'bytes' ? undefined : value;
}
