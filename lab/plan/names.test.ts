import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { labIdOf, podNetns, realLabDir } from './names.ts';

it('identifies one folder as one lab, by any path, also before it exists', () => {
  const dir = mkdtempSync(join(tmpdir(), 'seine-names-'));
  try {
    mkdirSync(join(dir, 'real'));
    symlinkSync(join(dir, 'real'), join(dir, 'link'));
    const before = labIdOf(realLabDir(join(dir, 'link', 'lab')));
    mkdirSync(join(dir, 'real', 'lab'));
    expect(labIdOf(realLabDir(join(dir, 'real', '.', 'lab')))).toBe(before);
    expect(before).toMatch(/^[0-9a-f]{6}$/);
  } finally {
    rmSync(dir, { recursive: true });
  }
});

it('names a pod by lab, node, namespace and name', () => {
  expect(podNetns('12ab34', { node: 'node-1', namespace: 'default', name: 'web-0' })).toBe('seine-12ab34-node-1-default-web-0');
});

it('distinguishes two pods whose parts join to one text', () => {
  const one = { node: 'node-1', namespace: 'a-b', name: 'c' };
  const other = { node: 'node-1', namespace: 'a', name: 'b-c' };
  expect(podNetns('12ab34', one)).toBe(podNetns('12ab34', other));
  expect(podNetns('12ab34', one, 'distinct')).not.toBe(podNetns('12ab34', other, 'distinct'));
});

it('shortens names that exceed the limit of file names', () => {
  const name = podNetns('12ab34', { node: 'node-1', namespace: 'n'.repeat(63), name: 'p'.repeat(253) });
  expect(name).toHaveLength(250);
});
