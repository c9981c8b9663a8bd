import type { PodSpec } from 'kubernetes-types/core/v1.d.ts';
import { badRequest, conflict, notFound } from './api-error.ts';
import type { Core, WriteOptions } from './core.ts';
import { deleteObject } from './deletion.ts';
import { isObject, type JsonObject, textAt } from './json.ts';
import { kubeTime, objectKey } from './kube-object.ts';
import type { Resource } from './resource.ts';

const pods = { group: '', plural: 'pods', kind: 'Pod' };
const success = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success' };

/**
 * Gives a pod its node, once.
 *
 * @throws ApiError 404, or 409 if it has one
 */
export function bindPod(core: Core, namespace: string | undefined, name: string, binding: JsonObject, options: WriteOptions): object {
  const entry = core.store.get('pods', objectKey(namespace, name));
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
  const scheduled = { type: 'PodScheduled', status: 'True', lastProbeTime: null, lastTransitionTime: kubeTime(core.now()) };
  if (options.dryRun !== true)
    core.store.put('pods', { ...object, spec: { ...spec, nodeName: node }, status: { ...status, conditions: [...others, scheduled] } });
  return { ...success, code: 201 };
}

/** Deletes a pod as `kubectl drain` asks; there are no disruption budgets to refuse it. */
export function evictPod(
  core: Core,
  resource: Resource,
  namespace: string | undefined,
  name: string,
  eviction: JsonObject,
  options: WriteOptions,
): object {
  const wish = isObject(eviction['deleteOptions']) ? eviction['deleteOptions'] : {};
  const grace = wish['gracePeriodSeconds'];
  deleteObject(core, resource, namespace, name, { ...options, ...(typeof grace === 'number' ? { gracePeriodSeconds: grace } : {}) });
  return { ...success, code: 201 };
}
