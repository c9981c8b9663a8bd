import { pause } from '../../base/async/pause.ts';
import { within } from '../../base/async/time-limit.ts';
import { Doorbell } from '../../base/async/wake-signal.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { SwitchDatabase } from '../../dataplane/targets/switch/switch-database.ts';
import type { Readiness } from './readiness.ts';

const KEY = 'flow-restore-wait';
/** Timeout of a confirmation (ms); it is then logged and started again. */
const PATIENCE_MS = 10_000;
const RETRY_MS = 1_000;

interface FlowRestoreOptions {
  readonly database: SwitchDatabase;
  readonly nodeState: Pick<NodeState, 'bridge' | 'reconcilers'>;
  /** OVSDB lock required for writes. */
  readonly lock: string;
  readonly readiness: Readiness;
  readonly log: Log;
}

/**
 * Lets an OVS that was started with `flow-restore-wait` forward packets, once its flows are installed.
 *
 * The script that starts ovs-vswitchd sets the key first, so that the kernel keeps its cached flows until the new ones are known; clearing
 * it flushes that cache (ovs-vswitchd.conf.db(5)). So it is cleared only after everything desired was acknowledged and read back. If that
 * fails, OVS keeps waiting and the agent reports it: an alarm, never an unchecked release.
 */
export async function keepFlowRestore(options: FlowRestoreOptions, signal: AbortSignal): Promise<void> {
  const { database, readiness, log } = options;
  const bell = new Doorbell();
  database.onChange((changes) => changes.some(({ table }) => table === 'Open_vSwitch') && bell.ring(), signal);
  bell.ring();
  while (!signal.aborted) {
    await bell.wait(signal);
    while (!signal.aborted && isWaiting(database)) {
      readiness.obstruct(KEY, 'starting', 'OVS waits for its flows (flow-restore-wait)');
      try {
        await release(options, within(signal, PATIENCE_MS));
      } catch (thrown) {
        const { message: cause } = SeineError.from(thrown, 'restore flows');
        if (!signal.aborted) log.failing(KEY, 'OVS still waits for its flows', { cause }, 'error');
        await pause(RETRY_MS, signal);
      }
    }
    log.working(KEY);
    readiness.clear(KEY);
  }
}

async function release({ database, nodeState, lock, log }: FlowRestoreOptions, signal: AbortSignal): Promise<void> {
  const startedMs = performance.now();
  const { bridge } = nodeState.reconcilers;
  await bridge.realized(nodeState.bridge.revision, signal);
  await bridge.confirmed(signal);
  const refused = bridge.failures();
  if (refused.length > 0) log.warn('OVS refused flows of some owners', { owners: refused.map(({ owner }) => owner).slice(0, 20) });
  await database.transact((tx) => {
    tx.assertLock(lock);
    tx.mutate('Open_vSwitch', [], ['other_config', 'delete keys', [KEY]]);
  }, signal);
  log.info('OVS forwards with restored flows', { flows: nodeState.bridge.size, tookMs: Math.round(performance.now() - startedMs) });
}

function isWaiting(database: SwitchDatabase): boolean {
  const [row] = database.tables.Open_vSwitch.rows();
  return row?.other_config.get(KEY) === 'true';
}
