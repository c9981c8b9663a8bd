import { expect, it } from 'vitest';
import { isReplaced, lostNodes } from './mesh-report.ts';

const report = (node: string, about: string) => ({ node, kind: 'mesh.peer', about });

it('finds a node that half of its observers lose, and replaces their reports and its own', () => {
  const observers = Array.from({ length: 9 }, (_, at) => report(`node-${at}`, 'bad'));
  const problems = [...observers, report('bad', 'node-1'), report('node-1', 'other'), report('node-2', 'more')];
  const lost = lostNodes(problems, 100);
  expect(lost).toEqual([{ name: 'bad', observers: 9, of: 16 }]);
  expect(problems.filter((each) => !isReplaced(each, lost))).toEqual([report('node-1', 'other'), report('node-2', 'more')]);
  expect(lostNodes(observers.slice(0, 7), 100)).toEqual([]);
});

it('knows that a small cluster has fewer observers, and that two nodes blame each other', () => {
  expect(lostNodes([report('a', 'c'), report('b', 'c')], 4)).toEqual([{ name: 'c', observers: 2, of: 3 }]);
  expect(lostNodes([report('a', 'b'), report('b', 'a')], 2)).toEqual([]);
});
