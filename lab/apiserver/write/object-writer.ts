import { randomInt, randomUUID } from 'node:crypto';
import { alreadyExists, badRequest, conflict, forbidden, invalid, notFound, staleObject } from '../errors/api-error.ts';
import { FieldErrors } from '../errors/field-errors.ts';
import { type ApiObject, kubeTime, type ObjectMeta, objectKey } from '../object/api-object.ts';
import { arrayAt, cloneJson, defined, equalJson, type JsonRecord, textAt } from '../object/json.ts';
import { checkMetadata } from '../resource/name-rules.ts';
import type { ApiResource, ServiceRanges } from '../resource/resource.ts';
import { checkCustomRules } from '../schema/crd-validation.ts';
import { checkRequired } from '../schema/required-fields.ts';
import type { Store } from '../store/store.ts';
import { decodeBody } from './decode-body.ts';
import { checkDeletePreconditions, type DeleteOptions, type Deletion, deletionWaits, markedForDeletion } from './deletion.ts';
import { trackUpdate, type Writer } from './managed-fields.ts';
import type { WriteOptions } from './write-options.ts';

interface ObjectWriterOptions {
  readonly store: Pick<Store, 'get' | 'put' | 'remove'>;
  /** Addresses and ports for Services. */
  readonly services: ServiceRanges;
  /** Milliseconds since 1970. */
  now(): number;
}

/** Handles every change of an object, from a request or from a controller: decodes, fills in, checks, stores. */
export class ObjectWriter {
  readonly #store: ObjectWriterOptions['store'];
  readonly #services: ServiceRanges;
  readonly #now: () => number;

  constructor({ store, services, now }: ObjectWriterOptions) {
    this.#store = store;
    this.#services = services;
    this.#now = now;
  }

