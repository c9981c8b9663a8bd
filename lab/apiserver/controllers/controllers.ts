import type { Log } from '../../../src/base/log/log.ts';
import type { Registry } from '../resource/registry.ts';
import type { Store } from '../store/store.ts';
import type { ObjectWriter } from '../write/object-writer.ts';
import type { BindPod } from '../write/pod-subresources.ts';
import { builtIn, eventRecorder } from './access.ts';
import { startDefinitions } from './definitions.ts';
import { startEndpointSlices } from './endpoint-slices.ts';
import { startEventLimit } from './event-limit.ts';
import { startGarbageCollector } from './garbage-collector.ts';
import type { ControllerLoop } from './loop.ts';
import { startNamespaces } from './namespaces.ts';
import { type NodeRanges, startNodeRanges } from './node-ranges.ts';
import { startScheduler } from './scheduler.ts';

interface ControllerOptions {
  readonly store: Store;
  readonly registry: Registry;
  readonly writer: ObjectWriter;
  readonly bindPod: BindPod;
  readonly podRanges: NodeRanges;
  readonly caPem: string;
  readonly log: Log;
  /** Milliseconds since 1970. */
  now(): number;
}

/** Starts controllers that do the work of kube-controller-manager and kube-scheduler for a network. @returns stops it */
export function startControllers(options: ControllerOptions): () => Promise<void> {
  const { store, registry, writer, bindPod, podRanges, caPem, log, now } = options;
  const events = builtIn(registry, '', 'events');
  const recordEvent = eventRecorder({ events, writer, now });
  const stopping = new AbortController();
  const loops: readonly ControllerLoop[] = [
    startDefinitions({ store, registry, writer, now }, log),
    startNamespaces({ store, registry, writer, caPem }, log),
    startNodeRanges({ store, writer, nodes: builtIn(registry, '', 'nodes'), recordEvent }, podRanges, log),
    startScheduler({ store, writer, pods: builtIn(registry, '', 'pods'), bindPod, recordEvent, now }, log),
    startEndpointSlices({ store, writer, slices: builtIn(registry, 'discovery.k8s.io', 'endpointslices') }, log),
    startGarbageCollector({ store, registry, writer }, log),
    startEventLimit({ store, events }, log),
  ];
  const running = Promise.all(loops.map((loop) => loop.run(stopping.signal)));
  return async () => {
    stopping.abort();
    await running;
  };
}
