import { expect, it } from 'vitest';
import { fromManifests } from './from-manifests.ts';

const template = {
  metadata: { labels: { app: 'api' } },
  spec: { containers: [{ name: 'c', ports: [{ name: 'http', containerPort: 80 }] }] },
};
const deployment = (name: string, replicas?: number) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name, namespace: 'shop' },
  spec: { ...(replicas === undefined ? {} : { replicas }), template },
});
const read = (...objects: unknown[]) => fromManifests(objects.map((object, index) => ({ place: `file ${index}`, object })));

it('makes at most two pods of a workload, with an address of each family', () => {
  const { pods, namespaces } = read(deployment('api', 5), deployment('one', 1), deployment('none', 0)).objects;
  expect(pods.map(({ metadata }) => metadata.name)).toEqual(['api-0', 'api-1', 'one-0']);
  expect(pods[0]?.status.podIPs).toEqual([{ ip: '198.18.0.1' }, { ip: '2001:2::1' }]);
  expect(new Set(pods.flatMap(({ status }) => (status.podIPs ?? []).map(({ ip }) => ip))).size).toBe(6);
  expect(namespaces).toEqual([{ metadata: { name: 'shop', labels: { 'kubernetes.io/metadata.name': 'shop' } } }]);
});

it('reads lists, CronJobs and pods, and counts kinds that policies do not depend on', () => {
  const cronJob = { apiVersion: 'batch/v1', kind: 'CronJob', metadata: { name: 'night' }, spec: { jobTemplate: { spec: { template } } } };
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'solo' }, spec: template.spec, status: { podIPs: [{ ip: '10.0.0.9' }] } };
  const list = { apiVersion: 'v1', kind: 'List', items: [cronJob, pod, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'x' } }] };
  const { objects, ignored } = read(list, null);
  expect(objects.pods.map(({ metadata, status }) => [metadata.namespace, metadata.name, status.podIPs?.[0]?.ip])).toEqual([
    ['default', 'night-0', '198.18.0.1'],
    ['default', 'solo', '10.0.0.9'],
  ]);
  expect([...ignored]).toEqual([['v1 ConfigMap', 1]]);
});

it.each([
  ['a document without a kind', [{ metadata: { name: 'x' } }], 'file 0: apiVersion'],
  ['a workload without a template', [{ ...deployment('api'), spec: {} }], 'file 0: Deployment api: spec.template'],
  ['an object that is there twice', [deployment('api'), deployment('api')], 'file 1: Deployment api: another document has the same object'],
  ['an item of a list', [{ apiVersion: 'v1', kind: 'List', items: [{}] }], 'file 0 items[0]: apiVersion'],
])('refuses %s, with its place and field', (_, objects, message) => {
  expect(() => read(...objects)).toThrow(message);
});
