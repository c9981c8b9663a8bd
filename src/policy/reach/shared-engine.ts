import { SeineError } from '../../base/errors/seine-error.ts';
import { isIp, parseIp } from '../../base/net/ip.ts';
import { clusterNetworkPoliciesOf } from '../../kubernetes/resources/cluster-network-policy.ts';
import { networkPolicies } from '../../kubernetes/resources/network-policy.ts';
import { policyPods } from '../../kubernetes/resources/policy-pod.ts';
import { PolicyEngine } from '../engine/policy-engine.ts';
import type { DirectionMatrix, PolicyMatrix } from '../matrix/matrix.ts';
import type { NodeObject } from '../verify/reference/objects.ts';
import { keyOf, type ReachObjects } from './objects.ts';

/** Node of the engine. Its pods are the representatives of all groups. No Node has this name, because it is not a DNS name. */
const ANALYSED_NODE = '(analysis)';

const clusterPolicies = clusterNetworkPoliciesOf('v1beta1');
const noObjects: ReachObjects = { namespaces: [], nodes: [], pods: [], networkPolicies: [], clusterNetworkPolicies: [], services: [] };

/** Engine that computes the policies of several sets of objects, one after another. Objects that two sets share are computed once. */
export class SharedEngine {
  readonly #engine = new PolicyEngine(ANALYSED_NODE, Number.MAX_SAFE_INTEGER);
  readonly #local: ReadonlySet<string>;
  #objects = noObjects;

  /** @param local pods, `namespace/name`, whose classes are computed */
  constructor(local: ReadonlySet<string>) {
    this.#local = local;
  }

  /** @throws SeineError `INVALID_INPUT` for an object that cannot be understood, with its kind, name and field */
  matrixFor(objects: ReachObjects): PolicyMatrix {
    const engine = this.#engine;
    const before = this.#objects;
    replace(before.namespaces, objects.namespaces, clusterKey, {
      put: ({ metadata }) => engine.putNamespace(metadata.name, metadata.labels ?? {}),
      remove: (name) => engine.removeNamespace(name),
    });
    replace(before.nodes, objects.nodes, clusterKey, { put: (node) => this.#putNode(node), remove: (name) => engine.removeNode(name) });
    replace(before.pods, objects.pods, keyOf, { put: (pod) => this.#putPod(pod), remove: (key) => engine.removePod(key) });
    replace(before.networkPolicies, objects.networkPolicies, keyOf, {
      put: (policy) => {
        // Objects in files have no UID yet.
        const raw = { ...policy, metadata: { uid: keyOf(policy), ...policy.metadata } };
        const projected = understood('NetworkPolicy', keyOf(policy), () => networkPolicies.project(raw));
        if (projected) engine.putPolicy(projected);
      },
      remove: (key) => engine.removePolicy(key),
    });
    replace(before.clusterNetworkPolicies ?? [], objects.clusterNetworkPolicies ?? [], clusterKey, {
      put: (policy) => {
        const { name } = policy.metadata;
        const raw = { ...policy, metadata: { uid: name, ...policy.metadata } };
        const projected = understood('ClusterNetworkPolicy', name, () => clusterPolicies.project(raw));
        if (projected) engine.putClusterPolicy(projected);
      },
      remove: (name) => engine.removeClusterPolicy(name),
    });
    this.#objects = objects;
    engine.update();
    return plainMatrix(engine.matrix);
  }

  #putNode({ metadata, spec, status }: NodeObject): void {
    this.#engine.putNode({
      name: metadata.name,
      labels: metadata.labels ?? {},
      podCidrs: spec.podCIDRs ?? [],
      addresses: status.addresses.flatMap(({ address }) => (isIp(address) ? [parseIp(address).text] : [])),
    });
  }

  #putPod(object: ReachObjects['pods'][number]): void {
    const pod = understood('Pod', keyOf(object), () => policyPods.project(object));
    if (pod) this.#engine.putPod(this.#local.has(keyOf(object)) ? { ...pod, nodeName: ANALYSED_NODE } : pod);
    else this.#engine.removePod(keyOf(object));
  }
}

function clusterKey({ metadata }: { readonly metadata: { readonly name: string } }): string {
  return metadata.name;
}

interface EngineWriter<T> {
  readonly put: (object: T) => void;
  readonly remove: (key: string) => void;
}

/** Applies the difference of two lists; equal objects are the same ones. */
function replace<T>(before: readonly T[], after: readonly T[], key: (object: T) => string, { put, remove }: EngineWriter<T>): void {
  if (before === after) return;
  const known = new Map(before.map((object) => [key(object), object]));
  for (const object of after) {
    const name = key(object);
    if (known.get(name) !== object) put(object);
    known.delete(name);
  }
  for (const name of known.keys()) remove(name);
}

/** Copies the engine's view into maps, which are read many times. */
function plainMatrix({ subjects, ownNode, ingress, egress }: PolicyMatrix): PolicyMatrix {
  const copy = ({ identities, relations }: DirectionMatrix) => ({ identities: new Map(identities), relations: new Map(relations) });
  return { subjects: new Map(subjects), ownNode, ingress: copy(ingress), egress: copy(egress) };
}

function understood<T>(kind: string, name: string, read: () => T): T {
  try {
    return read();
  } catch (thrown) {
    throw new SeineError('INVALID_INPUT', `${kind} ${name}: ${SeineError.from(thrown, 'parse').rawMessage}`, { cause: thrown });
  }
}
