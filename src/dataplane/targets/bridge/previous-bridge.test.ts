import { expect, it } from 'vitest';
import { nothing } from '../../desired/host-entries.ts';
import { ownerOf } from '../../pipeline/cookie.ts';
import { reg } from '../../pipeline/fields.ts';
import type { Flow } from '../../pipeline/flow.ts';
import { goto } from '../../pipeline/flow.ts';
import { encodeBridgeEntries } from './bridge-entry.ts';
import { bridgeBefore } from './previous-bridge.ts';

const heldOf = (owner: ReturnType<typeof ownerOf>, flows: readonly Flow[]) => [...encodeBridgeEntries(owner, { ...nothing, flows })];
const miss = heldOf(ownerOf('node'), [{ table: 'egressEntry', priority: 0, match: {}, steps: [goto('egressAdmin')] }]);
const pod = heldOf(ownerOf('pod', 'web'), [{ table: 'spoofGuard', priority: 200, match: { inPort: 5 }, steps: [] }]);
const lookup = heldOf(ownerOf('node'), [
  { table: 'egressLookup', priority: 200, match: { regs: [reg.verdict('standing')] }, steps: [goto('route')] },
]);

it('recognises a release without policy by the absence of policy flows, though its table of that number had a flow', () => {
  expect(bridgeBefore(new Map([...miss, ...pod]))).toBe('without policy');
  expect(bridgeBefore(new Map([...miss, ...pod, ...lookup]))).toBe('with policy');
  expect(bridgeBefore(new Map(miss))).toBe('empty');
});
