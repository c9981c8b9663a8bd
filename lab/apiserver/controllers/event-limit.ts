import type { Log } from '../../../src/base/log/log.ts';
import type { ResourceFacts } from '../resource/resource.ts';
import type { Store } from '../store/store.ts';
import { ControllerLoop } from './loop.ts';

/** The real server drops events after an hour; this one keeps the newest. */
export const eventLimit = 5000;
/** Number of events above the limit at which they are removed together, so that not every new event requires a scan. */
const slack = 500;

interface EventLimitPorts {
  readonly store: Pick<Store, 'count' | 'list' | 'remove' | 'subscribe'>;
  readonly events: ResourceFacts;
}

/** Keeps the number of events bounded. */
export function startEventLimit({ store, events: { storage } }: EventLimitPorts, log: Log): ControllerLoop {
  const loop = new ControllerLoop('events', () => dropOldest(store, storage), log);
  store.subscribe(storage, ({ type }) => {
    if (type === 'ADDED' && store.count(storage) > eventLimit) loop.mark(storage);
  });
  return loop;
}

function dropOldest(store: EventLimitPorts['store'], storage: string): void {
  const surplus = store.count(storage) - eventLimit;
  if (surplus <= 0) return;
  const oldest = store
    .list(storage)
    .toSorted((a, b) => a.revision - b.revision)
    .slice(0, surplus + slack);
  for (const { object } of oldest) store.remove(storage, object);
}
