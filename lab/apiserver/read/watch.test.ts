import { beforeEach, expect, it } from 'vitest';
import { openClusterObjects } from '../cluster-objects.ts';
import { builtIn } from '../controllers/access.ts';
import type { JsonRecord } from '../object/json.ts';
import type { Registry } from '../resource/registry.ts';
import { Store } from '../store/store.ts';
import type { ObjectWriter } from '../write/object-writer.ts';
import { mergePatch } from '../write/patch/patch.ts';
import { WatchCache, type WatchIncident } from './read-behaviour.ts';
import { selectionOf } from './selection.ts';
import { serveWatch, type WatchPorts, watchQuery } from './watch.ts';

let store: Store;
let registry: Registry;
let writer: ObjectWriter;

beforeEach(() => {
  store = new Store();
  ({ registry, writer } = openClusterObjects({ store, serviceCidrs: [], nodePortRange: { first: 1, last: 0 }, now: () => 0 }));
});

function set(name: string, labels: Record<string, string>, action: 'create' | 'update' | 'delete'): void {
  const resource = builtIn(registry, '', 'configmaps');
  if (action === 'create') writer.create(resource, 'default', { metadata: { name, labels } }, {});
  else if (action === 'delete') writer.delete(resource, 'default', name, {});
  else writer.update(resource, `default/${name}`, (old) => mergePatch(old, { metadata: { labels } }) as JsonRecord, {});
}

/** Starts a watch; `next(n)` waits until n events have come, as `TYPE name@revision`. */
function watch(
  parameters: Record<string, string>,
  ports: Partial<WatchPorts> = {},
): { next(count: number): Promise<string[]>; stop(): Promise<void>; done: Promise<void> } {
  const query = new URLSearchParams(parameters);
  const resource = builtIn(registry, '', 'configmaps');
  const stopping = new AbortController();
  const lines: string[] = [];
  let arrived = () => {};
  const write = async (text: string) => {
    for (const line of text.trim().split('\n')) {
      const { type, object } = JSON.parse(line) as {
        type: string;
        object: { message?: string; metadata: { name?: string; resourceVersion: string; annotations?: object } };
      };
      lines.push(`${type} ${object.metadata.name ?? object.message ?? JSON.stringify(object.metadata.annotations ?? {})}`);
    }
    arrived();
  };
  const request = {
    resource,
    selection: selectionOf(resource, 'default', query),
    representation: { as: 'object' } as const,
    query: watchQuery(query),
  };
  const done = serveWatch({ store, forgotten: new Set(), now: () => 0, ...ports }, request, write, stopping.signal);
  return {
    done,
    next: async (count) => {
      while (lines.length < count) await new Promise<void>((resolve) => (arrived = resolve));
      return lines.splice(0, count);
    },
    stop: async () => {
      stopping.abort();
      await done;
    },
  };
}

it('starts with present objects, then sends changes', async () => {
  set('a', {}, 'create');
  const { next, stop } = watch({});
  expect(await next(1)).toEqual(['ADDED a']);
  set('b', {}, 'create');
  set('a', { x: '1' }, 'update');
  set('b', {}, 'delete');
  expect(await next(3)).toEqual(['ADDED b', 'MODIFIED a', 'DELETED b']);
  await stop();
});

it('continues from a revision', async () => {
  set('a', {}, 'create');
  const { revision } = store;
  set('b', {}, 'create');
  const { next, stop } = watch({ resourceVersion: String(revision) });
  expect(await next(1)).toEqual(['ADDED b']);
  await stop();
});

it('sends ADDED and DELETED for objects that enter and leave the selection', async () => {
  set('a', { app: 'x' }, 'create');
  set('b', {}, 'create');
  const { next, stop } = watch({ labelSelector: 'app=x', resourceVersion: String(store.revision) });
  set('b', { app: 'x' }, 'update');
  set('a', { app: 'y' }, 'update');
  set('a', { app: 'z' }, 'update');
  set('b', {}, 'delete');
  expect(await next(3)).toEqual(['ADDED b', 'DELETED a', 'DELETED b']);
  await stop();
});

