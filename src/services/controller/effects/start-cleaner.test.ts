import { expect, it } from 'vitest';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { silentLog } from '../../../base/log/log.ts';
import { parseIp } from '../../../base/net/ip.ts';
import { zones } from '../../../dataplane/pipeline/well-known.ts';
import type { TrackedConnection } from '../../../netlink/conntrack.ts';
import type { Stale } from './stale-connections.ts';
import { StartCleaner } from './start-cleaner.ts';

const emptied = { untilUp: async () => {}, dumpFlows: async () => {}, gather: async () => [] };

/** Connection translated in the bridge's zone, to an endpoint of a Service that is not served. */
function astray(id: number): TrackedConnection {
  const [client, service, endpoint] = [parseIp('10.10.0.9'), parseIp('10.96.0.99'), parseIp('10.10.0.5')];
  const original = { src: client, srcPort: 40_000 + id, dst: service, dstPort: 53 };
  const reply = { src: endpoint, srcPort: 5353, dst: client, dstPort: 40_000 + id };
  return { family: 'ipv4', ipProtocol: 17, zone: zones.ipv4.main, id, original, reply };
}

/** Node whose bridge was reset: only the kernel knows connections. */
function scene(connections: readonly TrackedConnection[], { fails = 0 } = {}) {
  const stop = new AbortController();
  const node = { connections: [...connections], fails, lists: 0 };
  const cleaned: Stale[] = [];
  const cleaner = { clean: (stale: Stale) => void cleaned.push(stale), served: new Map(), transports: ['udp', 'sctp'] as const };
  const tracked = {
    list: async () => {
      node.lists++;
      if (node.fails-- > 0) throw new SeineError('UNAVAILABLE', 'EBUSY');
      return node.connections;
    },
    forget: async (gone: readonly TrackedConnection[]) => {
      node.connections = node.connections.filter((each) => !gone.includes(each));
    },
  };
  /** Delay before each further check, and the numbers of delayed and of remaining connections by then. */
  const waits: { readonly ms: number; readonly held: number; readonly left: number }[] = [];
  const idle = async (ms: number): Promise<void> => void waits.push({ ms, held: start.held, left: node.connections.length });
  const start: StartCleaner = new StartCleaner({ bridge: emptied, cleaner, tracked, log: silentLog, signal: stop.signal, idle });
  return { node, start, waits };
}

it('deletes connections of the kernel without a Service, though the bridge was emptied meanwhile', async () => {
  const { node, start } = scene([astray(1), astray(2)]);
  await start.remember();
  await start.run(Promise.resolve());
  expect({ left: node.connections, lists: node.lists }).toEqual({ left: [], lists: 2 });
});

it('deletes nothing before every source is synced', async () => {
  const { node, start } = scene([astray(1)]);
  const inStep = Promise.withResolvers<void>();
  const running = start.run(inStep.promise);
  expect(node.lists).toBe(0);
  inStep.reject(new Error('the agent stops'));
  await running;
  expect(node.connections).toHaveLength(1);
});

it('delays a mass removal until a second check confirms it, and reports its size', async () => {
  const { start, waits } = scene(Array.from({ length: 6 }, (_, id) => astray(id)));
  await start.run(Promise.resolve());
  expect(waits).toEqual([
    { ms: 10_000, held: 6, left: 6 },
    { ms: 1_000, held: 0, left: 0 },
  ]);
});

it('retries failures', async () => {
  const { start, waits } = scene([astray(1)], { fails: 2 });
  await start.run(Promise.resolve());
  expect(waits.map(({ ms, left }) => [ms, left])).toEqual([
    [5_000, 1],
    [5_000, 1],
    [1_000, 0],
  ]);
});

it('skips connections that are recreated repeatedly', async () => {
  const { node, start, waits } = scene([]);
  Object.defineProperty(node, 'connections', { get: () => [astray(1)], set: () => {} });
  await start.run(Promise.resolve());
  expect(waits.map(({ ms }) => ms)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000]);
});
