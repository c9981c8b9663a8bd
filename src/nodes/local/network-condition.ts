import { setTimeout as sleep } from 'node:timers/promises';
import { Doorbell } from '../../base/async/wake-signal.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { KubeHttp } from '../../kubernetes/client/http-client.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import { type NodeCondition, setNodeCondition } from '../../kubernetes/resources/node-condition.ts';
import type { Readiness } from './readiness.ts';

/** The least time between two writes (ms), should another controller keep writing the contrary. */
const RESTS_MS = { first: 1_000, most: 60_000 } as const;

/** What makes the scheduler and cloud controllers believe that a node can take pods. */
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
  /** For tests (ms). */
  readonly rests?: { readonly first: number; readonly most: number };
}

/**
 * Keeps the condition `NetworkUnavailable: False` on this node's object from when the agent is first ready. Written only where the
 * object says otherwise: a restart of all agents of a cluster writes nothing.
 *
 * The condition stays when the agent goes: pods go on without it, and new ones wait for it.
 */
export async function keepNetworkCondition(options: NetworkConditionOptions, signal: AbortSignal): Promise<void> {
  const { nodeName, nodes, readiness, rests = RESTS_MS } = options;
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

/** What fails is tried again by the caller: nothing of the node waits for it. */
async function write({ http, nodeName, log }: NetworkConditionOptions, signal: AbortSignal): Promise<void> {
  try {
    await setNodeCondition(http, nodeName, available, signal);
    log.info('the node is said to have its network', { condition: available.type, status: available.status });
  } catch (thrown) {
    const error = SeineError.from(thrown, 'condition of the node');
    if (error.code === 'CANCELLED') throw error;
    if (error.code === 'INVARIANT') throw error;
    log.warn('the node’s condition NetworkUnavailable cannot be written; trying again', { cause: error.message });
  }
}
