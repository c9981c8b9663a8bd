import { expect, it } from 'vitest';
import { parseIp } from '../../../base/net/ip.ts';
import type { PolicyMatrix } from '../../../policy/matrix/matrix.ts';
import { KnownDecisions } from './known-decisions.ts';

const rows: PolicyMatrix['ingress'] = { identities: new Map(), relations: new Map() };
const open: PolicyMatrix = {
  subjects: new Map([['shop/db', { addresses: ['10.0.0.5'] }]]),
  ownNode: new Set(),
  ingress: rows,
  egress: rows,
};
const closed: PolicyMatrix = {
  ...open,
  subjects: new Map([['shop/db', { addresses: ['10.0.0.5'], ingress: { id: 1, text: '', isolatedBy: [] } }]]),
};
const ends = (port: number) =>
  ({
    protocol: 6,
    source: { ip: parseIp('10.0.1.9'), kind: 'pod', name: 'shop/web' },
    destination: { ip: parseIp('10.0.0.5'), port, kind: 'pod', name: 'shop/db' },
  }) as const;

function deciding() {
  const state = { matrix: open, revision: 1, asked: 0 };
  const matrix = () => {
    state.asked++;
    return state.matrix;
  };
  return { state, decisions: new KnownDecisions({ matrix, revision: () => state.revision }) };
}

it('decides once for equal ends and ports, and again when the matrix may have changed', () => {
  const { state, decisions } = deciding();
  for (let count = 0; count < 3; count++) expect(decisions.at('ingress', ends(80), false)?.verdict).toBe('allowed');
  expect(decisions.at('egress', ends(80), false)).toBeUndefined(); // the sender is not here
  expect(decisions.at('egress', ends(80), false)).toBeUndefined();
  expect(decisions.at('ingress', ends(81), false)?.verdict).toBe('allowed');
  expect(state.asked).toBe(3);
  [state.matrix, state.revision] = [closed, 2];
  expect(decisions.at('ingress', ends(80), false)?.verdict).toBe('denied');
});

it('remembers a limited number', () => {
  const { state, decisions } = deciding();
  for (let port = 0; port < 10_000; port++) decisions.at('ingress', ends(port), false);
  decisions.at('ingress', ends(9_999), false);
  expect(state.asked).toBe(10_000);
  decisions.at('ingress', ends(0), false); // it was forgotten
  expect(state.asked).toBe(10_001);
});
