import { expect, it } from 'vitest';
import { forgettingMegaflows } from './node-state.ts';

it('discards megaflows after urgent changes of flows, without waiting for their round, and passes events on', () => {
  const seen: string[] = [];
  const note = (what: string) => (part: string) => void seen.push(`${what} ${part}`);
  const events = forgettingMegaflows(
    { round: note('round'), failure: note('failure'), refused: note('refused'), drift: note('drift'), repaired: note('repaired') },
    { changed: () => seen.push('discard'), repaired: () => seen.push('discard now') },
    { flowsChanged: () => seen.push('routes wait') },
  );
  events.urgent?.('bridge');
  events.urgent?.('links');
  events.round('bridge', { put: 1, removed: 0, tookMs: 1 });
  events.repaired('bridge', 1);
  events.repaired('host', 1);
  expect(seen).toEqual([
    ...['discard', 'routes wait', 'discard', 'routes wait', 'round bridge'],
    ...['discard now', 'repaired bridge', 'repaired host'],
  ]);
});
