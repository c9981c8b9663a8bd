import { conflict } from '../errors/api-error.ts';
import { type ApiObject, kubeTime } from '../object/api-object.ts';
import { arrayAt, at } from '../object/json.ts';
import type { ResourceFacts } from '../resource/resource.ts';

/** `metav1.DeleteOptions`, the fields in use. */
export interface DeleteOptions {
  /** Seconds. */
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: string;
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
}

export interface Deletion {
  readonly object: ApiObject;
  /** False while finalizers or a grace period keep the object. */
  readonly gone: boolean;
}

/** Reports whether a kubelet or the owners of finalizers must agree first. */
export function deletionWaits(resource: ResourceFacts, marked: ApiObject): boolean {
  return isHeld(marked) || (resource.graceful && (marked.metadata.deletionGracePeriodSeconds ?? 0) > 0);
}

function isHeld(object: ApiObject): boolean {
  return (object.metadata.finalizers ?? []).length > 0 || (object.kind === 'Namespace' && arrayAt(object.spec, 'finalizers').length > 0);
}

/** @throws ApiError 409 */
export function checkDeletePreconditions(resource: ResourceFacts, { metadata }: ApiObject, { preconditions = {} }: DeleteOptions): void {
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
export function markedForDeletion(resource: ResourceFacts, object: ApiObject, request: DeleteOptions, nowMs: number): ApiObject {
  const grace = graceOf(resource, object, request);
  const before = object.metadata.deletionGracePeriodSeconds;
  if (object.metadata.deletionTimestamp !== undefined && (before ?? 0) <= grace) return object;
  const finalizers = withPropagation(object.metadata.finalizers ?? [], request.propagationPolicy);
  const metadata = {
    ...object.metadata,
    deletionTimestamp: kubeTime(nowMs + grace * 1000),
    deletionGracePeriodSeconds: grace,
    ...(finalizers.length > 0 ? { finalizers } : {}),
    ...(object.metadata.generation === undefined ? {} : { generation: object.metadata.generation + 1 }),
  };
  const status = resource.kind === 'Namespace' ? { ...(object.status as object), phase: 'Terminating' } : object.status;
  return { ...object, metadata, ...(status === undefined ? {} : { status }) };
}

/** Grace period of the kubelet in seconds; 0 for a pod without a node, or one that has ended. */
function graceOf(resource: ResourceFacts, object: ApiObject, { gracePeriodSeconds }: DeleteOptions): number {
  if (!resource.graceful) return 0;
  const phase = at(object.status, 'phase');
  if (!at(object.spec, 'nodeName') || phase === 'Succeeded' || phase === 'Failed') return 0;
  return Math.max(0, gracePeriodSeconds ?? Number(at(object.spec, 'terminationGracePeriodSeconds') ?? 30));
}

function withPropagation(finalizers: readonly string[], policy: string | undefined): string[] {
  const added = policy === 'Foreground' ? 'foregroundDeletion' : policy === 'Orphan' ? 'orphan' : undefined;
  return added === undefined || finalizers.includes(added) ? [...finalizers] : [...finalizers, added];
}
