import { randomInt, randomUUID } from 'node:crypto';
import { alreadyExists, badRequest, conflict, forbidden, invalid, notFound, staleObject } from './api-error.ts';
import type { Core, WriteOptions } from './core.ts';
import { checkCustomRules } from './crd-validation.ts';
import { decodeBody } from './decode-body.ts';
import { FieldErrors } from './field-errors.ts';
import { arrayAt, cloneJson, defined, equalJson, type JsonObject, textAt } from './json.ts';
import { type KubeObject, kubeTime, type ObjectMeta, objectKey } from './kube-object.ts';
import { trackUpdate } from './managed-fields.ts';
import { checkMetadata } from './name-rules.ts';
import { checkRequired } from './required-fields.ts';
import type { Resource } from './resource.ts';

/**
 * Stores a new object.
 *
 * @throws ApiError 400, 403, 404 (no such namespace), 409 or 422
 */
export function createObject(
  core: Core,
  resource: Resource,
  namespace: string | undefined,
  body: JsonObject,
  options: WriteOptions,
): KubeObject {
  return createDecoded(core, resource, namespace, decodeBody(resource, body, options), options);
}

export function createDecoded(
  core: Core,
  resource: Resource,
  namespace: string | undefined,
  draft: KubeObject,
  options: WriteOptions,
): KubeObject {
  const { metadata } = draft;
  if (metadata.resourceVersion) throw badRequest('resourceVersion should not be set on objects to be created');
  checkNamespace(core, resource, namespace, metadata);
  if (metadata.name === '' && metadata.generateName) metadata.name = generatedName(metadata.generateName);
  draft.metadata = newMetadata(core, resource, draft.metadata);
  if (resource.subresources.includes('status') && resource.kind !== 'Node') delete draft.status;
  finishDraft(core, resource, draft, undefined);
  options.admit?.(draft, undefined);
  const stored = resource.toStored?.(draft) ?? draft;
  if (core.store.get(resource.storage, objectKey(namespace, metadata.name))) throw alreadyExists(resource, metadata.name);
  stored.metadata.managedFields ??= trackUpdate(resource, stored, undefined, managerOf(core, resource, options));
  return options.dryRun === true ? stored : core.store.put(resource.storage, stored).object;
}

/**
 * Replaces an object by what `change` makes of the current one; with a subresource only that part of it.
 *
 * @param change gets the stored object, which it must not touch, and returns an undecoded body
 * @returns the object as stored; the current one if nothing changed
 */
export function updateObject(
  core: Core,
  resource: Resource,
  key: string,
  change: (old: KubeObject) => JsonObject,
  options: WriteOptions,
): KubeObject {
  const entry = core.store.get(resource.storage, key);
  if (entry === undefined) throw notFound(resource, key.split('/').at(-1) ?? key);
  const current = entry.object;
  const old = resource.fromStored?.(current) ?? current;
  const draft = decodeBody(resource, change(old), options);
  checkPreconditions(resource, draft.metadata, old.metadata);
  draft.metadata = keptMetadata(draft.metadata, old.metadata);
  keepOtherParts(resource, draft, old, options.subresource);
  finishDraft(core, resource, draft, old);
  options.admit?.(draft, old);
  const stored = resource.toStored?.(draft) ?? draft;
  if (resource.generation && changedSpec(stored, current)) stored.metadata.generation = (current.metadata.generation ?? 1) + 1;
  const managed = stored.metadata.managedFields;
  if (managed === undefined || equalJson(managed, current.metadata.managedFields))
    stored.metadata.managedFields = trackUpdate(resource, stored, current, managerOf(core, resource, options));
  if (unchanged(stored, current)) return current;
  return options.dryRun === true ? stored : storeOrFinish(core, resource, stored);
}

/** An object whose deletion waited for its finalizers, and has none left, goes. */
export function storeOrFinish(core: Core, resource: Resource, object: KubeObject): KubeObject {
  const { deletionTimestamp, deletionGracePeriodSeconds = 0 } = object.metadata;
  const held = (object.metadata.finalizers ?? []).length > 0 || arrayAt(object.spec, 'finalizers').length > 0;
  if (deletionTimestamp === undefined || held || (resource.graceful && deletionGracePeriodSeconds > 0))
    return core.store.put(resource.storage, object).object;
  return core.store.remove(resource.storage, object).object;
}

