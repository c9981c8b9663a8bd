import { conflict, notFound } from './api-error.ts';
import type { Core, WriteOptions } from './core.ts';
import { arrayAt, at } from './json.ts';
import { type KubeObject, kubeTime, objectKey } from './kube-object.ts';
import type { Resource } from './resource.ts';
import { storeOrFinish } from './write.ts';

/** `metav1.DeleteOptions`, the parts that matter. */
export interface DeleteOptions {
  /** Seconds. */
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: string;
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
}

export interface Deletion {
  readonly object: KubeObject;
  /** False while finalizers or a grace period keep the object. */
  readonly gone: boolean;
}

/**
 * Deletes an object, or marks it to be deleted when somebody still has to agree: the kubelet (pods), the holders of finalizers, or
 * the namespace's controller.
 *
 * @throws ApiError 404, or 409 if a precondition does not hold
 */
export function deleteObject(
  core: Core,
  resource: Resource,
  namespace: string | undefined,
  name: string,
  request: DeleteOptions & WriteOptions,
): Deletion {
  const entry = core.store.get(resource.storage, objectKey(namespace, name));
  if (entry === undefined) throw notFound(resource, name);
  const { object } = entry;
  checkPreconditions(resource, object, request);
  const marked = markedForDeletion(core, resource, object, request);
  if (request.dryRun === true) return { object: marked, gone: false };
  const alreadySame = JSON.stringify(marked.metadata) === JSON.stringify(object.metadata) && marked.status === object.status;
  const waits = isHeld(marked) || (resource.graceful && (marked.metadata.deletionGracePeriodSeconds ?? 0) > 0);
  if (waits && alreadySame) return { object, gone: false };
  return { object: storeOrFinish(core, resource, marked), gone: !waits };
}

function isHeld(object: KubeObject): boolean {
  return (object.metadata.finalizers ?? []).length > 0 || (object.kind === 'Namespace' && arrayAt(object.spec, 'finalizers').length > 0);
}

function checkPreconditions(resource: Resource, { metadata }: KubeObject, { preconditions = {} }: DeleteOptions): void {
  const { uid, resourceVersion } = preconditions;
  if (uid !== undefined && uid !== metadata.uid)
    throw conflict(resource, metadata.name, `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${metadata.uid}`);
  if (resourceVersion !== undefined && resourceVersion !== metadata.resourceVersion)
    throw conflict(
      resource,
      metadata.name,
      `Precondition failed: ResourceVersion in precondition: ${resourceVersion}, ResourceVersion in object meta: ${metadata.resourceVersion}`,
    );
}

/** The object with its deletion time; a second request may shorten the grace, never lengthen it. */
function markedForDeletion(core: Core, resource: Resource, object: KubeObject, request: DeleteOptions): KubeObject {
  const grace = graceOf(resource, object, request);
  const before = object.metadata.deletionGracePeriodSeconds;
  if (object.metadata.deletionTimestamp !== undefined && (before ?? 0) <= grace) return object;
  const finalizers = withPropagation(object.metadata.finalizers ?? [], request.propagationPolicy);
  const metadata = {
    ...object.metadata,
    deletionTimestamp: kubeTime(core.now() + grace * 1000),
    deletionGracePeriodSeconds: grace,
    ...(finalizers.length > 0 ? { finalizers } : {}),
    ...(object.metadata.generation === undefined ? {} : { generation: object.metadata.generation + 1 }),
  };
  const status = resource.kind === 'Namespace' ? { ...(object.status as object), phase: 'Terminating' } : object.status;
  return { ...object, metadata, ...(status === undefined ? {} : { status }) };
}

/** Seconds a kubelet has; none for a pod that no kubelet runs, or that has ended. */
function graceOf(resource: Resource, object: KubeObject, { gracePeriodSeconds }: DeleteOptions): number {
  if (!resource.graceful) return 0;
  const phase = at(object.status, 'phase');
  if (!at(object.spec, 'nodeName') || phase === 'Succeeded' || phase === 'Failed') return 0;
  return Math.max(0, gracePeriodSeconds ?? Number(at(object.spec, 'terminationGracePeriodSeconds') ?? 30));
}

function withPropagation(finalizers: readonly string[], policy: string | undefined): string[] {
  const added = policy === 'Foreground' ? 'foregroundDeletion' : policy === 'Orphan' ? 'orphan' : undefined;
  return added === undefined || finalizers.includes(added) ? [...finalizers] : [...finalizers, added];
}
