import { expect, it } from 'vitest';
import { parseResourcePath } from './resource-path.ts';

const nothing = { group: '', version: 'v1', namespace: undefined, name: undefined, subresource: undefined };
const namespaced = { ...nothing, namespace: 'a' };

it.each([
  ['/api/v1/pods', { ...nothing, plural: 'pods' }],
  ['/api/v1/pods/', { ...nothing, plural: 'pods' }],
  ['/api/v1/nodes/n/status', { ...nothing, plural: 'nodes', name: 'n', subresource: 'status' }],
  ['/api/v1/namespaces', { ...nothing, plural: 'namespaces' }],
  ['/api/v1/namespaces/a', { ...nothing, plural: 'namespaces', name: 'a' }],
  ['/api/v1/namespaces/a/finalize', { ...nothing, plural: 'namespaces', name: 'a', subresource: 'finalize' }],
  ['/api/v1/namespaces/a/status/b', { ...namespaced, plural: 'status', name: 'b' }],
  ['/api/v1/namespaces/a/pods/p/binding', { ...namespaced, plural: 'pods', name: 'p', subresource: 'binding' }],
  ['/apis/apps/v1/namespaces/a/deployments', { ...namespaced, group: 'apps', plural: 'deployments' }],
  [`/api/v1/pods/${'x'.repeat(1000)}`, { ...nothing, plural: 'pods', name: 'x'.repeat(1000) }],
  ['/api/v1/pods/a%2Fb', { ...nothing, plural: 'pods', name: 'a/b' }],
])('reads %s', (path, wanted) => {
  expect(parseResourcePath(path)).toEqual(wanted);
});

it.each(['/', '/api', '/api/v1', '/apis/apps/v1', '/version', '/api/v1//pods', '/api/v1/pods/%zz', '/api/v1/pods/p/binding/more'])(
  'finds no resource in %s',
  (path) => {
    expect(parseResourcePath(path)).toBeUndefined();
  },
);