it('ends the initial events with a marked bookmark', async () => {
  set('a', {}, 'create');
  const { next, stop } = watch({ sendInitialEvents: 'true', allowWatchBookmarks: 'true', resourceVersionMatch: 'NotOlderThan' });
  expect(await next(2)).toEqual(['ADDED a', 'BOOKMARK {"k8s.io/initial-events-end":"true"}']);
  await stop();
});

it('reports a compacted revision, and ends', async () => {
  for (let count = 0; count < 40_000; count++)
    store.put('configmaps', { ...store.list('namespaces')[0]?.object, metadata: { name: 'a', namespace: 'default' } } as never);
  const { next, done } = watch({ resourceVersion: '3' });
  expect(await next(1)).toEqual([expect.stringContaining('ERROR too old resource version: 3')]);
  await done;
});

it('ends at its timeout', async () => {
  await watch({ timeoutSeconds: '0.01', resourceVersion: String(store.revision) }).done;
});

it('rejects parameters that contradict each other', () => {
  expect(() => watchQuery(new URLSearchParams({ sendInitialEvents: 'true' }))).toThrow(
    'sendInitialEvents requires setting resourceVersionMatch to NotOlderThan',
  );
  expect(() => watchQuery(new URLSearchParams({ resourceVersion: 'x' }))).toThrow('resourceVersion');
});

const listByWatch = { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan', allowWatchBookmarks: 'true' };
const end = 'BOOKMARK {"k8s.io/initial-events-end":"true"}';

it('sends later changes live, among the initial events, when its cache lags', async () => {
  const cache = new WatchCache(store);
  for (const name of ['a', 'b', 'c']) set(name, {}, 'create');
  cache.hold('configmaps');
  set('a', { x: '1' }, 'update');
  set('b', {}, 'delete');
  set('d', {}, 'create');
  const { next, stop } = watch(listByWatch, { store: cache.viewOf('configmaps'), newest: store.revision });
  expect(await next(3)).toEqual(['ADDED a', 'ADDED b', 'ADDED c']);
  cache.advance('configmaps', 2);
  expect(await next(2)).toEqual(['MODIFIED a', 'DELETED b']);
  cache.release('configmaps');
  set('e', {}, 'create');
  expect(await next(3)).toEqual(['ADDED d', 'ADDED e', end]);
  await stop();
});

it('sends nothing again to a client that is ahead of its cache', async () => {
  const cache = new WatchCache(store);
  set('a', {}, 'create');
  cache.hold('configmaps');
  set('b', {}, 'create');
  const behaviour = { watch: (): WatchIncident | undefined => incidents.shift() };
  const incidents: WatchIncident[] = ['bookmark'];
  const { next, stop } = watch({ resourceVersion: String(store.revision) }, { store: cache.viewOf('configmaps'), behaviour });
  expect(await next(1)).toEqual(['BOOKMARK {}']);
  cache.release('configmaps');
  set('c', {}, 'create');
  expect(await next(1)).toEqual(['ADDED c']);
  await stop();
});

it.each([
  ['bookmark', ['ADDED a', 'BOOKMARK {}', 'ADDED b', end]],
  ['expired', ['ADDED a', expect.stringMatching(/^ERROR too old resource version/)]],
  ['error', ['ADDED a', 'ERROR the watch has failed']],
  ['end', ['ADDED a']],
] as const)('may have %s in the middle', async (incident, expected) => {
  for (const name of ['a', 'b']) set(name, {}, 'create');
  const incidents = [undefined, incident];
  const { next, stop } = watch(listByWatch, { behaviour: { watch: () => incidents.shift() } });
  expect(await next(expected.length)).toEqual(expected);
  await stop();
});
