import type { PolicyRule, RoleRef, Subject } from 'kubernetes-types/rbac/v1.d.ts';
import { ApiError, qualified } from '../errors/api-error.ts';
import { type ApiRequest, isTrue, type User } from '../http/api-request.ts';
import { parseResourcePath } from '../http/resource-path.ts';
import type { ApiObject } from '../object/api-object.ts';
import { arrayAt } from '../object/json.ts';
import type { Store } from '../store/store.ts';

/** Access to roles and their bindings. */
export type RoleStore = Pick<Store, 'get' | 'list'>;

/** Attempted access of a user: a verb on a resource or on a non-resource path. */
export interface AccessAttributes {
  readonly verb: string;
  readonly group: string;
  /** `pods`, or `pods/status`; empty for a path. */
  readonly resource: string;
  readonly name: string;
  readonly namespace: string;
  readonly path: string;
}

const rbac = 'rbac.authorization.k8s.io';

/**
 * Reports whether RBAC allows a request. Administrators (`system:masters`) may do everything; discovery is open to every authenticated
 * user, as with the built-in roles of a cluster.
 */
export function mayDo(roles: RoleStore, user: User, access: AccessAttributes): boolean {
  if (user.groups.includes('system:masters')) return true;
  const discovery = /^\/(api|apis|openapi|version|healthz|livez|readyz)(\/|$)/;
  if (access.resource === '' && discovery.test(access.path) && access.verb === 'get') return true;
  const bound = (binding: ApiObject) =>
    (arrayAt(binding, 'subjects') as readonly Subject[]).some((subject) => isSubject(user, subject, binding.metadata.namespace));
  const clusterWide = roles.list(`${rbac}/clusterrolebindings`).filter(({ object }) => bound(object));
  const local = roles.list(`${rbac}/rolebindings`).filter(({ object }) => object.metadata.namespace === access.namespace && bound(object));
  return [...clusterWide, ...local].some(({ object }) => rulesOf(roles, object).some((rule) => allows(rule, access)));
}

function isSubject(user: User, { kind, name, namespace }: Subject, home: string | undefined): boolean {
  if (kind === 'User') return name === user.name;
  if (kind === 'Group') return user.groups.includes(name);
  return user.name === `system:serviceaccount:${namespace ?? home ?? ''}:${name}`;
}

function rulesOf(roles: RoleStore, binding: ApiObject): readonly PolicyRule[] {
  const { kind, name } = binding['roleRef'] as RoleRef;
  const role =
    kind === 'ClusterRole'
      ? roles.get(`${rbac}/clusterroles`, name)
      : roles.get(`${rbac}/roles`, `${binding.metadata.namespace ?? ''}/${name}`);
  return arrayAt(role?.object, 'rules') as readonly PolicyRule[];
}

function allows({ verbs, nonResourceURLs = [], ...rest }: PolicyRule, access: AccessAttributes): boolean {
  const { apiGroups = [], resources = [], resourceNames = [] } = rest;
  if (access.resource === '') return nonResourceURLs.includes(access.path) && verbs.includes(access.verb);
  const has = (list: readonly string[], wanted: string) => list.includes('*') || list.includes(wanted);
  const [, subresource] = access.resource.split('/');
  return (
    has(verbs, access.verb) &&
    has(apiGroups, access.group) &&
    (has(resources, access.resource) || (subresource !== undefined && resources.includes(`*/${subresource}`))) &&
    (resourceNames.length === 0 || resourceNames.includes(access.name))
  );
}

/** Attributes of a request for authorization. */
export function accessOf({ method, path, query }: ApiRequest): AccessAttributes {
  const target = parseResourcePath(path);
  if (target === undefined)
    return { verb: method === 'HEAD' ? 'get' : method.toLowerCase(), group: '', resource: '', name: '', namespace: '', path };
  const { group, plural, subresource, name = '', namespace = '' } = target;
  const resource = subresource === undefined ? plural : `${plural}/${subresource}`;
  // A list of one object counts as a request for it, as in Kubernetes.
  const [, selected = ''] = /^metadata\.name=([^,!=]+)$/.exec(query.get('fieldSelector') ?? '') ?? [];
  return { verb: verbOf(method, name, isTrue(query.get('watch'))), group, resource, name: name || selected, namespace, path };
}

function verbOf(method: string, name: string, watch: boolean): string {
  if (method === 'GET' || method === 'HEAD') return watch ? 'watch' : name === '' ? 'list' : 'get';
  if (method === 'DELETE') return name === '' ? 'deletecollection' : 'delete';
  return { POST: 'create', PUT: 'update', PATCH: 'patch' }[method] ?? method.toLowerCase();
}

/** @throws ApiError 403, worded as the real server words it */
export function authorize(roles: RoleStore, request: ApiRequest): void {
  const access = accessOf(request);
  if (mayDo(roles, request.user, access)) return;
  const { verb, group, resource, name, namespace } = access;
  const user = JSON.stringify(request.user.name);
  if (resource === '') throw new ApiError(403, 'Forbidden', `forbidden: User ${user} cannot ${verb} path "${access.path}"`);
  const what = `${qualified({ group, plural: resource, kind: '' })}${name === '' ? '' : ` ${JSON.stringify(name)}`}`;
  const where = namespace === '' ? 'at the cluster scope' : `in the namespace ${JSON.stringify(namespace)}`;
  const message = `${what} is forbidden: User ${user} cannot ${verb} resource ${JSON.stringify(resource)} in API group ${JSON.stringify(group)} ${where}`;
  throw new ApiError(403, 'Forbidden', message, { ...(name === '' ? {} : { name }), ...(group === '' ? {} : { group }), kind: resource });
}
