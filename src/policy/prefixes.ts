import { addressBits, type Cidr, type Family, type Ip } from '../net/ip.ts';
import { byAddress } from './term.ts';

/** That something begins or ends to hold in a network. What is said of a smaller network counts there. */
export interface PrefixMark<T> {
  readonly cidr: Cidr;
  readonly adds?: T;
  readonly removes?: T;
}

/** What holds where, for one family. */
export interface PrefixSets<T> {
  /** Networks in which something else holds than in the next larger one, or around all of them. */
  readonly rows: readonly { readonly cidr: Cidr; readonly held: ReadonlySet<T> }[];
  /** What holds at an address. */
  heldAt(ip: Ip): ReadonlySet<T>;
}

interface OpenNetwork<T> {
  readonly lastValue: bigint;
  readonly held: ReadonlySet<T>;
}

/** Marks to what holds in each network that is marked: networks are walked in the order of their addresses, larger ones first. */
export function prefixSets<T>(family: Family, marks: readonly PrefixMark<T>[]): PrefixSets<T> {
  const own = marks.filter(({ cidr }) => cidr.family === family).sort((a, b) => byAddress(a.cidr, b.cidr));
  const nothing: ReadonlySet<T> = new Set();
  const rows: { readonly cidr: Cidr; readonly held: ReadonlySet<T> }[] = [];
  const starts: bigint[] = [0n];
  const sets: ReadonlySet<T>[] = [nothing];
  const open: OpenNetwork<T>[] = [];
  const around = (): ReadonlySet<T> => open.at(-1)?.held ?? nothing;
  const close = (until: bigint): void => {
    for (let top = open.at(-1); top && top.lastValue < until; top = open.at(-1)) {
      open.pop();
      starts.push(top.lastValue + 1n);
      sets.push(around());
    }
  };
  for (const [first, ...more] of Map.groupBy(own, ({ cidr }) => cidr.text).values()) {
    if (!first) continue;
    const { cidr } = first;
    close(cidr.network.value);
    const held = changed(around(), [first, ...more]);
    if (held !== around()) rows.push({ cidr, held });
    starts.push(cidr.network.value);
    sets.push(held);
    open.push({ lastValue: lastValueOf(cidr), held });
  }
  close(1n << BigInt(addressBits(family)));
  return { rows, heldAt: (ip) => sets[lastAtMost(starts, ip.value)] ?? nothing };
}

/** The same object if nothing changes. What is both added and removed at one network does not hold there. */
function changed<T>(around: ReadonlySet<T>, marks: readonly PrefixMark<T>[]): ReadonlySet<T> {
  const held = new Set(around);
  for (const { adds } of marks) if (adds !== undefined) held.add(adds);
  for (const { removes } of marks) if (removes !== undefined) held.delete(removes);
  return held.size === around.size && [...held].every((each) => around.has(each)) ? around : held;
}

function lastValueOf({ family, network, prefixLength }: Cidr): bigint {
  return network.value + (1n << BigInt(addressBits(family) - prefixLength)) - 1n;
}

/** Of several equal starts the last. @param starts ascending, the first is 0 */
function lastAtMost(starts: readonly bigint[], value: bigint): number {
  let [low, high] = [0, starts.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((starts[middle] ?? 0n) <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}
