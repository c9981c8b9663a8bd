import type { Log } from '../../../src/base/log/log.ts';
import type { Registry } from '../resource/registry.ts';
import type { Store } from '../store/store.ts';
import type { ObjectWriter } from '../write/object-writer.ts';
import { builtIn } from './access.ts';
import { ControllerLoop } from './loop.ts';

const emptyCheckMs = 200;

interface NamespacePorts {
  readonly store: Pick<Store, 'get' | 'list' | 'subscribe'>;
  readonly registry: Pick<Registry, 'find' | 'stored'>;
  readonly writer: Pick<ObjectWriter, 'create' | 'delete' | 'finish'>;
  /** The server's CA, for every namespace's `kube-root-ca.crt`. */
  readonly caPem: string;
}

/** Creates the default objects of new namespaces, and empties namespaces before they are deleted. */
export function startNamespaces(ports: NamespacePorts, log: Log): ControllerLoop {
  const loop: ControllerLoop = new ControllerLoop('namespaces', (name) => reconcile(ports, name, loop), log);
  for (const { object } of ports.store.list('namespaces')) loop.mark(object.metadata.name);
  ports.store.subscribe('namespaces', ({ entry }) => loop.mark(entry.object.metadata.name));
  return loop;
}

function reconcile(ports: NamespacePorts, name: string, loop: ControllerLoop): void {
  const namespace = ports.store.get('namespaces', name)?.object;
  if (namespace === undefined) return;
  if (namespace.metadata.deletionTimestamp === undefined) {
    furnish(ports, name);
    return;
  }
  const left = emptied(ports, name);
  if (left > 0) {
    loop.markAfter(name, emptyCheckMs);
    return;
  }
  ports.writer.finish(builtIn(ports.registry, '', 'namespaces'), { ...namespace, spec: { finalizers: [] } });
}

/** @returns number of remaining objects: pods that are ending, and objects with finalizers */
function emptied(ports: NamespacePorts, namespace: string): number {
  let left = 0;
  for (const resource of ports.registry.stored().filter(({ namespaced }) => namespaced)) {
    for (const { object } of ports.store.list(resource.storage)) {
      if (object.metadata.namespace !== namespace) continue;
      const waiting =
        object.metadata.deletionTimestamp !== undefined || !ports.writer.delete(resource, namespace, object.metadata.name, {}).gone;
      if (waiting) left++;
    }
  }
  return left;
}

function furnish(ports: NamespacePorts, namespace: string): void {
  const accounts = builtIn(ports.registry, '', 'serviceaccounts');
  const options = { fieldManager: 'kube-controller-manager' };
  if (ports.store.get(accounts.storage, `${namespace}/default`) === undefined)
    ports.writer.create(accounts, namespace, { metadata: { name: 'default' } }, options);
  const configMaps = builtIn(ports.registry, '', 'configmaps');
  if (ports.store.get(configMaps.storage, `${namespace}/kube-root-ca.crt`) === undefined)
    ports.writer.create(configMaps, namespace, { metadata: { name: 'kube-root-ca.crt' }, data: { 'ca.crt': ports.caPem } }, options);
}
