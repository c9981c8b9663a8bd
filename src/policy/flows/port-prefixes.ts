import type { Bits } from '../../dataplane/pipeline/flow.ts';

const portMax = 65_535;

/**
 * Returns the ports from `first` to `last`, both included, as values with masks that do not overlap: as few as possible, 30 at most.
 *
 * A mask of 0 matches every port.
 */
export function portPrefixes({ first, last }: { readonly first: number; readonly last: number }): readonly Bits[] {
  const prefixes: Bits[] = [];
  for (let from = first; from <= last; ) {
    let size = 1;
    while (from % (2 * size) === 0 && from + 2 * size - 1 <= last) size *= 2;
    prefixes.push({ value: from, mask: portMax & ~(size - 1) });
    from += size;
  }
  return prefixes;
}
