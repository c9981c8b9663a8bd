import type { CustomResourceDefinitionSpec } from 'kubernetes-types/apiextensions/v1.d.ts';
import type { Log } from '../../../src/base/log/log.ts';
import { resourcesOfDefinition } from '../kinds/crd-resources.ts';
import { type ApiObject, kubeTime } from '../object/api-object.ts';
import { arrayAt, isObject } from '../object/json.ts';
import type { Registry } from '../resource/registry.ts';
import type { Store } from '../store/store.ts';
import { cleanupFinalizer } from '../strategies/crd-strategy.ts';
import type { ObjectWriter } from '../write/object-writer.ts';
import { builtIn, changeObject } from './access.ts';
import { ControllerLoop } from './loop.ts';

const group = 'apiextensions.k8s.io';
const plural = 'customresourcedefinitions';
const emptyCheckMs = 200;

interface DefinitionPorts {
  readonly store: Pick<Store, 'get' | 'list' | 'subscribe'>;
  /** Registry to which the kinds of definitions are added, and from which they are removed. */
  readonly registry: Pick<Registry, 'find' | 'add' | 'remove'>;
  readonly writer: Pick<ObjectWriter, 'update' | 'delete' | 'finish'>;
  /** Milliseconds since 1970. */
  now(): number;
}

/** Serves the kinds of definitions as soon as they are stored, and updates their status. */
export function startDefinitions(ports: DefinitionPorts, log: Log): ControllerLoop {
  const { storage } = builtIn(ports.registry, group, plural);
  const loop: ControllerLoop = new ControllerLoop('custom resource definitions', (name) => reconcile(ports, name, loop), log);
  const serve = (definition: ApiObject) => {
    for (const resource of resourcesOfDefinition(definition)) ports.registry.add(resource);
    loop.mark(definition.metadata.name);
  };
  for (const { object } of ports.store.list(storage)) serve(object);
  ports.store.subscribe(storage, ({ type, entry, previous }) => {
    if (previous !== undefined) for (const resource of resourcesOfDefinition(previous.object)) ports.registry.remove(resource);
    if (type !== 'DELETED') serve(entry.object);
  });
  return loop;
}

function reconcile(ports: DefinitionPorts, name: string, loop: ControllerLoop): void {
  const definitions = builtIn(ports.registry, group, plural);
  const definition = ports.store.get(definitions.storage, name)?.object;
  if (definition === undefined) return;
  if (definition.metadata.deletionTimestamp === undefined) {
    announce(ports, definition);
    return;
  }
  const finalizers = definition.metadata.finalizers ?? [];
  if (!finalizers.includes(cleanupFinalizer)) return;
  if (emptied(ports, definition) > 0) loop.markAfter(name, emptyCheckMs);
  else {
    const left = finalizers.filter((one) => one !== cleanupFinalizer);
    ports.writer.finish(definitions, { ...definition, metadata: { ...definition.metadata, finalizers: left } });
  }
}

/** @returns number of objects of the kind that remain because of finalizers */
function emptied(ports: DefinitionPorts, definition: ApiObject): number {
  const [resource] = resourcesOfDefinition(definition);
  if (resource === undefined) return 0;
  const objects = ports.store.list(resource.storage).map(({ object }) => object);
  return objects.filter(
    ({ metadata }) =>
      metadata.deletionTimestamp !== undefined || !ports.writer.delete(resource, metadata.namespace, metadata.name, {}).gone,
  ).length;
}

function announce(ports: DefinitionPorts, definition: ApiObject): void {
  const conditions = arrayAt(definition.status, 'conditions').filter(isObject);
  if (conditions.some(({ type, status }) => type === 'Established' && status === 'True')) return;
  const { names, versions } = definition.spec as CustomResourceDefinitionSpec;
  const lastTransitionTime = kubeTime(ports.now());
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
  changeObject(ports.writer, builtIn(ports.registry, group, plural), definition, 'kube-apiserver', change, 'status');
}
