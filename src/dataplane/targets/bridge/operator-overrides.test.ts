import { expect, it } from 'vitest';
import { encodeInstructions } from '../../../openflow/flows/instructions.ts';
import { encodeMatch } from '../../../openflow/match/match.ts';
import { operatorOverrideCookie } from '../../pipeline/cookie.ts';
import { OperatorOverrides } from './operator-overrides.ts';

const sends = {
  table: 36,
  priority: 250,
  cookie: operatorOverrideCookie,
  hardTimeout: 1_800,
  match: encodeMatch({ in_port: 7 }),
  instructions: encodeInstructions({ gotoTable: 56 }),
  durationNs: 60_000_000_000n,
};
const gets = { ...sends, table: 80, match: encodeMatch({ reg1: 7 }), instructions: encodeInstructions({ gotoTable: 100 }) };

it('has the opened ports and their age, until an observation lacks them', () => {
  let nowMs = 5_000;
  const opened = new OperatorOverrides(() => nowMs);
  expect([opened.note(sends), opened.note(gets)]).toEqual([true, true]);
  expect(opened.list()).toEqual([]);
  opened.looked();
  expect(opened.list()).toEqual([{ ofPort: 7, secondsLeft: 1_740 }]);
  nowMs += 1_740_000;
  expect(opened.list()).toEqual([]);
  nowMs = 5_000;
  opened.looked();
  expect(opened.list()).toEqual([]);
});

it.each([
  { hardTimeout: 0 },
  { cookie: operatorOverrideCookie + 1n },
  { priority: 240 },
  { table: 38 },
  { match: encodeMatch({}) },
  { match: encodeMatch({ in_port: 7, eth_type: 0x800 }) },
  { match: encodeMatch({ reg1: 7 }) },
  { instructions: encodeInstructions({ gotoTable: 100 }) },
  { instructions: encodeInstructions({}) },
  { instructions: encodeInstructions({ apply: [{ kind: 'output', port: 1 }], gotoTable: 56 }) },
])('treats a different flow as foreign: %#', (other) => {
  const opened = new OperatorOverrides(() => 0);
  expect(opened.note({ ...sends, ...other })).toBe(false);
});
