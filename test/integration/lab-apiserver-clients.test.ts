import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CoreV1Api, KubeConfig, makeInformer, type V1ConfigMap } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { LoneApiServer } from '../support/lone-api-server.ts';

const execute = promisify(execFile);
/** More than twice the history that the server keeps for watches. */
const churn = 40_001;
const namespace = 'informed';

const eventually = (check: () => unknown) => vi.waitFor(check, { timeout: 10_000 });

let server: LoneApiServer;
/** A version of config maps that the server has compacted. */
let forgotten: string;

beforeAll(async () => {
  server = await LoneApiServer.start();
  forgotten = String(server.api.store.revision);
  forget();
});

afterAll(() => server.remove());

/** Makes this number of changes of config maps, so that no watch can continue from before them. */
function forget(): void {
  const metadata = { name: 'churn', namespace: 'default', uid: 'u', resourceVersion: '', creationTimestamp: '2026-01-01T00:00:00Z' };
  for (let count = 0; count < churn; count++)
    server.api.store.put('configmaps', { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { count: String(count) } });
}

it('python3-kubernetes finds the same as on any other server', async () => {
  const script = join(import.meta.dirname, '..', 'fixtures', 'kubernetes-client.py');
  // Debian's own: its packages have python3-kubernetes.
  const { stdout } = await execute('/usr/bin/python3', [script, server.kubeconfig, forgotten], { timeout: 50_000 });
  expect(JSON.parse(stdout)).toEqual({
    created: ['a', 'python', true, { k: '1' }],
    'created twice': [409, 'AlreadyExists', 'Status'],
    replaced: { k: '2' },
    'replaced what has changed since': [409, 'Conflict', 'Status'],
    'patched by merge': { l: '3' },
    'patched by operations': { l: '3', m: '4' },
    'a test of a patch that fails': [422, 'Invalid', 'Status'],
    'patched against another version': [409, 'Conflict', 'Status'],
    'not there': [404, 'NotFound', 'Status'],
    'no name': [422, 'Invalid', 'Status'],
    'a dry run': 'dry',
    'nothing of the dry run': [404, 'NotFound', 'Status'],
    pages: [['a', 'page-0', 'page-1'], null, ['page-2', 'page-3', 'page-4'], null],
    'the second page as it was': [{}, {}, {}],
    'the same version on both pages': true,
    'a token that is none': [400, 'BadRequest'],
    'by label': ['page-0', 'page-1', 'page-2', 'page-3'],
    'by field': ['a'],
    'pods of a node': ['p1'],
    'pods of no node': [],
    'by a field that none is': [400, 'BadRequest'],
    status: ['Running'],
    'running pods': ['p1'],
    watched: [
      ['MODIFIED', 'a'],
      ['ADDED', 'late'],
      ['MODIFIED', 'late'],
      ['DELETED', 'late'],
    ],
    'watched by label, which comes and goes': [
      ['ADDED', 'late'],
      ['DELETED', 'late'],
    ],
    'watched from nothing': ['page-0', 'page-1', 'page-2', 'page-3'],
    'watched from what is forgotten': [410],
    'listed at exactly what is forgotten': [410, 'Expired'],
    'deleted with another uid': [409, 'Conflict'],
    'held by a finalizer': true,
    'let go': [404, 'NotFound'],
    'after a collection was deleted': [],
    'applied on the server': [80, 'python'],
    slices: true,
    version: '1',
    groups: true,
    // A real server forwards to the kubelet.
    'log of a pod': [404, 'NotFound'],
  });
});

describe('an informer of client-node', () => {
  const config = (): KubeConfig => {
    const loaded = new KubeConfig();
    loaded.loadFromString(server.api.kubeconfig(server.url));
    return loaded;
  };

  /** An informer with a record of its events. */
  function informer(labelSelector?: string) {
    const core = config().makeApiClient(CoreV1Api);
    const list = () => core.listNamespacedConfigMap({ namespace, ...(labelSelector === undefined ? {} : { labelSelector }) });
    const informed = makeInformer<V1ConfigMap>(config(), `/api/v1/namespaces/${namespace}/configmaps`, list, labelSelector);
    const said: string[] = [];
    for (const verb of ['add', 'update', 'delete'] as const)
      informed.on(verb, ({ metadata, data }) => said.push(`${verb} ${metadata?.name} ${data?.['n'] ?? ''}`.trim()));
    // As its documentation requires: after an error it is restarted.
    informed.on('error', () => void setTimeout(() => void informed.start(), 50));
    const held = () => informed.list().map(({ metadata, data }) => `${metadata?.name}=${data?.['n'] ?? ''}`);
    return { informed, said, held };
  }

  it('stays synced through changes, a restart of the server, and the loss of its history', async () => {
    const core = config().makeApiClient(CoreV1Api);
    await core.createNamespace({ body: { metadata: { name: namespace } } });
    const put = (name: string, n: string, labels = {}) =>
      core.createNamespacedConfigMap({ namespace, body: { metadata: { name, labels }, data: { n } } });
    const set = async (name: string, n: string) => {
      const current = await core.readNamespacedConfigMap({ namespace, name });
      await core.replaceNamespacedConfigMap({ namespace, name, body: { ...current, data: { n } } });
    };
    await put('one', '1', { tier: 'front' });
    const [all, front] = [informer(), informer('tier=front')];
    await all.informed.start();
    await front.informed.start();
    await put('two', '1');
    await set('one', '2');
    await eventually(() => expect(all.held().toSorted()).toEqual(expect.arrayContaining(['one=2', 'two=1'])));
    expect(all.said.filter((line) => !line.includes('kube-root'))).toEqual(['add one 1', 'add two 1', 'update one 2']);
    await eventually(() => expect(front.said).toEqual(['add one 1', 'update one 2']));

    await server.restart();
    await core.deleteNamespacedConfigMap({ namespace, name: 'two' });
    await put('three', '1');
    await eventually(() =>
      expect(
        all
          .held()
          .filter((line) => !line.startsWith('kube-root'))
          .toSorted(),
      ).toEqual(['one=2', 'three=1']),
    );

    forget();
    await set('one', '3');
    await core.deleteNamespacedConfigMap({ namespace, name: 'three' });
    await eventually(() => expect(all.held().filter((line) => !line.startsWith('kube-root'))).toEqual(['one=3']));
    await eventually(() => expect(front.held()).toEqual(['one=3']));
    await Promise.all([all.informed.stop(), front.informed.stop()]);
  });
});
