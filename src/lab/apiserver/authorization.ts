import type { PolicyRule, RoleRef, Subject } from 'kubernetes-types/rbac/v1.d.ts';
import { ApiError, qualified } from './api-error.ts';
import { type ApiRequest, parseResourcePath, type User } from './api-request.ts';
import type { Core } from './core.ts';
import { arrayAt } from './json.ts';
import type { KubeObject } from './kube-object.ts';
import { isTrue } from './watch.ts';

/** What somebody wants to do: a verb on a resource, or on a path that is none. */
export interface Wish {
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
 * Whether RBAC lets a user do something. Administrators (`system:masters`) may do everything; discovery is open to whoever is known,
 * as the built-in roles of a cluster make it.
 */
export function mayDo(core: Core, user: User, wish: Wish): boolean {
  if (user.groups.includes('system:masters')) return true;
  if (wish.resource === '') return /^\/(api|apis|openapi|version|healthz|livez|readyz)(\/|$)/.test(wish.path) && wish.verb === 'get';
  const bound = (binding: KubeObject) =>
    (arrayAt(binding, 'subjects') as readonly Subject[]).some((subject) => isSubject(user, subject, binding.metadata.namespace));
  const clusterWide = core.store.list(`${rbac}/clusterrolebindings`).filter(({ object }) => bound(object));
  const local = core.store
    .list(`${rbac}/rolebindings`)
    .filter(({ object }) => object.metadata.namespace === wish.namespace && bound(object));
  return [...clusterWide, ...local].some(({ object }) => rulesOf(core, object).some((rule) => allows(rule, wish)));
}

function isSubject(user: User, { kind, name, namespace }: Subject, home: string | undefined): boolean {
  if (kind === 'User') return name === user.name;
  if (kind === 'Group') return user.groups.includes(name);
  return user.name === `system:serviceaccount:${namespace ?? home ?? ''}:${name}`;
}

function rulesOf(core: Core, binding: KubeObject): readonly PolicyRule[] {
  const { kind, name } = binding['roleRef'] as RoleRef;
  const role =
    kind === 'ClusterRole'
      ? core.store.get(`${rbac}/clusterroles`, name)
      : core.store.get(`${rbac}/roles`, `${binding.metadata.namespace ?? ''}/${name}`);
  return arrayAt(role?.object, 'rules') as readonly PolicyRule[];
}

function allows({ verbs, apiGroups = [], resources = [], resourceNames = [] }: PolicyRule, wish: Wish): boolean {
  const has = (list: readonly string[], wanted: string) => list.includes('*') || list.includes(wanted);
  const [, subresource] = wish.resource.split('/');
  return (
    has(verbs, wish.verb) &&
    has(apiGroups, wish.group) &&
    (has(resources, wish.resource) || (subresource !== undefined && resources.includes(`*/${subresource}`))) &&
    (resourceNames.length === 0 || resourceNames.includes(wish.name))
  );
}

/** What a request asks to do. */
export function wishOf({ method, path, query }: ApiRequest): Wish {
  const target = parseResourcePath(path);
  if (target === undefined)
    return { verb: method === 'HEAD' ? 'get' : method.toLowerCase(), group: '', resource: '', name: '', namespace: '', path };
  const { group, plural, subresource, name = '', namespace = '' } = target;
  const resource = subresource === undefined ? plural : `${plural}/${subresource}`;
  return { verb: verbOf(method, name, isTrue(query.get('watch'))), group, resource, name, namespace, path };
}

function verbOf(method: string, name: string, watch: boolean): string {
  if (method === 'GET' || method === 'HEAD') return watch ? 'watch' : name === '' ? 'list' : 'get';
  if (method === 'DELETE') return name === '' ? 'deletecollection' : 'delete';
  return { POST: 'create', PUT: 'update', PATCH: 'patch' }[method] ?? method.toLowerCase();
}

/** @throws ApiError 403, worded as the real server words it */
export function authorize(core: Core, request: ApiRequest): void {
  const wish = wishOf(request);
  if (mayDo(core, request.user, wish)) return;
  const { verb, group, resource, name, namespace } = wish;
  const user = JSON.stringify(request.user.name);
  if (resource === '') throw new ApiError(403, 'Forbidden', `forbidden: User ${user} cannot ${verb} path "${wish.path}"`);
  const what = `${qualified({ group, plural: resource, kind: '' })}${name === '' ? '' : ` ${JSON.stringify(name)}`}`;
  const where = namespace === '' ? 'at the cluster scope' : `in the namespace ${JSON.stringify(namespace)}`;
  const message = `${what} is forbidden: User ${user} cannot ${verb} resource ${JSON.stringify(resource)} in API group ${JSON.stringify(group)} ${where}`;
  throw new ApiError(403, 'Forbidden', message, { ...(name === '' ? {} : { name }), ...(group === '' ? {} : { group }), kind: resource });
}
