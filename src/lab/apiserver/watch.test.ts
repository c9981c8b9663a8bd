import { beforeEach, expect, it } from 'vitest';
import { builtIn } from './controllers/access.ts';
import type { Core } from './core.ts';
import { deleteObject } from './deletion.ts';
import type { JsonObject } from './json.ts';
import { newCore } from './new-core.ts';
import { mergePatch } from './patch.ts';
import { selectionOf } from './selection.ts';
import { Store } from './store.ts';
import { serveWatch, watchQuery } from './watch.ts';
import { createObject, updateObject } from './write.ts';

let core: Core;

beforeEach(() => {
  core = newCore({ store: new Store(), serviceCidrs: [], nodePortRange: { first: 1, last: 0 }, now: () => 0 });
});

function set(name: string, labels: Record<string, string>, action: 'create' | 'update' | 'delete'): void {
  const resource = builtIn(core, '', 'configmaps');
  if (action === 'create') createObject(core, resource, 'default', { metadata: { name, labels } }, {});
  else if (action === 'delete') deleteObject(core, resource, 'default', name, {});
  else updateObject(core, resource, `default/${name}`, (old) => mergePatch(old, { metadata: { labels } }) as JsonObject, {});
}

/** Starts a watch; `next(n)` waits until n events have come, as `TYPE name@revision`. */
function watch(parameters: Record<string, string>): { next(count: number): Promise<string[]>; stop(): Promise<void>; done: Promise<void> } {
  const query = new URLSearchParams(parameters);
  const resource = builtIn(core, '', 'configmaps');
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
  const done = serveWatch(core, request, write, stopping.signal);
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

it('starts with what is there, then tells the changes', async () => {
  set('a', {}, 'create');
  const { next, stop } = watch({});
  expect(await next(1)).toEqual(['ADDED a']);
  set('b', {}, 'create');
  set('a', { x: '1' }, 'update');
  set('b', {}, 'delete');
  expect(await next(3)).toEqual(['ADDED b', 'MODIFIED a', 'DELETED b']);
  await stop();
});

it('goes on from a revision', async () => {
  set('a', {}, 'create');
  const { revision } = core.store;
  set('b', {}, 'create');
  const { next, stop } = watch({ resourceVersion: String(revision) });
  expect(await next(1)).toEqual(['ADDED b']);
  await stop();
});

it('adds and deletes for the client what enters and leaves its selection', async () => {
  set('a', { app: 'x' }, 'create');
  set('b', {}, 'create');
  const { next, stop } = watch({ labelSelector: 'app=x', resourceVersion: String(core.store.revision) });
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

it('says that a revision is gone, and ends', async () => {
  for (let count = 0; count < 40_000; count++)
    core.store.put('configmaps', { ...core.store.list('namespaces')[0]?.object, metadata: { name: 'a', namespace: 'default' } } as never);
  const { next, done } = watch({ resourceVersion: '3' });
  expect(await next(1)).toEqual([expect.stringContaining('ERROR too old resource version: 3')]);
  await done;
});

it('ends when its time is over', async () => {
  await watch({ timeoutSeconds: '0.01', resourceVersion: String(core.store.revision) }).done;
});

it('refuses parameters that do not fit together', () => {
  expect(() => watchQuery(new URLSearchParams({ sendInitialEvents: 'true' }))).toThrow(
    'sendInitialEvents requires setting resourceVersionMatch to NotOlderThan',
  );
  expect(() => watchQuery(new URLSearchParams({ resourceVersion: 'x' }))).toThrow('resourceVersion');
});
