import type { Api, ApiObject } from '../api.ts';
import type { Lab } from '../lab.ts';

/** Attackers, each with its own token and with the rights of such a user in a cluster. */
export const actorNames = ['tenant', 'pod author', 'node'] as const;
export type ActorName = (typeof actorNames)[number];

/** Namespace of the tenant and the pod author. */
export const hostileNamespace = 'constructor';
/** The Node whose credentials the third has. It has no host. */
export const rogueNode = 'rogue';
const accountNamespace = 'actors';

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

const write = ['create', 'get', 'list', 'update', 'patch', 'delete'];

/**
 * Rights of the actors. Tenant: those of the built-in role `edit` for networks, and EndpointSlices, which clusters before 1.22 granted in
 * it and others grant again. Pod author: pods alone. Node: those that the node authorizer and NodeRestriction leave for its own Node, and
 * the status of pods that are bound to it, in any namespace: the draws use no others.
 */
const rules: Readonly<Record<ActorName, readonly Rule[]>> = {
  tenant: [
    { apiGroups: [''], resources: ['services', 'pods'], verbs: write },
    { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: write },
    { apiGroups: ['networking.k8s.io'], resources: ['networkpolicies'], verbs: write },
  ],
  'pod author': [{ apiGroups: [''], resources: ['pods'], verbs: write }],
  node: [
    { apiGroups: [''], resources: ['nodes'], verbs: ['get', 'update', 'patch'], resourceNames: [rogueNode] },
    { apiGroups: [''], resources: ['nodes/status'], verbs: ['update', 'patch'], resourceNames: [rogueNode] },
    { apiGroups: [''], resources: ['pods/status'], verbs: ['update', 'patch'] },
  ],
};

export type Actors = Readonly<Record<ActorName, Api>>;

/** Creates the accounts of all actors, and a client for each. */
export async function createActors(lab: Lab): Promise<Actors> {
  await lab.createNamespace(accountNamespace);
  await lab.createNamespace(hostileNamespace);
  const clients: Partial<Record<ActorName, Api>> = {};
  for (const name of actorNames) clients[name] = await createActor(lab, name);
  return clients as Actors; // each name is set above
}

async function createActor({ api }: Lab, actor: ActorName): Promise<Api> {
  const name = actor.replace(' ', '-');
  const accounts = `/api/v1/namespaces/${accountNamespace}/serviceaccounts`;
  await api.create(accounts, { metadata: { name, namespace: accountNamespace } });
  const ofCluster = actor === 'node';
  const [role, binding] = ofCluster ? ['ClusterRole', 'ClusterRoleBinding'] : ['Role', 'RoleBinding'];
  const where = ofCluster ? {} : { namespace: hostileNamespace };
  const rbac = `/apis/rbac.authorization.k8s.io/v1${ofCluster ? '' : `/namespaces/${hostileNamespace}`}`;
  const metadata = { name: `hostile-${name}`, ...where };
  await api.create(`${rbac}/${role?.toLowerCase()}s`, { metadata, rules: rules[actor] });
  await api.create(`${rbac}/${binding?.toLowerCase()}s`, {
    metadata,
    subjects: [{ kind: 'ServiceAccount', name, namespace: accountNamespace }],
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: role, name: metadata.name },
  });
  const asked = { metadata: { name }, spec: { expirationSeconds: 86_400 } };
  const { status } = await api.create(`${accounts}/${name}/token`, asked as ApiObject);
  return api.as(String(status?.['token']));
}
