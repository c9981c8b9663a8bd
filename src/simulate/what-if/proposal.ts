import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { parseObject } from '../../kubernetes/client/resource.ts';
import { clusterPolicyEvidence, policyEvidence } from '../../kubernetes/resources/policy-evidence.ts';
import type { ManifestDocument } from '../../policy/reach/from-manifests.ts';
import { keyOf, services } from '../../policy/reach/objects.ts';
import type { ServedObject, SliceObject } from '../../policy/verify/forwarding-reference/forwarded-objects.ts';
import type { ClusterNetworkPolicyObject, NetworkPolicyObject, PodObject } from '../../policy/verify/reference/objects.ts';
import type { SimulatedObjects } from '../objects/cluster-objects.ts';
import { withClusterAddress } from '../objects/completed-cluster.ts';
import { controlledSlices } from '../objects/controlled-slices.ts';

/** Kinds that a proposal may change, by the name in `--delete`. */
const removableKinds = ['networkpolicy', 'clusternetworkpolicy', 'service', 'endpointslice'] as const;
type RemovableKind = (typeof removableKinds)[number];

export interface Proposal {
  readonly documents: readonly ManifestDocument[];
  /** Objects to delete, `KIND/NAMESPACE/NAME` or `clusternetworkpolicy/NAME`. */
  readonly removed: readonly string[];
}

export interface ProposedCluster {
  readonly objects: SimulatedObjects;
  /** Names of changed objects, `NetworkPolicy shop/db`. */
  readonly changed: readonly string[];
  /** Sentences about parts of the proposal whose effect is not computed. */
  readonly notConsidered: readonly string[];
}

const identity = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({
    name: z.string().min(1),
    namespace: z.string().nullish(),
    labels: z.record(z.string(), z.string().nullable()).nullish(),
  }),
});
const service = z.looseObject({
  spec: z.looseObject({
    clusterIP: z.string().nullish(),
    clusterIPs: z.array(z.string()).nullish(),
    ports: z.array(z.looseObject({ port: z.int(), nodePort: z.int().nullish() })).nullish(),
  }),
});
const slice = z.looseObject({ addressType: z.string() });
const listSchema = z.looseObject({ kind: z.string().endsWith('List'), items: z.array(z.unknown()) });

/**
 * Applies a proposal to the objects of a cluster as the API server and its controllers would. Labels that a Pod or Namespace of the
 * proposal does not mention stay; one with the value `null` is removed.
 *
 * @throws SeineError `INVALID_INPUT` for a document that cannot be read, or an object to delete that does not exist
 */
export function proposedCluster(objects: SimulatedObjects, { documents, removed }: Proposal): ProposedCluster {
  const draft = new Draft(objects);
  for (const text of removed) draft.remove(text);
  for (const document of documents) draft.apply(document);
  return draft.finished();
}

/** Lists the objects of a document: a List has several. */
export function itemsOf({ place, object }: ManifestDocument): readonly ManifestDocument[] {
  if (object === null || object === undefined) return [];
  const list = listSchema.safeParse(object);
  if (!list.success) return [{ place, object }];
  return list.data.items.flatMap((item, at) => itemsOf({ place: `${place} items[${at}]`, object: item }));
}

class Draft {
  readonly #before: SimulatedObjects;
  readonly #namespaces;
  readonly #pods: Map<string, PodObject>;
  readonly #policies: Map<string, NetworkPolicyObject>;
  readonly #clusterPolicies: Map<string, ClusterNetworkPolicyObject>;
  readonly #services: Map<string, ServedObject>;
  readonly #slices: Map<string, SliceObject>;
  readonly #changed: string[] = [];
  readonly #notConsidered: string[] = [];
  /** Services whose EndpointSlices the proposal itself changes. */
  readonly #writtenSlices = new Set<string>();
  readonly #other = new Map<string, number>();

