import type { Log } from '../../../log/log.ts';
import type { Core } from '../core.ts';
import { builtIn } from './access.ts';
import { ControllerLoop } from './loop.ts';

/** The real server drops events after an hour; this one keeps the newest. */
export const eventLimit = 5000;
/** Removed beyond the limit at once, so that not every new event costs a look at all. */
const slack = 500;

/** Keeps the number of events bounded. */
export function startEventLimit(core: Core, log: Log): ControllerLoop {
  const { storage } = builtIn(core, '', 'events');
  const loop = new ControllerLoop('events', () => dropOldest(core, storage), log);
  core.store.subscribe(storage, ({ type }) => {
    if (type === 'ADDED' && core.store.count(storage) > eventLimit) loop.mark(storage);
  });
  return loop;
}

function dropOldest(core: Core, storage: string): void {
  const surplus = core.store.count(storage) - eventLimit;
  if (surplus <= 0) return;
  const oldest = core.store
    .list(storage)
    .toSorted((a, b) => a.revision - b.revision)
    .slice(0, surplus + slack);
  for (const { object } of oldest) core.store.remove(storage, object);
}
