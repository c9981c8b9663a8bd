import { FakeTarget } from '../../src/dataplane/reconcile/testing/fake-target.ts';
import { targetContract } from './target.ts';

targetContract(
  'FakeTarget',
  async () => {
    const target = new FakeTarget<string, number>((key) => (key === 'flow' ? ['group'] : []));
    target.poison.add('bad');
    return {
      target,
      equal: (a: number, b: number) => a === b,
      base: new Map([['ground', 0]]),
      entries: new Map(Object.entries({ x: 1, y: 2, z: 3 })),
      changes: new Map(Object.entries({ y: 20 })),
      impossible: new Map([['bad', 1]]),
      dependence: { needed: new Map([['group', 1]]), dependent: new Map([['flow', 1]]) },
      foreign: () => 'none: all of it is Seine’s',
      disturb: async () => void target.held.set('y', 99),
      wipe: async () => target.wipe(),
      die: async () => target.die(),
      revive: async () => target.revive(),
      close: async () => {},
    };
  },
  { refusal: 'all', dependence: 'enforced' },
);
