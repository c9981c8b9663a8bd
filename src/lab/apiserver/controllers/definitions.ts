import type { CustomResourceDefinitionSpec } from 'kubernetes-types/apiextensions/v1.d.ts';
import type { Log } from '../../../log/log.ts';
import type { Core } from '../core.ts';
import { resourcesOfDefinition } from '../crd-resources.ts';
import { cleanupFinalizer } from '../crd-strategy.ts';
import { deleteObject } from '../deletion.ts';
import { arrayAt, isObject } from '../json.ts';
import { type KubeObject, kubeTime } from '../kube-object.ts';
import { storeOrFinish } from '../write.ts';
import { builtIn, changeObject } from './access.ts';
import { ControllerLoop } from './loop.ts';

const group = 'apiextensions.k8s.io';
const plural = 'customresourcedefinitions';
const emptyCheckMs = 200;

/** Serves what definitions define, from the moment they are stored, and says so in their status. */
export function startDefinitions(core: Core, log: Log): ControllerLoop {
  const { storage } = builtIn(core, group, plural);
  const loop: ControllerLoop = new ControllerLoop('custom resource definitions', (name) => reconcile(core, name, loop), log);
  const serve = (definition: KubeObject) => {
    for (const resource of resourcesOfDefinition(definition)) core.registry.add(resource);
    loop.mark(definition.metadata.name);
  };
  for (const { object } of core.store.list(storage)) serve(object);
  core.store.subscribe(storage, ({ type, entry, previous }) => {
    if (previous !== undefined) for (const resource of resourcesOfDefinition(previous.object)) core.registry.remove(resource);
    if (type !== 'DELETED') serve(entry.object);
  });
  return loop;
}

function reconcile(core: Core, name: string, loop: ControllerLoop): void {
  const definitions = builtIn(core, group, plural);
  const definition = core.store.get(definitions.storage, name)?.object;
  if (definition === undefined) return;
  if (definition.metadata.deletionTimestamp === undefined) {
    announce(core, definition);
    return;
  }
  const finalizers = definition.metadata.finalizers ?? [];
  if (!finalizers.includes(cleanupFinalizer)) return;
  if (emptied(core, definition) > 0) loop.markAfter(name, emptyCheckMs);
  else {
    const left = finalizers.filter((one) => one !== cleanupFinalizer);
    storeOrFinish(core, definitions, { ...definition, metadata: { ...definition.metadata, finalizers: left } });
  }
}

/** @returns how many objects of the kind are still there, held by finalizers */
function emptied(core: Core, definition: KubeObject): number {
  const [resource] = resourcesOfDefinition(definition);
  if (resource === undefined) return 0;
  const objects = core.store.list(resource.storage).map(({ object }) => object);
  return objects.filter(
    ({ metadata }) => metadata.deletionTimestamp !== undefined || !deleteObject(core, resource, metadata.namespace, metadata.name, {}).gone,
  ).length;
}

function announce(core: Core, definition: KubeObject): void {
  const conditions = arrayAt(definition.status, 'conditions').filter(isObject);
  if (conditions.some(({ type, status }) => type === 'Established' && status === 'True')) return;
  const { names, versions } = definition.spec as CustomResourceDefinitionSpec;
  const lastTransitionTime = kubeTime(core.now());
  const made = [
    { type: 'NamesAccepted', status: 'True', reason: 'NoConflicts', message: 'no conflicts found', lastTransitionTime },
    {
      type: 'Established',
      status: 'True',
      reason: 'InitialNamesAccepted',
      message: 'the initial names have been accepted',
      lastTransitionTime,
    },
  ];
  const storedVersions = versions.filter(({ storage }) => storage).map(({ name }) => name);
  const change = (draft: Record<string, unknown>) => {
    draft['status'] = { conditions: made, acceptedNames: names, storedVersions };
  };
  changeObject(core, builtIn(core, group, plural), definition, 'kube-apiserver', change, 'status');
}
