import type { Log } from '../../../log/log.ts';
import type { Core } from '../core.ts';
import { startDefinitions } from './definitions.ts';
import { startEndpointSlices } from './endpoint-slices.ts';
import { startEventLimit } from './event-limit.ts';
import { startGarbageCollector } from './garbage-collector.ts';
import type { ControllerLoop } from './loop.ts';
import { startNamespaces } from './namespaces.ts';
import { type NodeRanges, startNodeRanges } from './node-ranges.ts';
import { startScheduler } from './scheduler.ts';

export interface ControllerOptions {
  readonly podRanges: NodeRanges;
  readonly caPem: string;
  readonly log: Log;
}

/** Starts what kube-controller-manager and kube-scheduler would do for a network. @returns stops it */
export function startControllers(core: Core, { podRanges, caPem, log }: ControllerOptions): () => Promise<void> {
  const stopping = new AbortController();
  const loops: readonly ControllerLoop[] = [
    startDefinitions(core, log),
    startNamespaces(core, caPem, log),
    startNodeRanges(core, podRanges, log),
    startScheduler(core, log),
    startEndpointSlices(core, log),
    startGarbageCollector(core, log),
    startEventLimit(core, log),
  ];
  const running = Promise.all(loops.map((loop) => loop.run(stopping.signal)));
  return async () => {
    stopping.abort();
    await running;
  };
}
