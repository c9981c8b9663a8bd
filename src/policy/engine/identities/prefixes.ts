import type { Steps } from '../../../base/async/steps.ts';
import { addressBits, type Cidr, type Family, type Ip } from '../../../base/net/ip.ts';
import { byAddress } from './block-union.ts';

/** Begin or end of a value within a network. A mark on a smaller network takes precedence there. */
export interface PrefixMark<T> {
  readonly cidr: Cidr;
  readonly adds?: T;
  readonly removes?: T;
}

/** Values by network, for one family. */
export interface PrefixSets<T> {
  /** Networks whose values differ from those of the next larger network, or from the empty set outside all of them. */
  readonly rows: readonly { readonly cidr: Cidr; readonly held: ReadonlySet<T> }[];
  /** Returns the values at an address. */
  heldAt(ip: Ip): ReadonlySet<T>;
}

interface OpenNetwork<T> {
  readonly lastValue: bigint;
  readonly held: ReadonlySet<T>;
}

/** Computes the values of each marked network. Networks are walked in the order of their addresses, larger ones first. */
export function* prefixSets<T>(family: Family, marks: readonly PrefixMark<T>[]): Steps<PrefixSets<T>> {
  const own = yield* sorted(
    marks.filter(({ cidr }) => cidr.family === family),
    (a, b) => byAddress(a.cidr, b.cidr),
  );
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
  for (let [from, to] = [0, 0]; from < own.length; from = to) {
    const first = own[from];
    if (!first) break;
    for (to = from; own[to]?.cidr.text === first.cidr.text; to++) yield;
    const { cidr } = first;
    close(cidr.network.value);
    const held = changed(around(), own.slice(from, to));
    if (held !== around()) rows.push({ cidr, held });
    starts.push(cidr.network.value);
    sets.push(held);
    open.push({ lastValue: lastValueOf(cidr), held });
  }
  close(1n << BigInt(addressBits(family)));
  return { rows, heldAt: (ip) => sets[lastAtMost(starts, ip.value)] ?? nothing };
}

/** Merge sort that yields after each comparison or short run: a policy may name very many networks. */
function* sorted<T>(all: readonly T[], compare: (a: T, b: T) => number): Steps<readonly T[]> {
  if (all.length <= shortRun) return all.toSorted(compare);
  const middle = all.length >> 1;
  const [left, right] = [yield* sorted(all.slice(0, middle), compare), yield* sorted(all.slice(middle), compare)];
  const merged: T[] = [];
  for (let [at, other] = [0, 0]; at < left.length || other < right.length; ) {
    const [a, b] = [left[at], right[other]];
    if (a !== undefined && (b === undefined || compare(a, b) <= 0)) {
      merged.push(a);
      at++;
    } else if (b !== undefined) {
      merged.push(b);
      other++;
    }
    yield;
  }
  return merged;
}

const shortRun = 64;

/** Returns the same object if nothing changes. A value that is both added and removed at one network is absent there. */
function changed<T>(around: ReadonlySet<T>, marks: readonly PrefixMark<T>[]): ReadonlySet<T> {
  const held = new Set(around);
  for (const { adds } of marks) if (adds !== undefined) held.add(adds);
  for (const { removes } of marks) if (removes !== undefined) held.delete(removes);
  return held.size === around.size && [...held].every((each) => around.has(each)) ? around : held;
}

function lastValueOf({ family, network, prefixLength }: Cidr): bigint {
  return network.value + (1n << BigInt(addressBits(family) - prefixLength)) - 1n;
}

/** Returns the index of the last start that is at most `value`. @param starts ascending, the first is 0 */
function lastAtMost(starts: readonly bigint[], value: bigint): number {
  let [low, high] = [0, starts.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((starts[middle] ?? 0n) <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}
