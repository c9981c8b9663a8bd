import { Debouncer } from '../../base/async/debouncer.ts';
import type { Doorbell } from '../../base/async/wake-signal.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import type { LiveEnvironment } from './live-environment.ts';

/** Time for which changes of the node are gathered (ms): an interface that is reconfigured has no address for a moment. */
const SETTLE_MS = 100;

interface EnvironmentWatchOptions {
  readonly live: Pick<LiveEnvironment, 'look'>;
  readonly nodeName: string;
  readonly nodes: Pick<Replica<Node>, 'subscribe'>;
  /** Rings when the node's own interfaces or their addresses may have changed. */
  readonly interfacesChanged: Doorbell;
}

/** Reads the node's environment again after every change of its Node object or of its interfaces, until the signal. */
export async function watchEnvironment(options: EnvironmentWatchOptions, signal: AbortSignal): Promise<void> {
  const { live, nodeName, nodes, interfacesChanged } = options;
  const look = new Debouncer({ waitMs: SETTLE_MS, restMs: () => SETTLE_MS }, () => live.look(), signal);
  const end = nodes.subscribe((names) => {
    if (names.has(nodeName)) look.ring();
  });
  while (!signal.aborted) {
    await interfacesChanged.wait(signal);
    look.ring();
  }
  end();
}