  constructor(objects: SimulatedObjects) {
    this.#before = objects;
    this.#namespaces = new Map(objects.namespaces.map((each) => [each.metadata.name, each]));
    this.#pods = new Map(objects.pods.map((each) => [keyOf(each), each]));
    this.#policies = new Map(objects.networkPolicies.map((each) => [keyOf(each), each]));
    this.#clusterPolicies = new Map((objects.clusterNetworkPolicies ?? []).map((each) => [each.metadata.name, each]));
    this.#services = new Map(objects.services.map((each) => [keyOf(each), each]));
    this.#slices = new Map(objects.slices.map((each) => [sliceKey(each), each]));
  }

  remove(text: string): void {
    const [kindText = '', ...rest] = text.split('/');
    const kind = removableKinds.find((each) => each === kindText.toLowerCase());
    const key = rest.join('/');
    if (kind === undefined || !isNamed(kind, rest))
      throw new SeineError(
        'INVALID_INPUT',
        `--delete ${JSON.stringify(text)} is not KIND/NAMESPACE/NAME with one of ${removableKinds.join(', ')}, or clusternetworkpolicy/NAME`,
      );
    if (!this.#mapOf(kind).delete(key)) throw new SeineError('INVALID_INPUT', `--delete: there is no ${JSON.stringify(`${kind}/${key}`)}`);
    this.#changed.push(`${kind} ${key}`);
    if (kind === 'service') this.#removeSlicesOf(key);
  }

  #mapOf(kind: RemovableKind): Map<string, unknown> {
    return {
      networkpolicy: this.#policies,
      clusternetworkpolicy: this.#clusterPolicies,
      service: this.#services,
      endpointslice: this.#slices,
    }[kind];
  }

  /** The API server deletes the EndpointSlices of a Service with it. */
  #removeSlicesOf(name: string): void {
    for (const [key, each] of this.#slices) if (serviceNameOf(each) === name) this.#slices.delete(key);
  }

  apply(document: ManifestDocument): void {
    for (const { place, object } of itemsOf(document)) {
      const read = at(place, () => parseObject(identity, object));
      const { apiVersion, kind, metadata } = read;
      const named = { ...read, metadata: { ...metadata, namespace: metadata.namespace ?? 'default' } };
      at(`${place}: ${kind} ${metadata.name}`, () => this.#put(`${apiVersion} ${kind}`, named));
    }
  }

  #put(kind: string, object: NamedObject): void {
    const key = keyOf(object);
    const { name } = object.metadata;
    if (kind === 'networking.k8s.io/v1 NetworkPolicy')
      this.#policies.set(key, policyEvidence.networkPolicies.project(object) as NetworkPolicyObject);
    else if (/^policy\.networking\.k8s\.io\/v1(?:beta1|alpha2) ClusterNetworkPolicy$/.test(kind))
      this.#clusterPolicies.set(name, clusterPolicyEvidence.project(object) as ClusterNetworkPolicyObject);
    else if (kind === 'v1 Namespace') this.#relabelNamespace(object);
    else if (kind === 'v1 Pod') this.#relabelPod(object);
    else if (kind === 'v1 Service') this.#putService(key, object);
    else if (kind === 'discovery.k8s.io/v1 EndpointSlice') this.#putSlice(key, object);
    else return void this.#other.set(kind, (this.#other.get(kind) ?? 0) + 1);
    const isNamespaced = !/Namespace$|ClusterNetworkPolicy$/.test(kind);
    this.#changed.push(`${kind.split(' ')[1]} ${isNamespaced ? key : name}`);
  }

