import { setTimeout as sleep } from 'node:timers/promises';
import { Doorbell } from '../../base/async/wake-signal.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { KubeHttp } from '../../kubernetes/client/http-client.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import { type NodeCondition, setNodeCondition } from '../../kubernetes/resources/node-condition.ts';
import type { Readiness } from './readiness.ts';

/** Minimum time between two writes (ms), in case another controller keeps writing the opposite. */
const PAUSE_MS = { first: 1_000, most: 60_000 } as const;

/** Condition by which the scheduler and cloud controllers know that a node can run pods. */
const available: NodeCondition = {
  type: 'NetworkUnavailable',
  status: 'False',
  reason: 'SeineIsUp',
  message: 'Seine is ready to wire pods on this node',
};

interface NetworkConditionOptions {
  readonly nodeName: string;
  readonly nodes: Pick<Replica<Node>, 'get' | 'subscribe' | 'whenSynced'>;
  readonly http: KubeHttp;
  readonly readiness: Pick<Readiness, 'whenReady'>;
  readonly log: Log;
  /** Minimum times between writes, for tests (ms). */
  readonly rests?: { readonly first: number; readonly most: number };
}

/**
 * Keeps the condition `NetworkUnavailable: False` on this node's object from when the agent is first ready. Written only where the object
 * differs: a restart of all agents of a cluster writes nothing.
 *
 * The condition stays when the agent stops: running pods do not need it, and new ones wait for it.
 */
export async function keepNetworkCondition(options: NetworkConditionOptions, signal: AbortSignal): Promise<void> {
  const { nodeName, nodes, readiness, rests = PAUSE_MS } = options;
  const bell = new Doorbell();
  const end = nodes.subscribe((names) => {
    if (names.has(nodeName)) bell.ring();
  });
  try {
    await nodes.whenSynced(signal);
    await readiness.whenReady(signal);
    for (let restMs: number = rests.first; !signal.aborted; ) {
      const node = nodes.get(nodeName);
      if (node === undefined || node.networkUnavailable === false) {
        restMs = rests.first;
        await bell.wait(signal);
        continue;
      }
      await write(options, signal);
      await sleep(restMs, undefined, { signal });
      restMs = Math.min(2 * restMs, rests.most);
    }
  } catch (thrown) {
    if (!signal.aborted) throw thrown;
  } finally {
    end();
  }
}

/** Writes the condition. The caller retries failures: nothing else on the node waits for it. */
async function write({ http, nodeName, log }: NetworkConditionOptions, signal: AbortSignal): Promise<void> {
  try {
    await setNodeCondition(http, nodeName, available, signal);
    log.info('set NetworkUnavailable to False', { condition: available.type, status: available.status });
  } catch (thrown) {
    const error = SeineError.from(thrown, 'condition of the node');
    if (error.code === 'CANCELLED') throw error;
    if (error.code === 'INVARIANT') throw error;
    log.warn('the node’s condition NetworkUnavailable cannot be written; trying again', { cause: error.message });
  }
}
