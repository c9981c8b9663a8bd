import { expect, it } from 'vitest';
import type { Verification } from './verification.ts';
import { verificationLines } from './verify-lines.ts';

const equal: Verification = {
  node: 'node-1',
  mode: 'enforce',
  pods: 2,
  otherwise: [],
  leftOut: [],
  leftOutRules: [],
  policies: 1,
  flows: 10,
  cells: 4,
  allowed: 2,
  denied: 2,
  closed: 0,
  addresses: 2,
  groups: 1,
  proofSeconds: 0.01,
  passing: 0,
  differences: [],
  differencesTotal: 0,
  problems: [],
  fullAssociationShares: [],
};

it('calls a bridge equal to its policies only while no sender has used up its share of SCTP associations', () => {
  expect(verificationLines(equal).at(-1)).toBe('equal: the bridge implements the policies');
  const full = Array.from({ length: 12 }, (_, index) => `10.10.0.${index}`);
  const lines = verificationLines({ ...equal, fullAssociationShares: full });
  expect(lines.at(-1)).toBe('12 different');
  expect(lines.at(-2)).toContain('10.10.0.9 and 2 more: answers to further associations are denied where policies isolate an end');
});
