import fc from 'fast-check';
import { expect, it } from 'vitest';
import { finish } from '../../../base/async/steps.ts';
import { parseCidr } from '../../../base/net/ip.ts';
import { blockTerm } from '../term.ts';
import { PeerSet, type TermHolding } from './peer-set.ts';
import { termsBeyond } from './peer-shares.ts';

const holdings = Array.from({ length: 12 }, (_, at): TermHolding => {
  const term = blockTerm([{ cidr: parseCidr(`10.${at}.0.0/16`), except: [] }]);
  if (!term) throw new Error('no term');
  return { id: at + 1, text: term.text, term };
});
const setOf = (id: number, places: readonly number[]) =>
  new PeerSet(
    id,
    [...new Set(places)].sort((a, b) => a - b).flatMap((at) => holdings[at] ?? []),
  );
/** Three namespaces have four terms each. */
const namespaceOf = ({ id }: TermHolding) => `ns${Math.floor((id - 1) / 4)}`;
const claimantsOf = ({ text }: { readonly text: string }) => new Set(holdings.filter((each) => each.text === text).map(namespaceOf));

const anySets = fc.array(fc.array(fc.nat({ max: 11 }), { minLength: 1, maxLength: 5 }), { maxLength: 30 }).map((all) => {
  const distinct = new Map(all.map((places) => [[...new Set(places)].sort((a, b) => a - b).join(), places]));
  return [...distinct.values()].map((places, at) => setOf(at + 1, places));
});

function leftOf(sets: readonly PeerSet[], out: ReadonlySet<TermHolding>): number {
  const texts = sets.map((set) => set.holdings.flatMap((each) => (out.has(each) ? [] : each.id)).join());
  return new Set(texts.filter((text) => text !== '')).size;
}

it('no more sets remain than there are numbers, and no term with a number is left out', () => {
  fc.assert(
    fc.property(anySets, fc.integer({ min: 1, max: 30 }), (sets, most) => {
      const out = finish(termsBeyond({ sets, most, claimantsOf }));
      expect(leftOf(sets, out)).toBeLessThanOrEqual(most);
      if (leftOf(sets, new Set()) <= most) expect(out.size).toBe(0);
    }),
    { numRuns: 2_000 },
  );
});

it('the order in which sets are known does not matter', () => {
  fc.assert(
    fc.property(anySets, fc.integer({ min: 1, max: 10 }), (sets, most) => {
      const textsOf = (out: ReadonlySet<TermHolding>) => [...out].map(({ text }) => text).sort();
      const [first, second] = [sets, sets.toReversed()].map((each) => textsOf(finish(termsBeyond({ sets: each, most, claimantsOf }))));
      expect(first).toEqual(second);
    }),
  );
});

it('a namespace with few networks is served completely next to one whose rules separate all addresses', () => {
  const combinations = Array.from({ length: 255 }, (_, at) =>
    Array.from({ length: 8 }, (_bit, bit) => bit).filter((bit) => ((at + 1) >> bit) & 1),
  );
  const sets = [...combinations, [8], [9], [10], [11]].map((places, at) => setOf(at + 1, places));
  const claimants = ({ text }: { readonly text: string }) =>
    new Set(holdings.filter((each) => each.text === text).map(({ id }) => (id <= 8 ? 'a-greedy' : 'small')));
  const out = finish(termsBeyond({ sets, most: 20, claimantsOf: claimants }));
  expect([...out].filter(({ id }) => id > 8)).toEqual([]);
  expect(out.size).toBe(4);
});
