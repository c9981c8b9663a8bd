import { beforeEach, expect, it } from 'vitest';
import { openClusterObjects } from '../cluster-objects.ts';
import { builtIn } from '../controllers/access.ts';
import type { User } from '../http/api-request.ts';
import type { JsonRecord } from '../object/json.ts';
import type { Registry } from '../resource/registry.ts';
import { Store } from '../store/store.ts';
import type { ObjectWriter } from '../write/object-writer.ts';
import { type AccessAttributes, mayDo } from './authorization.ts';

const rbac = 'rbac.authorization.k8s.io';
const agent: User = { name: 'system:serviceaccount:kube-system:agent', groups: ['system:serviceaccounts', 'system:authenticated'] };
let store: Store;
let registry: Registry;
let writer: ObjectWriter;

beforeEach(() => {
  store = new Store();
  ({ registry, writer } = openClusterObjects({ store, serviceCidrs: [], nodePortRange: { first: 1, last: 0 }, now: () => 0 }));
});

function make(plural: string, body: JsonRecord, namespace?: string): void {
  writer.create(builtIn(registry, rbac, plural), namespace, body, {});
}

function can(verb: string, resource: string, more: Partial<AccessAttributes> = {}): boolean {
  return mayDo(store, agent, { verb, resource, group: '', name: '', namespace: '', path: '', ...more });
}

const subjects = [{ kind: 'ServiceAccount', name: 'agent', namespace: 'kube-system' }];

it('allows only discovery where no role is bound', () => {
  expect(can('list', 'pods')).toBe(false);
  expect(mayDo(store, agent, { verb: 'get', resource: '', group: '', name: '', namespace: '', path: '/apis' })).toBe(true);
  expect(mayDo(store, agent, { verb: 'get', resource: '', group: '', name: '', namespace: '', path: '/metrics' })).toBe(false);
});

it('allows administrators everything', () => {
  expect(
    mayDo(
      store,
      { name: 'admin', groups: ['system:masters'] },
      { verb: 'delete', resource: 'nodes', group: '', name: 'n', namespace: '', path: '' },
    ),
  ).toBe(true);
});

it('follows cluster roles everywhere, by verb, group, subresource and name', () => {
  const rules = [
    { apiGroups: [''], resources: ['pods', 'nodes/status'], verbs: ['get', 'list'] },
    { apiGroups: [''], resources: ['configmaps'], resourceNames: ['mine'], verbs: ['*'] },
  ];
  make('clusterroles', { metadata: { name: 'agent' }, rules });
  make('clusterrolebindings', { metadata: { name: 'agent' }, roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: 'agent' }, subjects });
  expect([can('list', 'pods'), can('list', 'pods', { namespace: 'default' }), can('get', 'nodes/status')]).toEqual([true, true, true]);
  expect([can('delete', 'pods'), can('list', 'pods', { group: 'apps' }), can('get', 'nodes')]).toEqual([false, false, false]);
  expect([can('patch', 'configmaps', { name: 'mine' }), can('patch', 'configmaps', { name: 'other' }), can('list', 'configmaps')]).toEqual([
    true,
    false,
    false,
  ]);
});

it('limits role bindings to their namespace', () => {
  make('roles', { metadata: { name: 'r' }, rules: [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }] }, 'default');
  make('rolebindings', { metadata: { name: 'r' }, roleRef: { apiGroup: rbac, kind: 'Role', name: 'r' }, subjects }, 'default');
  expect([can('get', 'pods', { namespace: 'default' }), can('get', 'pods', { namespace: 'kube-system' }), can('get', 'pods')]).toEqual([
    true,
    false,
    false,
  ]);
});