function checkNamespace(core: Core, resource: Resource, namespace: string | undefined, metadata: ObjectMeta): void {
  if (!resource.namespaced) {
    if (metadata.namespace) throw badRequest(`namespace is not allowed on ${resource.kind}`);
    delete metadata.namespace;
    return;
  }
  if (namespace === undefined) throw badRequest('an object of this kind needs a namespace');
  if (metadata.namespace !== undefined && metadata.namespace !== '' && metadata.namespace !== namespace)
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
  metadata.namespace = namespace;
  const home = core.store.get('namespaces', namespace);
  if (home === undefined) throw notFound({ group: '', plural: 'namespaces', kind: 'Namespace' }, namespace);
  if (textAt(home.object.status, 'phase') !== 'Terminating' || resource.plural === 'events') return;
  const why = `unable to create new content in namespace ${namespace} because it is being terminated`;
  throw forbidden(resource, metadata.name, why, [
    { reason: 'NamespaceTerminating', message: `namespace ${namespace} is being terminated`, field: 'metadata.namespace' },
  ]);
}

function newMetadata(core: Core, resource: Resource, given: ObjectMeta): ObjectMeta {
  const { deletionTimestamp: _time, deletionGracePeriodSeconds: _grace, generation: _generation, ...rest } = given;
  return { ...rest, uid: randomUUID(), creationTimestamp: kubeTime(core.now()), ...(resource.generation ? { generation: 1 } : {}) };
}

const suffixLetters = 'bcdfghjklmnpqrstvwxz2456789';

/** The prefix and five letters without vowels, so that no words come out; the whole at most 63 long. */
function generatedName(prefix: string): string {
  return `${prefix.slice(0, 58)}${Array.from({ length: 5 }, () => suffixLetters[randomInt(suffixLetters.length)]).join('')}`;
}

function checkPreconditions(resource: Resource, draft: ObjectMeta, old: ObjectMeta): void {
  if (draft.name === '') draft.name = old.name;
  if (draft.name !== old.name) throw badRequest(`the name of the object (${draft.name}) does not match the name on the URL (${old.name})`);
  if (draft.namespace && draft.namespace !== old.namespace)
    throw badRequest(`the namespace of the object (${draft.namespace}) does not match the namespace on the URL (${old.namespace ?? ''})`);
  if (draft.uid && draft.uid !== old.uid)
    throw conflict(resource, old.name, `Precondition failed: UID in precondition: ${draft.uid}, UID in object meta: ${old.uid}`);
  if (draft.resourceVersion && draft.resourceVersion !== '0' && draft.resourceVersion !== old.resourceVersion)
    throw conflict(resource, old.name, staleObject);
}

const serverFields = [
  'uid',
  'namespace',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'generation',
  'generateName',
  'resourceVersion',
] as const;

/** What the client cannot change is as before. */
function keptMetadata(draft: ObjectMeta, old: ObjectMeta): ObjectMeta {
  return defined(Object.assign({ ...draft }, Object.fromEntries(serverFields.map((name) => [name, old[name]]))));
}

/** A write of the main resource cannot change the status, and the other way round. */
function keepOtherParts(resource: Resource, draft: KubeObject, old: KubeObject, subresource: string | undefined): void {
  if (!resource.subresources.includes('status')) return;
  if (subresource === 'status') {
    const { status } = draft;
    for (const name of Object.keys(draft)) if (name !== 'metadata') delete draft[name];
    const { status: _old, metadata, ...others } = old;
    Object.assign(draft, cloneJson(others), { metadata: resource.custom ? { ...metadata } : draft.metadata });
    if (status !== undefined) draft.status = status;
  } else if (old.status === undefined) delete draft.status;
  else draft.status = cloneJson(old.status);
}

function finishDraft(core: Core, resource: Resource, draft: KubeObject, old: KubeObject | undefined): void {
  const errors = new FieldErrors();
  const { defaults, prepare, validate } = resource.strategy;
  defaults?.(draft, old);
  prepare?.(draft, old, errors, core.cluster);
  checkMetadata(draft, resource.nameRule, errors);
  if (resource.custom) checkCustomRules(draft, resource.schema, errors);
  else checkRequired(draft, resource.schema, errors);
  // Rules of a kind rely on required fields being there.
  if (errors.list.length === 0) validate?.(draft, old, errors);
  if (errors.list.length > 0) throw invalid(resource, draft.metadata.name, errors.list);
}

function changedSpec(now: KubeObject, before: KubeObject): boolean {
  const names = new Set([...Object.keys(now), ...Object.keys(before)]);
  for (const name of ['metadata', 'status', 'apiVersion', 'kind']) names.delete(name);
  return Array.from(names).some((name) => !equalJson(now[name], before[name]));
}

function unchanged(now: KubeObject, before: KubeObject): boolean {
  const compared = (object: KubeObject) => ({ ...object, metadata: { ...object.metadata, managedFields: undefined } });
  return equalJson(compared(now), compared(before)) && equalJson(now.metadata.managedFields, before.metadata.managedFields);
}

function managerOf(core: Core, resource: Resource, { fieldManager, subresource }: WriteOptions) {
  return { manager: fieldManager ?? 'unknown', subresource, time: kubeTime(core.now()), resource };
}
