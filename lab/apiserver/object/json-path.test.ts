import { expect, it } from 'vitest';
import { readJsonPath } from './json-path.ts';

const object = {
  metadata: { annotations: { 'example.com/a': 'x' } },
  spec: {
    list: [
      { name: 'a', n: 1 },
      { name: 'b', n: 2 },
    ],
  },
  status: {
    conditions: [
      { type: 'Ready', status: 'True' },
      { type: 'Other', status: 'False' },
    ],
  },
};

for (const [path, value] of [
  ['.spec.list[1].name', 'b'],
  ['.spec.list[-1].n', 2],
  ['.spec.list[*].name', 'a'],
  ['.status.conditions[?(@.type=="Ready")].status', 'True'],
  ['.spec.list[?(@.n==2)].name', 'b'],
  [".metadata.annotations['example.com/a']", 'x'],
  ['.metadata.annotations.example\\.com/a', 'x'],
  ['{.spec.list[0].n}', 1],
  ['.spec.none.name', undefined],
  ['..name', undefined],
] as const) {
  it(`${path} is ${JSON.stringify(value)}`, () => {
    expect(readJsonPath(object, path)).toBe(value);
  });
}
