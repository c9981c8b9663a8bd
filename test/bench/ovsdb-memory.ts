/**
 * Keeps a copy of an OVSDB database as the agent does, and prints its memory (MiB): on the heap and outside it after a garbage collection,
 * less the memory before.
 *
 *     node --expose-gc test/bench/ovsdb-memory.ts DB.SOCK
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { openSwitchDatabase } from '../../src/dataplane/targets/switch/switch-database.ts';

const [, , socketPath = ''] = process.argv;
const stop = new AbortController();
const before = await held();
const database = openSwitchDatabase(socketPath, {});
const running = database.run(stop.signal);
await database.synced(stop.signal);
const after = await held();
process.stdout.write(`${JSON.stringify({ ports: database.tables.Port.size, mib: (after - before) / 2 ** 20 })}\n`);
stop.abort();
await running;

/** Bytes in use. */
async function held(): Promise<number> {
  for (let turn = 0; turn < 4; turn++) {
    globalThis.gc?.();
    await sleep(20);
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