  /**
   * Stores a new object.
   *
   * @throws ApiError 400, 403, 404 (no such namespace), 409 or 422
   */
  create(resource: ApiResource, namespace: string | undefined, body: JsonRecord, options: WriteOptions): ApiObject {
    const draft = decodeBody(resource, body, options);
    const { metadata } = draft;
    if (metadata.resourceVersion) throw badRequest('resourceVersion should not be set on objects to be created');
    checkNamespace(this.#store, resource, namespace, metadata);
    if (metadata.name === '' && metadata.generateName) metadata.name = generatedName(metadata.generateName);
    draft.metadata = newMetadata(resource, draft.metadata, this.#now());
    if (resource.subresources.includes('status') && resource.kind !== 'Node') delete draft.status;
    finishDraft(resource, draft, undefined, this.#services);
    options.admit?.(draft, undefined);
    const stored = resource.toStored?.(draft) ?? draft;
    if (this.#store.get(resource.storage, objectKey(namespace, metadata.name))) throw alreadyExists(resource, metadata.name);
    stored.metadata.managedFields ??= trackUpdate(resource, stored, undefined, this.#manager(resource, options));
    return options.dryRun === true ? stored : this.#store.put(resource.storage, stored).object;
  }

  /**
   * Replaces an object by the result of `change`; with a subresource only that part of it.
   *
   * @param change gets the stored object, which it must not modify, and returns an undecoded body
   * @returns the object as stored; the current one if nothing changed
   */
  update(resource: ApiResource, key: string, change: (old: ApiObject) => JsonRecord, options: WriteOptions): ApiObject {
    const entry = this.#store.get(resource.storage, key);
    if (entry === undefined) throw notFound(resource, key.split('/').at(-1) ?? key);
    const current = entry.object;
    const old = resource.fromStored?.(current) ?? current;
    const draft = decodeBody(resource, change(old), options);
    checkPreconditions(resource, draft.metadata, old.metadata);
    draft.metadata = keptMetadata(draft.metadata, old.metadata);
    keepOtherParts(resource, draft, old, options.subresource);
    finishDraft(resource, draft, old, this.#services);
    options.admit?.(draft, old);
    const stored = resource.toStored?.(draft) ?? draft;
    if (resource.generation && changedSpec(stored, current)) stored.metadata.generation = (current.metadata.generation ?? 1) + 1;
    const managed = stored.metadata.managedFields;
    if (managed === undefined || equalJson(managed, current.metadata.managedFields))
      stored.metadata.managedFields = trackUpdate(resource, stored, current, this.#manager(resource, options));
    if (unchanged(stored, current)) return current;
    return options.dryRun === true ? stored : this.finish(resource, stored);
  }

  /**
   * Deletes an object, or marks it for deletion while another party still has to agree: the kubelet (pods), the owners of finalizers, or
   * the namespace's controller.
   *
   * @throws ApiError 404, or 409 if a precondition fails
   */
  delete(resource: ApiResource, namespace: string | undefined, name: string, request: DeleteOptions & WriteOptions): Deletion {
    const entry = this.#store.get(resource.storage, objectKey(namespace, name));
    if (entry === undefined) throw notFound(resource, name);
    const { object } = entry;
    checkDeletePreconditions(resource, object, request);
    const marked = markedForDeletion(resource, object, request, this.#now());
    if (request.dryRun === true) return { object: marked, gone: false };
    const alreadySame = JSON.stringify(marked.metadata) === JSON.stringify(object.metadata) && marked.status === object.status;
    const waits = deletionWaits(resource, marked);
    if (waits && alreadySame) return { object, gone: false };
    return { object: this.finish(resource, marked), gone: !waits };
  }

  /** Stores an object as is. Deletes one whose deletion waited for finalizers, and has none left. */
  finish(resource: ApiResource, object: ApiObject): ApiObject {
    const { deletionTimestamp, deletionGracePeriodSeconds = 0 } = object.metadata;
    const held = (object.metadata.finalizers ?? []).length > 0 || arrayAt(object.spec, 'finalizers').length > 0;
    if (deletionTimestamp === undefined || held || (resource.graceful && deletionGracePeriodSeconds > 0))
      return this.#store.put(resource.storage, object).object;
    return this.#store.remove(resource.storage, object).object;
  }

  #manager(resource: ApiResource, { fieldManager, subresource }: WriteOptions): Writer {
    return { manager: fieldManager ?? 'unknown', subresource, time: kubeTime(this.#now()), resource };
  }
}

function checkNamespace(store: Pick<Store, 'get'>, resource: ApiResource, namespace: string | undefined, metadata: ObjectMeta): void {
  if (!resource.namespaced) {
    if (metadata.namespace) throw badRequest(`namespace is not allowed on ${resource.kind}`);
    delete metadata.namespace;
    return;
  }
  if (namespace === undefined) throw badRequest('an object of this kind needs a namespace');
  if (metadata.namespace !== undefined && metadata.namespace !== '' && metadata.namespace !== namespace)
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
  metadata.namespace = namespace;
  const home = store.get('namespaces', namespace);
  if (home === undefined) throw notFound({ group: '', plural: 'namespaces', kind: 'Namespace' }, namespace);
  if (textAt(home.object.status, 'phase') !== 'Terminating' || resource.plural === 'events') return;
  const why = `unable to create new content in namespace ${namespace} because it is being terminated`;
  throw forbidden(resource, metadata.name, why, [
    { reason: 'NamespaceTerminating', message: `namespace ${namespace} is being terminated`, field: 'metadata.namespace' },
  ]);
}

function newMetadata(resource: ApiResource, given: ObjectMeta, nowMs: number): ObjectMeta {
  const { deletionTimestamp: _time, deletionGracePeriodSeconds: _grace, generation: _generation, ...rest } = given;
  return { ...rest, uid: randomUUID(), creationTimestamp: kubeTime(nowMs), ...(resource.generation ? { generation: 1 } : {}) };
}

const suffixLetters = 'bcdfghjklmnpqrstvwxz2456789';

/** The prefix and five letters without vowels, so that no words appear; at most 63 characters in total. */
function generatedName(prefix: string): string {
  return `${prefix.slice(0, 58)}${Array.from({ length: 5 }, () => suffixLetters[randomInt(suffixLetters.length)]).join('')}`;
}

function checkPreconditions(resource: ApiResource, draft: ObjectMeta, old: ObjectMeta): void {
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

/** Restores the fields that the client cannot change. */
function keptMetadata(draft: ObjectMeta, old: ObjectMeta): ObjectMeta {
  return defined(Object.assign({ ...draft }, Object.fromEntries(serverFields.map((name) => [name, old[name]]))));
}

/** A write of the main resource cannot change the status, and vice versa. */
function keepOtherParts(resource: ApiResource, draft: ApiObject, old: ApiObject, subresource: string | undefined): void {
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

function finishDraft(resource: ApiResource, draft: ApiObject, old: ApiObject | undefined, services: ServiceRanges): void {
  const errors = new FieldErrors();
  const { defaults, prepare, validate } = resource.strategy;
  defaults?.(draft, old);
  prepare?.(draft, old, errors, { services });
  checkMetadata(draft, resource.nameRule, errors);
  if (resource.custom) checkCustomRules(draft, resource.schema, errors);
  else checkRequired(draft, resource.schema, errors);
  // Rules of a kind rely on required fields being present.
  if (errors.list.length === 0) validate?.(draft, old, errors);
  if (errors.list.length > 0) throw invalid(resource, draft.metadata.name, errors.list);
}

function changedSpec(now: ApiObject, before: ApiObject): boolean {
  const names = new Set([...Object.keys(now), ...Object.keys(before)]);
  for (const name of ['metadata', 'status', 'apiVersion', 'kind']) names.delete(name);
  return Array.from(names).some((name) => !equalJson(now[name], before[name]));
}

function unchanged(now: ApiObject, before: ApiObject): boolean {
  const compared = (object: ApiObject) => ({ ...object, metadata: { ...object.metadata, managedFields: undefined } });
  return equalJson(compared(now), compared(before)) && equalJson(now.metadata.managedFields, before.metadata.managedFields);
}
