import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type Ip, ipFromValue, parseIp } from '../../base/net/ip.ts';
import { parseObject } from '../../kubernetes/client/resource.ts';
import { clusterPolicyEvidence, policyEvidence } from '../../kubernetes/resources/policy-evidence.ts';
import type { ForwardedObjects, ServedObject, SliceObject } from '../verify/forwarding-reference/forwarded-objects.ts';
import type {
  ClusterNetworkPolicyObject,
  NamespaceObject,
  NetworkPolicyObject,
  NodeObject,
  PodObject,
} from '../verify/reference/objects.ts';
import { type ReachObjects, type ServiceObject, services } from './objects.ts';

/** Objects of manifests, and the parts that were made up because manifests do not have them. */
interface CompletedObjects {
  readonly objects: ReachObjects;
  /** Services and EndpointSlices as they are written. */
  readonly served: Pick<ForwardedObjects, 'services' | 'slices'>;
  /** Kinds that no policy depends on, with their number. */
  readonly ignored: ReadonlyMap<string, number>;
}

/** One document of a manifest, with the place it comes from for messages, such as `policies/db.yaml`. */
export interface ManifestDocument {
  readonly place: string;
  readonly object: unknown;
}

/** Addresses for pods of manifests: networks for tests of network equipment (RFC 2544, RFC 5180), which no cluster has. */
const firstAddresses: readonly Ip[] = [parseIp('198.18.0.1'), parseIp('2001:2::1')];
const MADE_UP_PODS_MAX = 131_070;
/** Pods made up for a workload: two, so that connections between its own pods are seen. */
const REPLICAS_MAX = 2;

const identity = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string().min(1), namespace: z.string().nullish() }),
});
const template = z.looseObject({
  metadata: z.looseObject({ labels: z.record(z.string(), z.string()).nullish() }).nullish(),
  spec: z.looseObject({}),
});
const workload = z.looseObject({
  spec: z.looseObject({ replicas: z.int().min(0).nullish(), template }),
});
const cronJob = z.looseObject({ spec: z.looseObject({ jobTemplate: z.looseObject({ spec: z.looseObject({ template }) }) }) });

const workloadKinds: ReadonlySet<string> = new Set([
  'apps/v1 Deployment',
  'apps/v1 ReplicaSet',
  'apps/v1 StatefulSet',
  'apps/v1 DaemonSet',
  'batch/v1 Job',
  'v1 ReplicationController',
]);
const clusterPolicyKinds: ReadonlySet<string> = new Set(
  ['v1beta1', 'v1alpha2'].map((version) => `policy.networking.k8s.io/${version} ClusterNetworkPolicy`),
);
const onePodKinds: ReadonlySet<string> = new Set(['batch/v1 Job']);

/**
 * Completes the objects of manifests as an API server and controllers would: lists become their items, workloads become pods with addresses,
 * namespaces that only appear in `metadata.namespace` get an object, and each namespace gets its name label.
 *
 * @throws SeineError `INVALID_INPUT` for an object that cannot be read, with its place and field
 */
export function fromManifests(documents: Iterable<ManifestDocument>): CompletedObjects {
  const reader = new ManifestReader();
  for (const document of documents) reader.read(document);
  return reader.completed();
}

class ManifestReader {
  readonly #namespaces = new Map<string, NamespaceObject>();
  readonly #pods = new Map<string, PodObject>();
  readonly #nodes = new Map<string, NodeObject>();
  readonly #policies = new Map<string, NetworkPolicyObject>();
  readonly #clusterPolicies = new Map<string, ClusterNetworkPolicyObject>();
  readonly #services = new Map<string, ServiceObject>();
  readonly #servedObjects = new Map<string, ServedObject>();
  readonly #slices = new Map<string, SliceObject>();
  readonly #ignored = new Map<string, number>();
  #addresses = 0;

  read({ place, object }: ManifestDocument): void {
    if (object === null || object === undefined) return;
    const items = listItems(object);
    if (items) {
      for (const [at, item] of items.entries()) this.read({ place: `${place} items[${at}]`, object: item });
      return;
    }
    const { apiVersion, kind, metadata } = isIdentified(object) ? object : at(place, () => parseObject(identity, object));
    const namespaced = { ...object, metadata: { ...metadata, namespace: metadata.namespace ?? 'default' } };
    at(`${place}: ${kind} ${metadata.name}`, () => this.#add(`${apiVersion} ${kind}`, namespaced, metadata.name));
  }

  #add(kind: string, object: Namespaced, name: string): void {
    const key = `${object.metadata.namespace}/${name}`;
    if (kind === 'v1 Namespace') this.#putOnce(this.#namespaces, name, policyEvidence.namespaces.project(object) as NamespaceObject);
    else if (kind === 'v1 Node') this.#putOnce(this.#nodes, name, policyEvidence.nodes.project(object) as NodeObject);
    else if (kind === 'v1 Pod') this.#putOnce(this.#pods, key, this.#pod(object));
    else if (kind === 'v1 Service') this.#addService(key, object);
    else if (kind === 'discovery.k8s.io/v1 EndpointSlice') this.#putOnce(this.#slices, key, object as unknown as SliceObject);
    else if (kind === 'networking.k8s.io/v1 NetworkPolicy')
      this.#putOnce(this.#policies, key, policyEvidence.networkPolicies.project(object) as NetworkPolicyObject);
    else if (clusterPolicyKinds.has(kind))
      this.#putOnce(this.#clusterPolicies, name, clusterPolicyEvidence.project(object) as ClusterNetworkPolicyObject);
    else if (workloadKinds.has(kind)) this.#addWorkload(kind, object, name, parseObject(workload, object).spec);
    else if (kind === 'batch/v1 CronJob')
      this.#addWorkload('batch/v1 Job', object, name, parseObject(cronJob, object).spec.jobTemplate.spec);
    else this.#ignored.set(kind, (this.#ignored.get(kind) ?? 0) + 1);
  }

