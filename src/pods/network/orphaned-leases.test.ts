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
const CHECK_MS = 5_000;
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
  const conditions = {
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
    leases: () => conditions.leases,
    pods: { apiStateOf: (pod) => (pod ? conditions.word : 'unknown'), isGoneNow: async () => conditions.goneNow },
    isSynced: () => conditions.inStep,
    hasSandbox: () => conditions.sandbox,
    abandon: async ({ serial }) => {
      if (conditions.fails-- > 0) throw new SeineError('UNAVAILABLE', 'the switch is away');
      conditions.leases = conditions.leases.filter((each) => each.serial !== serial);
    },
    log: silentLog,
    nowMs: () => conditions.nowMs,
  });
  const pass = async (ms: number): Promise<void> => {
    for (const endMs = conditions.nowMs + ms; conditions.nowMs < endMs; ) {
      conditions.nowMs += CHECK_MS;
      await gone.look(signal);
    }
  };
  return { conditions, gone, pass };
}

describe('a pod of which nothing is left and without a DEL', () => {
  const nothingLeft = { word: 'gone', sandbox: false } as const;

  it('has its addresses released after a safe time, and is reported until then', async () => {
    const { conditions, gone, pass } = scene();
    Object.assign(conditions, nothingLeft);
    await pass(SAFE_MS);
    expect(gone.kept).toEqual([{ pod: 'default/web', why: 'nothing of it is left on the node; its DEL is waited for, 30 s in all' }]);
    await pass(CHECK_MS);
    expect({ left: conditions.leases, kept: gone.kept, released: gone.released }).toEqual({ left: [], kept: [], released: 1 });
  });

  it('is retried if it cannot be removed', async () => {
    const { conditions, gone, pass } = scene();
    Object.assign(conditions, { ...nothingLeft, fails: 2 });
    await pass(SAFE_MS + 2 * CHECK_MS);
    expect(gone.released).toBe(0);
    await pass(CHECK_MS);
    expect(gone.released).toBe(1);
  });

  it('is kept if the API server has it after all', async () => {
    const { conditions, gone, pass } = scene();
    Object.assign(conditions, { ...nothingLeft, goneNow: false });
    await pass(4 * SAFE_MS);
    expect(gone.released).toBe(0);
  });

  it('is kept if another plugin has allocated its addresses, and reported', async () => {
    const { conditions, gone, pass } = scene(leaseOf(1, { namespace: 'default', name: 'web', uid: 'u-1' }, { ipamType: 'host-local' }));
    Object.assign(conditions, nothingLeft);
    await pass(4 * SAFE_MS);
    expect(gone.kept).toEqual([{ pod: 'default/web', why: expect.stringContaining('host-local') }]);
    expect(conditions.leases).toHaveLength(1);
  });
});

it('keeps a live pod that the API server does not have, and reports it', async () => {
  const { conditions, gone, pass } = scene();
  conditions.word = 'gone';
  await pass(55_000);
  expect(gone.kept).toEqual([]);
  await pass(10_000);
  expect(gone.kept).toEqual([{ pod: 'default/web', why: 'its namespace /run/netns/n1 or its interface veth1 is still there' }]);
  await pass(10 * SAFE_MS);
  expect(conditions.leases).toHaveLength(1);
});

it('never touches a container of no cluster', async () => {
  const { conditions, gone, pass } = scene(leaseOf(1));
  Object.assign(conditions, { word: 'gone', sandbox: false });
  await pass(10 * SAFE_MS);
  expect({ kept: gone.kept, leases: conditions.leases.length }).toEqual({ kept: [], leases: 1 });
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
      const { conditions, gone, pass } = scene();
      let sureSinceMs: number | undefined;
      for (const { looks, ...now } of changes) {
        Object.assign(conditions, now);
        for (let look = 0; look < looks; look++) {
          const isSure = now.inStep && now.word === 'gone' && !now.sandbox;
          sureSinceMs = isSure ? (sureSinceMs ?? conditions.nowMs + CHECK_MS) : undefined;
          const due = sureSinceMs !== undefined && conditions.nowMs + CHECK_MS - sureSinceMs >= SAFE_MS && now.goneNow;
          await pass(CHECK_MS);
          expect(gone.released).toBe(due ? 1 : 0);
          if (due) return;
        }
      }
    }),
  );
});
