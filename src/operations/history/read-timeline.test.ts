import { expect, it } from 'vitest';
import { isAbout } from './read-timeline.ts';

const node = 'node-1';

it('takes a foreign change for an event of the node, and of the objects whose entries changed', () => {
  const drift = { kind: 'drift.found', subjects: ['pod/shop/web-0'] };
  expect(['node/node-1', 'pod/shop/web-0', 'pod/shop/db-0', 'node/node-2'].map((subject) => isAbout(drift, { subject, node }))).toEqual([
    ...[true, true, false, false],
  ]);
});

it('takes an event of no object for one of the node, and leaves those of objects to these', () => {
  const subject = 'node/node-1';
  expect(isAbout({ kind: 'problem.began', subjects: [] }, { subject, node })).toBe(true);
  expect(isAbout({ kind: 'cni.add', subjects: ['pod/shop/web-0'] }, { subject, node })).toBe(false);
});
