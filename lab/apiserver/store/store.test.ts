import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import type { ApiObject } from '../object/api-object.ts';
import { openJournal } from './object-journal.ts';
import { Store } from './store.ts';

const folders: string[] = [];

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'seine-store-'));
  folders.push(made);
  return made;
}

function object(name: string, data: string): ApiObject {
  const metadata = { name, namespace: 'default', uid: `uid-${name}`, resourceVersion: '', creationTimestamp: '2026-01-01T00:00:00Z' };
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { data } };
}

function texts(store: Store): string[] {
  return store
    .list('configmaps')
    .map(({ object: { metadata, ...rest } }) => `${metadata.name}=${JSON.stringify(rest['data'])}@${metadata.resourceVersion}`);
}

it('gives every write the next revision and lists in order of name', () => {
  const store = new Store();
  store.put('configmaps', object('b', '1'));
  store.put('configmaps', object('a', '1'));
  store.put('configmaps', object('b', '2'));
  expect(texts(store)).toEqual(['a={"data":"1"}@3', 'b={"data":"2"}@4']);
});

it('notifies listeners with the previous object', () => {
  const store = new Store();
  const seen: string[] = [];
  const stop = store.subscribe('configmaps', ({ type, entry, previous }) =>
    seen.push(`${type} ${entry.revision} after ${previous?.revision ?? 'none'}`),
  );
  store.put('configmaps', object('a', '1'));
  const { object: stored } = store.put('configmaps', object('a', '2'));
  store.remove('configmaps', stored);
  stop();
  store.put('configmaps', object('a', '3'));
  expect(seen).toEqual(['ADDED 2 after none', 'MODIFIED 3 after 2', 'DELETED 4 after 3']);
});

it('keeps objects and history over a restart', () => {
  const dir = folder();
  const first = new Store(openJournal(dir));
  first.put('configmaps', object('a', '1'));
  const { object: b } = first.put('configmaps', object('b', '1'));
  first.put('configmaps', object('a', '2'));
  first.remove('configmaps', b);
  const since = first.changesSince('configmaps', 2);
  first.close();

  const second = new Store(openJournal(dir));
  expect(texts(second)).toEqual(['a={"data":"2"}@4']);
  expect(second.revision).toBe(5);
  expect(second.changesSince('configmaps', 2)).toHaveLength(since.length);
  second.close();
});

it('drops a last line that a kill cut short, and continues', () => {
  const dir = folder();
  const first = new Store(openJournal(dir));
  first.put('configmaps', object('a', '1'));
  first.close();
  appendFileSync(join(dir, 'objects.log'), '["configmaps",3,false,{"apiVersion":"v1"');

  const second = new Store(openJournal(dir));
  second.put('configmaps', object('b', '1'));
  second.close();
  expect(texts(new Store(openJournal(dir)))).toEqual(['a={"data":"1"}@2', 'b={"data":"1"}@3']);
});

it('refuses a journal damaged in the middle', () => {
  const dir = folder();
  const first = new Store(openJournal(dir));
  first.put('configmaps', object('a', '1'));
  first.close();
  appendFileSync(join(dir, 'objects.log'), 'garbage\n["configmaps",3,true,{}]\n');
  expect(() => openJournal(dir)).toThrow('objects.log line 3 is damaged');
});

it('keeps a bounded history and reports compacted revisions', () => {
  const store = new Store();
  for (let count = 0; count < 40_000; count++) store.put('configmaps', object('a', String(count)));
  expect(store.changesSince('configmaps', 2)).toBe('gone');
  expect(store.changesSince('configmaps', store.revision - 10)).toHaveLength(10);
});

it('has only the live objects after a rewrite of the journal, and no changes before it', () => {
  const dir = folder();
  const { journal } = openJournal(dir);
  journal.rewrite(50, [
    {
      storage: 'configmaps',
      revision: 40,
      object: { ...object('a', '1'), metadata: { ...object('a', '1').metadata, resourceVersion: '40' } },
      deleted: false,
    },
  ]);
  journal.close();
  const store = new Store(openJournal(dir));
  expect(store.revision).toBe(50);
  expect(texts(store)).toEqual(['a={"data":"1"}@40']);
  expect(store.changesSince('configmaps', 49)).toBe('gone');
  expect(store.changesSince('configmaps', 50)).toEqual([]);
});
