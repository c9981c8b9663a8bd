import { builtInResources } from './kinds/kinds.ts';
import { Registry } from './resource/registry.ts';
import type { Store } from './store/store.ts';
import { type PortRange, trackServiceRanges } from './strategies/service/service-ranges.ts';
import { ObjectWriter } from './write/object-writer.ts';

interface ClusterObjectsOptions {
  readonly store: Store;
  readonly serviceCidrs: readonly string[];
  readonly nodePortRange: PortRange;
  /** Milliseconds since 1970. */
  now(): number;
}

/** The served kinds, and the writer of their objects. */
export interface ClusterObjects {
  readonly registry: Registry;
  readonly writer: ObjectWriter;
}

const firstNamespaces = ['default', 'kube-system', 'kube-public', 'kube-node-lease'];

/** Opens the objects of a server, without network and controllers; creates the namespaces of every cluster. */
export function openClusterObjects({ store, serviceCidrs, nodePortRange, now }: ClusterObjectsOptions): ClusterObjects {
  const registry = new Registry(builtInResources);
  const writer = new ObjectWriter({ store, services: trackServiceRanges(store, serviceCidrs, nodePortRange), now });
  const namespaces = registry.find('', 'v1', 'namespaces');
  for (const name of firstNamespaces) {
    if (namespaces !== undefined && store.get(namespaces.storage, name) === undefined)
      writer.create(namespaces, undefined, { metadata: { name } }, { fieldManager: 'seine-lab' });
  }
  return { registry, writer };
}