  #addService(key: string, object: Namespaced): void {
    this.#putOnce(this.#services, key, services.project(object));
    this.#servedObjects.set(key, object as unknown as ServedObject);
  }

  #putOnce<T>(into: Map<string, T>, key: string, value: T): void {
    if (into.has(key)) throw new SeineError('INVALID_INPUT', 'another document has the same object');
    into.set(key, value);
  }

  #addWorkload(kind: string, { metadata }: Namespaced, name: string, spec: z.output<typeof workload>['spec']): void {
    const count = onePodKinds.has(kind) ? 1 : Math.min(spec.replicas ?? REPLICAS_MAX, REPLICAS_MAX);
    for (let index = 0; index < count; index++) {
      const pod = {
        metadata: { namespace: metadata.namespace, name: `${name}-${index}`, labels: spec.template.metadata?.labels ?? {} },
        spec: spec.template.spec,
      };
      this.#putOnce(this.#pods, `${metadata.namespace}/${pod.metadata.name}`, this.#pod(pod));
    }
  }

  /** Reads a pod. One without addresses gets some, and runs. */
  #pod(object: unknown): PodObject {
    const pod = policyEvidence.pods.project(object) as PodObject;
    if ((pod.status.podIPs ?? []).length > 0 || pod.spec.hostNetwork) return pod;
    this.#addresses++;
    if (this.#addresses > MADE_UP_PODS_MAX) throw new SeineError('INVALID_INPUT', `more than ${MADE_UP_PODS_MAX} pods without addresses`);
    const podIPs = firstAddresses.map(({ family, value }) => ({ ip: ipFromValue(family, value + BigInt(this.#addresses - 1)).text }));
    return { ...pod, status: { phase: pod.status.phase === 'Pending' ? 'Running' : pod.status.phase, podIPs } };
  }

  completed(): CompletedObjects {
    const namespaced = [this.#pods, this.#policies, this.#services].flatMap((map) => [...map.values()]);
    for (const { metadata } of namespaced)
      if (!this.#namespaces.has(metadata.namespace)) this.#namespaces.set(metadata.namespace, { metadata: { name: metadata.namespace } });
    return {
      objects: {
        namespaces: [...this.#namespaces.values()].map(withNameLabel),
        pods: [...this.#pods.values()],
        nodes: [...this.#nodes.values()],
        networkPolicies: [...this.#policies.values()],
        clusterNetworkPolicies: [...this.#clusterPolicies.values()],
        services: [...this.#services.values()],
      },
      served: { services: [...this.#servedObjects.values()], slices: [...this.#slices.values()] },
      ignored: this.#ignored,
    };
  }
}

interface Namespaced {
  readonly metadata: { readonly namespace: string; readonly name: string };
}

/** Like `identity`, and faster by a multiple: a file may have 150,000 objects. The schema makes the message for one that is refused. */
function isIdentified(object: unknown): object is z.output<typeof identity> {
  const { apiVersion, kind, metadata } = object as Readonly<Record<string, unknown>>;
  if (typeof apiVersion !== 'string' || typeof kind !== 'string' || typeof metadata !== 'object' || metadata === null) return false;
  const { name, namespace } = metadata as Readonly<Record<string, unknown>>;
  return typeof name === 'string' && name !== '' && (typeof namespace === 'string' || namespace === undefined || namespace === null);
}

/** Returns the items of a list: the array itself. */
export function listItems(object: unknown): unknown[] | undefined {
  if (object === null || object === undefined) return undefined;
  const { kind, items } = object as Readonly<Record<string, unknown>>;
  return typeof kind === 'string' && kind.endsWith('List') && Array.isArray(items) ? items : undefined;
}

function withNameLabel({ metadata }: NamespaceObject): NamespaceObject {
  return { metadata: { name: metadata.name, labels: { ...metadata.labels, 'kubernetes.io/metadata.name': metadata.name } } };
}

function at<T>(place: string, read: () => T): T {
  try {
    return read();
  } catch (thrown) {
    throw new SeineError('INVALID_INPUT', `${place}: ${SeineError.from(thrown, 'parse').rawMessage}`, { cause: thrown });
  }
}
