import { FakeTarget } from '../../src/datapath/fake-target.ts';
import { targetContract } from './target.ts';

targetContract(
  'FakeTarget',
  async () => {
    const target = new FakeTarget<string, number>();
    target.poison.add('bad');
    return {
      target,
      equal: (a: number, b: number) => a === b,
      base: new Map([['ground', 0]]),
      entries: new Map(Object.entries({ x: 1, y: 2, z: 3 })),
      changes: new Map(Object.entries({ y: 20 })),
      impossible: new Map([['bad', 1]]),
      foreign: () => 'none: it is all ours',
      disturb: async () => void target.held.set('y', 99),
      wipe: async () => target.wipe(),
      die: async () => target.die(),
      revive: async () => target.revive(),
      close: async () => {},
    };
  },
  { refusal: 'all' },
);
