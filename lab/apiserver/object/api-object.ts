/** Fields of every stored object. Spec and status are checked against the schema when they enter. */

interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

export interface ManagedFieldsEntry {
  readonly manager: string;
  readonly operation: 'Apply' | 'Update';
  readonly apiVersion: string;
  readonly fieldsType: 'FieldsV1';
  readonly fieldsV1: FieldSet;
  readonly time?: string;
  readonly subresource?: string;
}

/** The FieldsV1 form: `f:name` a field, `k:{…}` a list item by its keys, `v:…` a set member, `.` the node itself. */
export interface FieldSet {
  [path: string]: FieldSet;
}

export interface ObjectMeta {
  name: string;
  generateName?: string;
  namespace?: string;
  uid: string;
  /** Decimal; the store's revision of the last change. */
  resourceVersion: string;
  generation?: number;
  /** RFC 3339 in UTC, whole seconds. */
  creationTimestamp: string;
  deletionTimestamp?: string;
  /** Seconds. */
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
  managedFields?: ManagedFieldsEntry[];
}

/** An object as the API serves it. Once stored it is shared and never changed; a change is a new object. */
export interface ApiObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec?: unknown;
  status?: unknown;
  [field: string]: unknown;
}

/** `namespace/name`, or the name alone for objects of the cluster. */
export function keyOf(metadata: { readonly name: string; readonly namespace?: string }): string {
  return objectKey(metadata.namespace, metadata.name);
}

export function objectKey(namespace: string | undefined, name: string): string {
  return namespace === undefined || namespace === '' ? name : `${namespace}/${name}`;
}

/** RFC 3339, UTC, whole seconds, as metav1.Time is written. */
export function kubeTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
