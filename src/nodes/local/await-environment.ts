import { SeineError } from '../../base/errors/seine-error.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import { type EnvironmentSources, LiveEnvironment } from './live-environment.ts';
import type { Readiness } from './readiness.ts';

/** Interval between checks of the node while something is missing (ms); changes of the Node object are noticed at once. */
const RETRY_MS = 500;
const OBSTACLE = 'environment';

interface AwaitEnvironmentOptions extends EnvironmentSources {
  readonly nodes: Pick<Replica<Node>, 'get' | 'synced' | 'subscribe'>;
  readonly readiness: Pick<Readiness, 'obstruct' | 'clear'>;
}

/**
 * Waits until node, pod CIDRs and transport interface are known, and reports what is missing meanwhile.
 *
 * @throws SeineError `CANCELLED`, and every failure but `UNAVAILABLE`
 */
export async function awaitEnvironment(options: AwaitEnvironmentOptions, signal: AbortSignal): Promise<LiveEnvironment> {
  const { nodes, readiness, log } = options;
  for (let lastReason = ''; ; ) {
    try {
      const live = new LiveEnvironment(options);
      readiness.clear(OBSTACLE);
      return live;
    } catch (thrown) {
      const error = SeineError.from(thrown, 'read the environment of the node');
      if (error.code !== 'UNAVAILABLE') throw error;
      readiness.obstruct(OBSTACLE, 'starting', error.message);
      if (error.message !== lastReason) log.info('waiting for the node’s environment', { reason: error.message });
      lastReason = error.message;
    }
    await changeOrTimeout(nodes, signal);
  }
}

async function changeOrTimeout(nodes: Pick<Replica<Node>, 'subscribe'>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  await new Promise<void>((resolve) => {
    const end = nodes.subscribe(() => finish());
    const timer = setTimeout(() => finish(), RETRY_MS);
    const finish = (): void => {
      end();
      clearTimeout(timer);
      signal.removeEventListener('abort', finish);
      resolve();
    };
    signal.addEventListener('abort', finish, { once: true });
  });
}
