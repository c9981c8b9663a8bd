import fc from 'fast-check';
import type { Endpoint } from 'kubernetes-types/discovery/v1.d.ts';
import { expect, it } from 'vitest';
import { endpointsPerSlice, type Slice, type SliceChanges, spread } from './spread-endpoints.ts';

const ports = [{ name: 'http', port: 80, protocol: 'TCP' }];
const endpoint = (number: number): Endpoint => ({ addresses: [`10.0.${number >> 8}.${number & 255}`] });

function apply(current: readonly Slice[], { updates, creations, removals }: SliceChanges): Slice[] {
  const changed = new Map(updates.map((slice) => [slice.name, slice]));
  const left = current.filter(({ name }) => !removals.includes(name)).map((slice) => changed.get(slice.name) ?? slice);
  return [...left, ...creations.map((content, index) => ({ ...content, name: `new${index}-${current.length}` }))];
}

it('shows an empty slice for a service without endpoints', () => {
  const first = spread([], []);
  expect(first.creations).toEqual([{ ports: [], endpoints: [] }]);
  expect(spread([], apply([], first))).toEqual({ updates: [], creations: [], removals: [] });
});

it('fills the empty slice rather than making another', () => {
  const changes = spread([{ ports, endpoints: [endpoint(1)] }], [{ name: 'a', ports: [], endpoints: [] }]);
  expect(changes).toEqual({ updates: [{ name: 'a', ports, endpoints: [endpoint(1)] }], creations: [], removals: [] });
});

it('leaves an endpoint in its slice when others go', () => {
  const current = [
    { name: 'a', ports, endpoints: [endpoint(1), endpoint(2)] },
    { name: 'b', ports, endpoints: [endpoint(3)] },
  ];
  expect(spread([{ ports, endpoints: [endpoint(2), endpoint(3)] }], current)).toEqual({
    updates: [{ name: 'a', ports, endpoints: [endpoint(2)] }],
    creations: [],
    removals: [],
  });
});

it('separates endpoints whose ports differ', () => {
  const other = [{ name: 'http', port: 81, protocol: 'TCP' }];
  const groups = [
    { ports, endpoints: [endpoint(1)] },
    { ports: other, endpoints: [endpoint(2)] },
  ];
  expect(spread(groups, []).creations).toHaveLength(2);
});

it('has exactly the desired endpoints, at most 100 per slice, after any history, and then writes nothing', () => {
  const sets = fc.array(fc.uniqueArray(fc.integer({ min: 0, max: 400 }), { maxLength: 350 }), { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(sets, (steps) => {
      let slices: Slice[] = [];
      for (const numbers of steps) {
        const groups = numbers.length === 0 ? [] : [{ ports, endpoints: numbers.map(endpoint) }];
        slices = apply(slices, spread(groups, slices));
        const held = slices.flatMap(({ endpoints }) => endpoints.map(({ addresses }) => addresses[0]));
        expect(held.toSorted()).toEqual(numbers.map((number) => endpoint(number).addresses[0]).toSorted());
        for (const { endpoints } of slices) expect(endpoints.length).toBeLessThanOrEqual(endpointsPerSlice);
        expect(spread(groups, slices)).toEqual({ updates: [], creations: [], removals: [] });
      }
    }),
  );
});
