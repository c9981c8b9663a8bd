import { expect, it } from 'vitest';
import { makeAccountToken, readAccountToken } from './service-account-token.ts';

const account = { namespace: 'seine-system', name: 'seine-agent', expiresMs: 1_000 };

it('accepts its own tokens until they expire', () => {
  const token = makeAccountToken('key', account);
  expect(readAccountToken('key', token, 999)).toEqual({
    name: 'system:serviceaccount:seine-system:seine-agent',
    groups: ['system:serviceaccounts', 'system:serviceaccounts:seine-system', 'system:authenticated'],
  });
  expect(readAccountToken('key', token, 1_000)).toBeUndefined();
});

it('rejects tokens that are modified or signed with another key', () => {
  const [kind, , signed] = makeAccountToken('key', account).split('.');
  const claims = Buffer.from(JSON.stringify({ ...account, name: 'admin' })).toString('base64url');
  expect(readAccountToken('key', [kind, claims, signed].join('.'), 0)).toBeUndefined();
  expect(readAccountToken('other', makeAccountToken('key', account), 0)).toBeUndefined();
  expect(readAccountToken('key', 'abc', 0)).toBeUndefined();
});

it('returns the pod and the node of a bound token', () => {
  const bound = { pod: { name: 'seine-agent-x', uid: 'p' }, node: { name: 'n1', uid: 'n' } };
  expect(readAccountToken('key', makeAccountToken('key', { ...account, bound }), 0)?.extra).toEqual({
    'authentication.kubernetes.io/pod-name': ['seine-agent-x'],
    'authentication.kubernetes.io/pod-uid': ['p'],
    'authentication.kubernetes.io/node-name': ['n1'],
    'authentication.kubernetes.io/node-uid': ['n'],
  });
});
