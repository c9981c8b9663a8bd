import fc from 'fast-check';
import { expect, it } from 'vitest';
import { isSampled, sampledPorts, samplingChoices } from './sampled-connections.ts';

it('chooses the source ports that the flows match, and of a run of even ports exactly one of so many', () => {
  fc.assert(
    fc.property(fc.constantFrom(...samplingChoices), fc.integer({ min: 0, max: 60_000 }), (sampling, from) => {
      const bits = sampledPorts(sampling) ?? { value: 0, mask: 0 };
      const run = Array.from({ length: sampling }, (_, at) => (from & ~1) + 2 * at);
      for (const port of run) expect(isSampled(sampling, port)).toBe((port & bits.mask) === bits.value);
      expect(run.filter((port) => isSampled(sampling, port))).toHaveLength(1);
    }),
  );
});

it('chooses each connection without ports', () => {
  for (const sampling of samplingChoices) expect(isSampled(sampling, undefined)).toBe(true);
});
