import type { Core } from './core.ts';
import { builtInResources } from './kinds.ts';
import { Registry } from './registry.ts';
import { type PortRange, trackServiceRanges } from './service-ranges.ts';
import type { Store } from './store.ts';
import { createObject } from './write.ts';

export interface CoreOptions {
  readonly store: Store;
  readonly serviceCidrs: readonly string[];
  readonly nodePortRange: PortRange;
  readonly forgotten?: readonly string[];
  now(): number;
}

const firstNamespaces = ['default', 'kube-system', 'kube-public', 'kube-node-lease'];

/** What serves requests, without the network and without controllers; with the namespaces every cluster has. */
export function newCore({ store, serviceCidrs, nodePortRange, forgotten = [], now }: CoreOptions): Core {
  const services = trackServiceRanges(store, serviceCidrs, nodePortRange);
  const core: Core = { store, registry: new Registry(builtInResources), cluster: { services }, forgotten: new Set(forgotten), now };
  const namespaces = core.registry.find('', 'v1', 'namespaces');
  for (const name of firstNamespaces) {
    if (namespaces !== undefined && store.get(namespaces.storage, name) === undefined)
      createObject(core, namespaces, undefined, { metadata: { name } }, { fieldManager: 'seine-lab' });
  }
  return core;
}