  #relabelNamespace({ metadata: { name, labels } }: NamedObject): void {
    const former = this.#namespaces.get(name)?.metadata.labels ?? {};
    const own = { ...withLabels(former, labels), 'kubernetes.io/metadata.name': name };
    this.#namespaces.set(name, { ...this.#namespaces.get(name), metadata: { name, labels: own } });
  }

  #relabelPod(object: NamedObject): void {
    const key = keyOf(object);
    const pod = this.#pods.get(key);
    if (!pod) this.#notConsidered.push(`Pod ${key} does not exist: only labels of existing pods are compared`);
    else
      this.#pods.set(key, { ...pod, metadata: { ...pod.metadata, labels: withLabels(pod.metadata.labels ?? {}, object.metadata.labels) } });
  }

  /** The API server keeps addresses and node ports that an update leaves out. */
  #putService(key: string, object: NamedObject): void {
    const former = this.#services.get(key);
    services.project({ ...object, spec: { ports: [], ...(object['spec'] as object) } });
    const written = parseObject(service, object);
    const known = former === undefined ? undefined : parseObject(service, former);
    const nodePorts = new Map(
      (known?.spec.ports ?? []).map((port) => [`${port.port} ${String(port['protocol'] ?? 'TCP')}`, port.nodePort]),
    );
    const hasAddress = written.spec.clusterIPs != null || written.spec.clusterIP === 'None' || known === undefined;
    const spec = {
      ...(hasAddress ? {} : { clusterIP: known?.spec.clusterIP, clusterIPs: known?.spec.clusterIPs }),
      ...written.spec,
      ports: (written.spec.ports ?? []).map((port) => {
        const nodePort = port.nodePort ?? nodePorts.get(`${port.port} ${String(port['protocol'] ?? 'TCP')}`);
        return nodePort == null || (written.spec['type'] ?? 'ClusterIP') === 'ClusterIP' ? port : { ...port, nodePort };
      }),
    };
    const metadata = { ...former?.metadata, ...object.metadata };
    const made = { ...former, ...written, metadata, spec } as unknown as ServedObject;
    this.#services.set(key, former === undefined ? withClusterAddress(made, this.#services.size) : made);
  }

  #putSlice(key: string, object: NamedObject): void {
    parseObject(slice, object);
    const put = object as unknown as SliceObject;
    this.#slices.set(key, put);
    const name = serviceNameOf(put);
    if (name !== undefined) this.#writtenSlices.add(name);
  }

  finished(): ProposedCluster {
    const objects: SimulatedObjects = {
      ...this.#before,
      namespaces: [...this.#namespaces.values()],
      pods: [...this.#pods.values()],
      networkPolicies: [...this.#policies.values()],
      clusterNetworkPolicies: [...this.#clusterPolicies.values()],
      services: [...this.#services.values()],
      slices: [...this.#slices.values()],
    };
    const other = [...this.#other].map(
      ([kind, number]) => `${number} ${kind.split(' ')[1]}: not compared; pods that it would create or relabel are not considered`,
    );
    return {
      objects: { ...objects, slices: controlledSlices(this.#before, objects, this.#writtenSlices) },
      changed: this.#changed,
      notConsidered: [...this.#notConsidered, ...other],
    };
  }
}

type NamedObject = z.output<typeof identity> & { readonly metadata: { readonly namespace: string; readonly name: string } };

function isNamed(kind: RemovableKind, parts: readonly string[]): boolean {
  return parts.length === (kind === 'clusternetworkpolicy' ? 1 : 2) && parts.every((part) => part !== '');
}

function withLabels(
  former: Readonly<Record<string, string>>,
  written: Readonly<Record<string, string | null>> | null | undefined,
): Readonly<Record<string, string>> {
  const all = new Map<string, string | null>([...Object.entries(former), ...Object.entries(written ?? {})]);
  return Object.fromEntries([...all].flatMap(([key, value]) => (value === null ? [] : [[key, value]])));
}

/** Returns `namespace/name` of the Service of a slice. */
function serviceNameOf({ metadata: { namespace, labels } }: SliceObject): string | undefined {
  const name = labels?.['kubernetes.io/service-name'];
  return name === undefined ? undefined : `${namespace}/${name}`;
}

function sliceKey(each: SliceObject): string {
  return keyOf({ metadata: { name: '', ...each.metadata } });
}

function at<T>(place: string, read: () => T): T {
  try {
    return read();
  } catch (thrown) {
    throw new SeineError('INVALID_INPUT', `${place}: ${SeineError.from(thrown, 'parse').rawMessage}`, { cause: thrown });
  }
}
