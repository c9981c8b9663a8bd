import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { silentLog } from '../../base/log/log.ts';
import { parseMac } from '../../base/net/mac.ts';
import type { AttachedLease } from '../ipam/attached-lease.ts';
import type { PodIdentity } from '../ipam/attachment.ts';
import type { PodWord } from './node-pods.ts';
import { OrphanedLeases } from './orphaned-leases.ts';

const SAFE_MS = 30_000;
const LOOK_MS = 5_000;
const mac = parseMac('02:00:00:00:00:01');
const { signal } = new AbortController();

function leaseOf(serial: number, pod?: PodIdentity, more: Partial<AttachedLease> = {}): AttachedLease {
  const attached = { hostIfName: `veth${serial}`, hostMac: mac, mtu: 1_450 };
  const key = { network: 'seine', containerId: `c${serial}`, ifName: 'eth0' };
  const lease = { ...key, serial, state: 'allocated', addresses: [], mac, netns: `/run/netns/n${serial}`, attached, ...more } as const;
  return pod ? { ...lease, pod } : lease;
}

/** Node with one pod in a correct state until a test changes it. */
function scene(lease = leaseOf(1, { namespace: 'default', name: 'web', uid: 'u-1' })) {
  const world = {
    nowMs: 0,
    inStep: true,
    word: 'living' as PodWord,
    /** Current reply of the API server. */
    goneNow: true,
    sandbox: true,
    fails: 0,
    leases: [lease],
  };
  const gone = new OrphanedLeases({
    leases: () => world.leases,
    pods: { apiStateOf: (pod) => (pod ? world.word : 'unknown'), isGoneNow: async () => world.goneNow },
    isSynced: () => world.inStep,
    hasSandbox: () => world.sandbox,
    abandon: async ({ serial }) => {
      if (world.fails-- > 0) throw new SeineError('UNAVAILABLE', 'the switch is away');
      world.leases = world.leases.filter((each) => each.serial !== serial);
    },
    log: silentLog,
    nowMs: () => world.nowMs,
  });
  const pass = async (ms: number): Promise<void> => {
    for (const endMs = world.nowMs + ms; world.nowMs < endMs; ) {
      world.nowMs += LOOK_MS;
      await gone.look(signal);
    }
  };
  return { world, gone, pass };
}

describe('a pod of which nothing is left and without a DEL', () => {
  const nothingLeft = { word: 'gone', sandbox: false } as const;

  it('has its addresses released after a safe time, and is reported until then', async () => {
    const { world, gone, pass } = scene();
    Object.assign(world, nothingLeft);
    await pass(SAFE_MS);
    expect(gone.kept).toEqual([{ pod: 'default/web', why: 'nothing of it is left on the node; its DEL is waited for, 30 s in all' }]);
    await pass(LOOK_MS);
    expect({ left: world.leases, kept: gone.kept, released: gone.released }).toEqual({ left: [], kept: [], released: 1 });
  });

  it('is retried if it cannot be removed', async () => {
    const { world, gone, pass } = scene();
    Object.assign(world, { ...nothingLeft, fails: 2 });
    await pass(SAFE_MS + 2 * LOOK_MS);
    expect(gone.released).toBe(0);
    await pass(LOOK_MS);
    expect(gone.released).toBe(1);
  });

  it('is kept if the API server has it after all', async () => {
    const { world, gone, pass } = scene();
    Object.assign(world, { ...nothingLeft, goneNow: false });
    await pass(4 * SAFE_MS);
    expect(gone.released).toBe(0);
  });

  it('is kept if another plugin has allocated its addresses, and reported', async () => {
    const { world, gone, pass } = scene(leaseOf(1, { namespace: 'default', name: 'web', uid: 'u-1' }, { ipamType: 'host-local' }));
    Object.assign(world, nothingLeft);
    await pass(4 * SAFE_MS);
    expect(gone.kept).toEqual([{ pod: 'default/web', why: expect.stringContaining('host-local') }]);
    expect(world.leases).toHaveLength(1);
  });
});

it('keeps a live pod that the API server does not have, and reports it', async () => {
  const { world, gone, pass } = scene();
  world.word = 'gone';
  await pass(55_000);
  expect(gone.kept).toEqual([]);
  await pass(10_000);
  expect(gone.kept).toEqual([{ pod: 'default/web', why: 'its namespace /run/netns/n1 or its interface veth1 is still there' }]);
  await pass(10 * SAFE_MS);
  expect(world.leases).toHaveLength(1);
});

it('never touches a container of no cluster', async () => {
  const { world, gone, pass } = scene(leaseOf(1));
  Object.assign(world, { word: 'gone', sandbox: false });
  await pass(10 * SAFE_MS);
  expect({ kept: gone.kept, leases: world.leases.length }).toEqual({ kept: [], leases: 1 });
});

it('releases exactly the pods that API server and node report as deleted for the safe time, without interruption', async () => {
  const change = fc.record({
    inStep: fc.boolean(),
    word: fc.constantFrom<PodWord>('gone', 'gone', 'living', 'unknown'),
    goneNow: fc.boolean(),
    sandbox: fc.boolean(),
    looks: fc.integer({ min: 1, max: 9 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 12 }), async (changes) => {
      const { world, gone, pass } = scene();
      let sureSinceMs: number | undefined;
      for (const { looks, ...now } of changes) {
        Object.assign(world, now);
        for (let look = 0; look < looks; look++) {
          const isSure = now.inStep && now.word === 'gone' && !now.sandbox;
          sureSinceMs = isSure ? (sureSinceMs ?? world.nowMs + LOOK_MS) : undefined;
          const due = sureSinceMs !== undefined && world.nowMs + LOOK_MS - sureSinceMs >= SAFE_MS && now.goneNow;
          await pass(LOOK_MS);
          expect(gone.released).toBe(due ? 1 : 0);
          if (due) return;
        }
      }
    }),
  );
});
