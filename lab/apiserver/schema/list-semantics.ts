/**
 * Merge rules of lists, by model and field: `patch` is the key by which a strategic merge patch matches items (`` for sets of scalars),
 * `retainKeys` lets the patch name the fields of a union that survive, `keys` are the list-map keys of server-side apply. Every other list
 * is replaced as a whole. Source: the patchStrategy, patchMergeKey, listType and listMapKey marks that the Kubernetes API reference
 * documents.
 */
export interface ListSemantics {
  readonly patch?: string;
  readonly retainKeys?: true;
  readonly keys?: readonly string[];
}

const by = (patch: string, ...keys: string[]): ListSemantics => ({ patch, keys: keys.length === 0 ? [patch] : keys });
const set: ListSemantics = { patch: '', keys: [] };

export const listSemantics: Readonly<Record<string, Readonly<Record<string, ListSemantics>>>> = {
  V1ObjectMeta: { finalizers: set, ownerReferences: by('uid') },
  V1PodSpec: {
    containers: by('name'),
    initContainers: by('name'),
    ephemeralContainers: by('name'),
    volumes: { patch: 'name', retainKeys: true, keys: ['name'] },
    imagePullSecrets: by('name'),
    hostAliases: by('ip'),
    topologySpreadConstraints: by('topologyKey', 'topologyKey', 'whenUnsatisfiable'),
    schedulingGates: by('name'),
    resourceClaims: { patch: 'name', retainKeys: true, keys: ['name'] },
  },
  V1Container: containerLists(),
  V1EphemeralContainer: containerLists(),
  V1PodStatus: { conditions: by('type'), podIPs: by('ip'), hostIPs: by('ip') },
  V1ServiceSpec: { ports: by('port', 'port', 'protocol') },
  V1ServiceStatus: { conditions: by('type') },
  V1NamespaceStatus: { conditions: by('type') },
  V1NodeSpec: { podCIDRs: set },
  V1NodeStatus: { conditions: by('type'), addresses: by('type') },
  V1ServiceAccount: { secrets: by('name') },
  V1DeploymentStatus: { conditions: by('type') },
  V1DaemonSetStatus: { conditions: by('type') },
  V1ReplicaSetStatus: { conditions: by('type') },
  V1Endpoint: { addresses: { keys: [] } },
  V1CustomResourceDefinitionStatus: { conditions: { keys: ['type'] } },
};

function containerLists(): Readonly<Record<string, ListSemantics>> {
  return {
    env: by('name'),
    ports: by('containerPort', 'containerPort', 'protocol'),
    volumeMounts: by('mountPath'),
    volumeDevices: by('devicePath'),
  };
}

/** Objects and maps that have one owner as a whole and are replaced as a whole by server-side apply. */
export const atomicModels: ReadonlySet<string> = new Set([
  'V1LabelSelector',
  'V1ObjectReference',
  'V1LocalObjectReference',
  'V1SecretKeySelector',
  'V1ConfigMapKeySelector',
  'V1NodeSelector',
  'V1NodeSelectorTerm',
  'CoreV1EndpointPort',
  'V1TypedLocalObjectReference',
  'V1RoleRef',
]);

/** Maps of scalars that are replaced as a whole, by model and field. */
export const atomicMaps: Readonly<Record<string, readonly string[]>> = { V1ServiceSpec: ['selector'], V1PodSpec: ['nodeSelector'] };
