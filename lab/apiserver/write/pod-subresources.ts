import type { PodSpec } from 'kubernetes-types/core/v1.d.ts';
import { badRequest, conflict, notFound } from '../errors/api-error.ts';
import { kubeTime, objectKey } from '../object/api-object.ts';
import { isObject, type JsonRecord, textAt } from '../object/json.ts';
import type { ApiResource } from '../resource/resource.ts';
import type { Store } from '../store/store.ts';
import type { ObjectWriter } from './object-writer.ts';
import type { WriteOptions } from './write-options.ts';

const pods = { group: '', plural: 'pods', kind: 'Pod' };
const success = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success' };

interface PodBinderOptions {
  readonly store: Pick<Store, 'get' | 'put'>;
  /** Milliseconds since 1970. */
  now(): number;
}

/** Assigns a pod to the node that a `Binding` names. */
export type BindPod = (namespace: string | undefined, name: string, binding: JsonRecord, options: WriteOptions) => object;

export function podBinder(options: PodBinderOptions): BindPod {
  return (namespace, name, binding, write) => bindPod(options, [namespace, name], binding, write);
}

/**
 * Assigns a pod to its node, once.
 *
 * @throws ApiError 404, or 409 if it has one
 */
function bindPod(
  { store, now }: PodBinderOptions,
  [namespace, name]: readonly [namespace: string | undefined, name: string],
  binding: JsonRecord,
  options: WriteOptions,
): object {
  const entry = store.get('pods', objectKey(namespace, name));
  if (entry === undefined) throw notFound(pods, name);
  const node = textAt(binding, 'target', 'name');
  if (node === '') throw badRequest('target.name: Required value');
  const { object } = entry;
  const spec = object.spec as PodSpec;
  if (spec.nodeName) throw conflict(pods, name, `pod ${name} is already assigned to node "${spec.nodeName}"`);
  if (object.metadata.deletionTimestamp !== undefined)
    throw conflict(pods, name, `pod ${name} is being deleted, cannot be assigned to a host`);
  const status = isObject(object.status) ? object.status : {};
  const others = Array.isArray(status['conditions']) ? status['conditions'].filter((one) => textAt(one, 'type') !== 'PodScheduled') : [];
  const scheduled = { type: 'PodScheduled', status: 'True', lastProbeTime: null, lastTransitionTime: kubeTime(now()) };
  if (options.dryRun !== true)
    store.put('pods', { ...object, spec: { ...spec, nodeName: node }, status: { ...status, conditions: [...others, scheduled] } });
  return { ...success, code: 201 };
}

/** Deletes a pod for `kubectl drain`; there are no disruption budgets that could reject it. */
export function evictPod(
  writer: Pick<ObjectWriter, 'delete'>,
  resource: ApiResource,
  namespace: string | undefined,
  name: string,
  eviction: JsonRecord,
  options: WriteOptions,
): object {
  const deleteOptions = isObject(eviction['deleteOptions']) ? eviction['deleteOptions'] : {};
  const grace = deleteOptions['gracePeriodSeconds'];
  writer.delete(resource, namespace, name, { ...options, ...(typeof grace === 'number' ? { gracePeriodSeconds: grace } : {}) });
  return { ...success, code: 201 };
}
