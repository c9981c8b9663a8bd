import { describe, expect, it } from 'vitest';
import { NumberReturns } from './number-returns.ts';

describe('numbers', () => {
  const asked: string[] = [];
  let leftovers = true;
  const returns = () =>
    new NumberReturns({
      flows: {
        acknowledged: (revision) => asked.push(`acknowledged ${revision}`) > 99,
        obsoleteRemoved: () => asked.push('leftovers gone') > 0,
      },
      nodeState: { hasPolicyLeftovers: () => leftovers, reconcilers: { bridge: { realizedRevision: 5 } } },
      now: () => 0,
    });

  it('are not free before removals are allowed, nor before the bridge was observed without leftovers', () => {
    const numbers = returns();
    expect(numbers.look()).toBe(false);
    numbers.removalsAllowed();
    expect(numbers.look()).toBe(false);
    expect(asked).toEqual([]);
    leftovers = false;
    expect(numbers.look()).toBe(true);
    leftovers = true; // no longer relevant: for the rows of this agent, revisions show what is removed
    expect(numbers.look()).toBe(false);
    expect(asked).toEqual(['leftovers gone', 'acknowledged 5', 'acknowledged 5']);
  });
});
