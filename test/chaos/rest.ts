import { setTimeout as sleep } from 'node:timers/promises';
import type { Api } from './api.ts';
import type { Lab } from './lab.ts';

const restMs = 500;
const withinMs = 60_000;
/** Collections that agents follow. */
const collections = [
  '/api/v1/nodes',
  '/api/v1/namespaces',
  '/api/v1/pods',
  '/api/v1/services',
  '/apis/discovery.k8s.io/v1/endpointslices',
  '/apis/networking.k8s.io/v1/networkpolicies',
];

/**
 * Waits until real controllers have created the dependent objects: EndpointSlices are created and deleted with their Service by separate
 * processes, after the step that caused it. Those of the lab's own API server are synchronous.
 */
export async function apiRests({ api, options }: Lab): Promise<void> {
  if (options.controlPlane === undefined) return;
  const deadline = performance.now() + withinMs;
  for (let before = await versionsOf(api); ; ) {
    await sleep(restMs);
    const now = await versionsOf(api);
    if (now === before) return;
    if (performance.now() > deadline) throw new Error('the objects of the API do not come to rest');
    before = now;
  }
}

/** Versions of all objects: the same text means that nothing has changed. */
async function versionsOf(api: Api): Promise<string> {
  const all = await Promise.all(collections.map((path) => api.list(path)));
  return all
    .flat()
    .map(({ metadata }) => JSON.stringify([metadata.namespace, metadata.name, metadata.uid, metadata.resourceVersion]))
    .toSorted()
    .join('\n');
}
