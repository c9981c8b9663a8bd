import type { Log } from '../../../log/log.ts';
import type { Core } from '../core.ts';
import { deleteObject } from '../deletion.ts';
import { defined } from '../json.ts';
import { type KubeObject, keyOf } from '../kube-object.ts';
import type { Resource } from '../resource.ts';
import { storeOrFinish } from '../write.ts';
import { ControllerLoop } from './loop.ts';

interface Place {
  readonly storage: string;
  readonly key: string;
}

/** Who is there, by uid, and who names whom as owner. */
interface Owners {
  readonly places: Map<string, Place>;
  readonly dependents: Map<string, Set<string>>;
}

/**
 * Deletes objects whose owners are all gone, and finishes deletions that wait for their dependents (foreground) or let them go
 * (orphan). Keys are uids: of an object that came, changed or went.
 */
export function startGarbageCollector(core: Core, log: Log): ControllerLoop {
  const owners: Owners = { places: new Map(), dependents: new Map() };
  const loop = new ControllerLoop('garbage collector', (uid) => reconcile(core, owners, uid), log);
  for (const storage of core.store.storages()) {
    for (const { object } of core.store.list(storage)) {
      note(owners, storage, object);
      if (isInteresting(object)) loop.mark(object.metadata.uid);
    }
  }
  core.store.subscribeAll((storage, { type, entry, previous }) => {
    const { uid } = entry.object.metadata;
    if (previous !== undefined) for (const owner of ownerIds(previous.object)) owners.dependents.get(owner)?.delete(uid);
    if (type === 'DELETED') owners.places.delete(uid);
    else note(owners, storage, entry.object);
    if (type === 'DELETED') for (const owner of ownerIds(entry.object)) loop.mark(owner);
    if (owners.dependents.has(uid) || isInteresting(entry.object)) loop.mark(uid);
  });
  return loop;
}

function note({ places, dependents }: Owners, storage: string, object: KubeObject): void {
  const { uid } = object.metadata;
  places.set(uid, { storage, key: keyOf(object.metadata) });
  for (const owner of ownerIds(object)) dependents.set(owner, (dependents.get(owner) ?? new Set()).add(uid));
}

function ownerIds({ metadata }: KubeObject): readonly string[] {
  return (metadata.ownerReferences ?? []).map(({ uid }) => uid);
}

function isInteresting(object: KubeObject): boolean {
  return ownerIds(object).length > 0 || (object.metadata.deletionTimestamp !== undefined && (object.metadata.finalizers ?? []).length > 0);
}

function reconcile(core: Core, owners: Owners, uid: string): void {
  const dependents = Array.from(owners.dependents.get(uid) ?? []);
  const found = lookUp(core, owners, uid);
  if (found === undefined) {
    for (const dependent of dependents) releaseFrom(core, owners, dependent);
    owners.dependents.delete(uid);
    return;
  }
  releaseFrom(core, owners, uid);
  const { finalizers = [], deletionTimestamp } = found.object.metadata;
  if (deletionTimestamp === undefined) return;
  if (finalizers.includes('orphan')) {
    for (const dependent of dependents) withoutOwners(core, owners, dependent, (owner) => owner !== uid);
    dropFinalizer(core, found, 'orphan');
  } else if (finalizers.includes('foregroundDeletion')) {
    if (dependents.length === 0) dropFinalizer(core, found, 'foregroundDeletion');
    for (const dependent of dependents) deleteOne(core, owners, dependent);
  }
}

interface Found {
  readonly resource: Resource;
  readonly object: KubeObject;
}

function lookUp(core: Core, { places }: Owners, uid: string): Found | undefined {
  const place = places.get(uid);
  const object = place === undefined ? undefined : core.store.get(place.storage, place.key)?.object;
  const resource = core.registry.stored().find(({ storage }) => storage === place?.storage);
  return object === undefined || resource === undefined ? undefined : { resource, object };
}

/** Deletes an object all of whose owners are gone; one that has some left only forgets those that are. */
function releaseFrom(core: Core, owners: Owners, uid: string): void {
  const found = lookUp(core, owners, uid);
  if (found === undefined) return;
  const ids = ownerIds(found.object);
  const left = ids.filter((owner) => owners.places.has(owner));
  if (left.length === ids.length) return;
  if (left.length === 0) deleteOne(core, owners, uid);
  else withoutOwners(core, owners, uid, (owner) => left.includes(owner));
}

function deleteOne(core: Core, owners: Owners, uid: string): void {
  const found = lookUp(core, owners, uid);
  if (found === undefined || found.object.metadata.deletionTimestamp !== undefined) return;
  const { namespace, name } = found.object.metadata;
  deleteObject(core, found.resource, namespace, name, {});
}

function withoutOwners(core: Core, owners: Owners, uid: string, keeps: (owner: string) => boolean): void {
  const found = lookUp(core, owners, uid);
  if (found === undefined) return;
  const { metadata } = found.object;
  const ownerReferences = (metadata.ownerReferences ?? []).filter((owner) => keeps(owner.uid));
  core.store.put(found.resource.storage, { ...found.object, metadata: { ...metadata, ownerReferences } });
}

function dropFinalizer(core: Core, { resource, object }: Found, name: string): void {
  const finalizers = (object.metadata.finalizers ?? []).filter((one) => one !== name);
  storeOrFinish(core, resource, { ...object, metadata: defined({ ...object.metadata, finalizers }) });
}
