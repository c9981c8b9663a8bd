import type { LoopTurns } from '../../base/async/loop-turns.ts';
import { trackedConnection } from '../../policy/denied-log/open-connections.ts';
import type { NodeServices } from '../../services/controller/open-services.ts';
import type { FlowLog } from './flow-log.ts';
import type { FlowRecord } from './records/flow-record.ts';

interface OpenNowPort {
  readonly config: { readonly ovsDatapathType: 'system' | 'netdev' };
  /** @throws SeineError `UNAVAILABLE` until the node is known */
  readonly running: () => { readonly proxy: { readonly tracked: Pick<NodeServices['tracked'], 'list'> } };
  readonly turns: Pick<LoopTurns, 'due' | 'next'>;
}

/**
 * Yields connections that are open now, of those with ports. On the kernel's data path its tracker is listed, in slices. The tracker of the
 * userspace data path is never listed: there it is what the log knows, TCP connections with a record and without a recorded end.
 *
 * @throws SeineError if the tracker cannot be read
 */
export async function* openNow({ config, running, turns }: OpenNowPort, log: FlowLog): AsyncGenerator<FlowRecord> {
  if (config.ovsDatapathType === 'netdev') {
    for (let number = log.numbers.oldest; number < log.numbers.next; number++) {
      if (turns.due) await turns.next();
      const flow = log.openAt(number);
      if (flow) yield flow;
    }
    return;
  }
  for (const each of await running().proxy.tracked.list(['tcp', 'udp', 'sctp'])) {
    if (turns.due) await turns.next();
    const connection = trackedConnection(each);
    if (connection) yield log.nowOpen(connection);
  }
}
