import type { Log } from '../../../src/base/log/log.ts';
import { type ApiObject, keyOf } from '../object/api-object.ts';
import { defined } from '../object/json.ts';
import type { Registry } from '../resource/registry.ts';
import type { ApiResource } from '../resource/resource.ts';
import type { Store } from '../store/store.ts';
import type { ObjectWriter } from '../write/object-writer.ts';
import { ControllerLoop } from './loop.ts';

interface CollectorPorts {
  readonly store: Pick<Store, 'get' | 'list' | 'put' | 'storages' | 'subscribeAll'>;
  readonly registry: Pick<Registry, 'stored'>;
  readonly writer: Pick<ObjectWriter, 'delete' | 'finish'>;
}

interface StorageKey {
  readonly storage: string;
  readonly key: string;
}

/** Objects by uid, and the objects that name each as owner. */
interface OwnerIndex {
  readonly places: Map<string, StorageKey>;
  readonly dependents: Map<string, Set<string>>;
}

/**
 * Deletes objects whose owners are all deleted, and finishes deletions that wait for their dependents (foreground) or orphan them. Keys are
 * uids of objects that were created, changed or deleted.
 */
export function startGarbageCollector(ports: CollectorPorts, log: Log): ControllerLoop {
  const owners: OwnerIndex = { places: new Map(), dependents: new Map() };
  const loop = new ControllerLoop('garbage collector', (uid) => reconcile(ports, owners, uid), log);
  for (const storage of ports.store.storages()) {
    for (const { object } of ports.store.list(storage)) {
      note(owners, storage, object);
      if (isInteresting(object)) loop.mark(object.metadata.uid);
    }
  }
  ports.store.subscribeAll((storage, { type, entry, previous }) => {
    const { uid } = entry.object.metadata;
    if (previous !== undefined) for (const owner of ownerIds(previous.object)) owners.dependents.get(owner)?.delete(uid);
    if (type === 'DELETED') owners.places.delete(uid);
    else note(owners, storage, entry.object);
    if (type === 'DELETED') for (const owner of ownerIds(entry.object)) loop.mark(owner);
    if (owners.dependents.has(uid) || isInteresting(entry.object)) loop.mark(uid);
  });
  return loop;
}

function note({ places, dependents }: OwnerIndex, storage: string, object: ApiObject): void {
  const { uid } = object.metadata;
  places.set(uid, { storage, key: keyOf(object.metadata) });
  for (const owner of ownerIds(object)) dependents.set(owner, (dependents.get(owner) ?? new Set()).add(uid));
}

function ownerIds({ metadata }: ApiObject): readonly string[] {
  return (metadata.ownerReferences ?? []).map(({ uid }) => uid);
}

function isInteresting(object: ApiObject): boolean {
  return ownerIds(object).length > 0 || (object.metadata.deletionTimestamp !== undefined && (object.metadata.finalizers ?? []).length > 0);
}

function reconcile(ports: CollectorPorts, owners: OwnerIndex, uid: string): void {
  const dependents = Array.from(owners.dependents.get(uid) ?? []);
  const found = lookUp(ports, owners, uid);
  if (found === undefined) {
    for (const dependent of dependents) releaseFrom(ports, owners, dependent);
    owners.dependents.delete(uid);
    return;
  }
  releaseFrom(ports, owners, uid);
  const { finalizers = [], deletionTimestamp } = found.object.metadata;
  if (deletionTimestamp === undefined) return;
  if (finalizers.includes('orphan')) {
    for (const dependent of dependents) withoutOwners(ports, owners, dependent, (owner) => owner !== uid);
    dropFinalizer(ports, found, 'orphan');
  } else if (finalizers.includes('foregroundDeletion')) {
    if (dependents.length === 0) dropFinalizer(ports, found, 'foregroundDeletion');
    for (const dependent of dependents) deleteOne(ports, owners, dependent);
  }
}

interface Found {
  readonly resource: ApiResource;
  readonly object: ApiObject;
}

function lookUp(ports: CollectorPorts, { places }: OwnerIndex, uid: string): Found | undefined {
  const place = places.get(uid);
  const object = place === undefined ? undefined : ports.store.get(place.storage, place.key)?.object;
  const resource = ports.registry.stored().find(({ storage }) => storage === place?.storage);
  return object === undefined || resource === undefined ? undefined : { resource, object };
}

/** Deletes an object all of whose owners are deleted; from another, removes only the references to deleted owners. */
function releaseFrom(ports: CollectorPorts, owners: OwnerIndex, uid: string): void {
  const found = lookUp(ports, owners, uid);
  if (found === undefined) return;
  const ids = ownerIds(found.object);
  const left = ids.filter((owner) => owners.places.has(owner));
  if (left.length === ids.length) return;
  if (left.length === 0) deleteOne(ports, owners, uid);
  else withoutOwners(ports, owners, uid, (owner) => left.includes(owner));
}

function deleteOne(ports: CollectorPorts, owners: OwnerIndex, uid: string): void {
  const found = lookUp(ports, owners, uid);
  if (found === undefined || found.object.metadata.deletionTimestamp !== undefined) return;
  const { namespace, name } = found.object.metadata;
  ports.writer.delete(found.resource, namespace, name, {});
}

function withoutOwners(ports: CollectorPorts, owners: OwnerIndex, uid: string, keeps: (owner: string) => boolean): void {
  const found = lookUp(ports, owners, uid);
  if (found === undefined) return;
  const { metadata } = found.object;
  const ownerReferences = (metadata.ownerReferences ?? []).filter((owner) => keeps(owner.uid));
  ports.store.put(found.resource.storage, { ...found.object, metadata: { ...metadata, ownerReferences } });
}

function dropFinalizer(ports: CollectorPorts, { resource, object }: Found, name: string): void {
  const finalizers = (object.metadata.finalizers ?? []).filter((one) => one !== name);
  ports.writer.finish(resource, { ...object, metadata: defined({ ...object.metadata, finalizers }) });
}
