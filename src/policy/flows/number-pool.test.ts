import { expect, it } from 'vitest';
import { cookieOf, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { NumberPool, type RecoveredNumbers } from './number-pool.ts';

const [a, b, c] = ['a', 'b', 'c'].map((name) => ownerOf('policy', name)) as [
  ReturnType<typeof ownerOf>,
  ReturnType<typeof ownerOf>,
  ReturnType<typeof ownerOf>,
];
const nothing: RecoveredNumbers = { byCookie: new Map(), seen: new Set() };

it('allocates a number again only 5 s after the bridge was without it', () => {
  const numbers = new NumberPool({ first: 1, last: 1 }, nothing);
  expect(numbers.acquire(a)).toBe(1);
  numbers.release(a);
  expect(numbers.acquire(b)).toBeUndefined();
  numbers.written(7);
  expect(numbers.acknowledged(6, 1_000)).toBe(false);
  expect(numbers.acknowledged(7, 2_000)).toBe(false);
  expect(numbers.acknowledged(8, 6_999)).toBe(false);
  expect(numbers.acquire(b)).toBeUndefined();
  expect(numbers.acknowledged(8, 7_000)).toBe(true);
  expect(numbers.acquire(b)).toBe(1);
});

it('gives a content its previous number, as long as it is not allocated', () => {
  const numbers = new NumberPool({ first: 1, last: 9 }, nothing);
  expect([numbers.acquire(a), numbers.acquire(b)]).toEqual([1, 2]);
  numbers.release(a);
  numbers.written(1);
  expect(numbers.acquire(a)).toBe(1);
  // It is in use again: the earlier acknowledgement does not count.
  expect(numbers.acknowledged(1, 0)).toBe(false);
  expect(numbers.acknowledged(1, 60_000)).toBe(false);
  expect([numbers.numberOf(a), numbers.acquire(c)]).toEqual([1, 3]);
});

it('reports numbers that came into use and went out of it, and none that did both', () => {
  const numbers = new NumberPool({ first: 1, last: 9 }, nothing);
  numbers.acquire(a);
  numbers.acquire(b);
  numbers.release(b);
  expect(numbers.takeChanges()).toEqual({ began: new Set([a]), ended: new Set() });
  numbers.acquire(a);
  numbers.release(a);
  numbers.release(a);
  numbers.acquire(a);
  expect(numbers.takeChanges()).toEqual({ began: new Set(), ended: new Set() });
  numbers.release(a);
  expect(numbers.takeChanges()).toEqual({ began: new Set(), ended: new Set([a]) });
});

it('continues with the numbers of the bridge, and allocates none of them to another content', () => {
  const recovered = { byCookie: new Map([[cookieOf(a), 2]]), seen: new Set([1, 2, 5]) };
  const numbers = new NumberPool({ first: 1, last: 5 }, recovered);
  numbers.announce([a, b]);
  expect([numbers.acquire(b), numbers.acquire(a), numbers.acquire(c)]).toEqual([3, 2, 4]);
  expect(numbers.acquire(ownerOf('policy', 'd'))).toBeUndefined();
  numbers.obsoleteRemoved();
  expect(numbers.acquire(ownerOf('policy', 'd'))).toBe(5);
});

it('transfers the number of a content to another one, and does not allocate it to a third', () => {
  const numbers = new NumberPool({ first: 1, last: 2 }, nothing);
  for (const name of [a, a]) numbers.acquire(name);
  numbers.takeChanges();
  numbers.inherit(b, a);
  expect(() => numbers.inherit(c, a)).toThrow('inherits');
  expect([numbers.acquire(b), numbers.numberOf(a)]).toEqual([1, 1]);
  for (const name of [a, a]) numbers.release(name);
  expect([numbers.isKnown(a), numbers.numberOf(b), numbers.usesOf(b), numbers.size]).toEqual([false, 1, 1, 1]);
  expect(numbers.takeChanges()).toEqual({ began: new Set([b]), ended: new Set([a]) });
  numbers.written(1);
  numbers.acknowledged(1, 0);
  numbers.acknowledged(1, 10_000);
  expect([numbers.acquire(c), numbers.acquire(a)]).toEqual([2, undefined]);
  expect(() => numbers.inherit(a, a)).toThrow('inherits');
});
