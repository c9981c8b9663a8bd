import type { Log } from '../../../log/log.ts';
import type { Core } from '../core.ts';
import { deleteObject } from '../deletion.ts';
import { createObject, storeOrFinish } from '../write.ts';
import { builtIn } from './access.ts';
import { ControllerLoop } from './loop.ts';

const emptyCheckMs = 200;

/** Furnishes new namespaces, and empties those that are to go before it lets them. */
export function startNamespaces(core: Core, caPem: string, log: Log): ControllerLoop {
  const loop: ControllerLoop = new ControllerLoop('namespaces', (name) => reconcile(core, name, caPem, loop), log);
  for (const { object } of core.store.list('namespaces')) loop.mark(object.metadata.name);
  core.store.subscribe('namespaces', ({ entry }) => loop.mark(entry.object.metadata.name));
  return loop;
}

function reconcile(core: Core, name: string, caPem: string, loop: ControllerLoop): void {
  const namespace = core.store.get('namespaces', name)?.object;
  if (namespace === undefined) return;
  if (namespace.metadata.deletionTimestamp === undefined) {
    furnish(core, name, caPem);
    return;
  }
  const left = emptied(core, name);
  if (left > 0) {
    loop.markAfter(name, emptyCheckMs);
    return;
  }
  storeOrFinish(core, builtIn(core, '', 'namespaces'), { ...namespace, spec: { finalizers: [] } });
}

/** @returns how many objects are still there: pods that end in their own time, and what finalizers hold */
function emptied(core: Core, namespace: string): number {
  let left = 0;
  for (const resource of core.registry.stored().filter(({ namespaced }) => namespaced)) {
    for (const { object } of core.store.list(resource.storage)) {
      if (object.metadata.namespace !== namespace) continue;
      const waiting =
        object.metadata.deletionTimestamp !== undefined || !deleteObject(core, resource, namespace, object.metadata.name, {}).gone;
      if (waiting) left++;
    }
  }
  return left;
}

function furnish(core: Core, namespace: string, caPem: string): void {
  const accounts = builtIn(core, '', 'serviceaccounts');
  const options = { fieldManager: 'kube-controller-manager' };
  if (core.store.get(accounts.storage, `${namespace}/default`) === undefined)
    createObject(core, accounts, namespace, { metadata: { name: 'default' } }, options);
  const configMaps = builtIn(core, '', 'configmaps');
  if (core.store.get(configMaps.storage, `${namespace}/kube-root-ca.crt`) === undefined)
    createObject(core, configMaps, namespace, { metadata: { name: 'kube-root-ca.crt' }, data: { 'ca.crt': caPem } }, options);
}
