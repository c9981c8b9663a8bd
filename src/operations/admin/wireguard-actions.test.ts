import { expect, it } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { WireGuardPublicKey } from '../../netlink/wireguard/wireguard-key.ts';
import { wireGuardActions } from './routes.ts';

const rotate = async (encryption: Parameters<typeof wireGuardActions>[0]['encryption']): Promise<unknown> =>
  await wireGuardActions({ encryption })['/v1/wireguard/rotate']?.(new URLSearchParams(), AbortSignal.timeout(1_000));

it('answers with the time at which the key changes', async () => {
  const node = { publicKey: 'key' as WireGuardPublicKey, rotate: async () => 1_800_000_000_000 };
  expect(await rotate(() => node)).toMatchObject({ status: 200, body: '{"publicKey":"key","changesAt":"2027-01-15T08:00:00.000Z"}\n' });
});

it('refuses without encryption, and before the node is known', async () => {
  const off = () => Promise.reject(new SeineError('REFUSED', 'trafficEncryptionMode is not wireGuard'));
  await expect(rotate(() => ({ publicKey: undefined, rotate: off }))).rejects.toThrow('trafficEncryptionMode is not wireGuard');
  await expect(rotate(() => undefined)).rejects.toThrow('the node is not known yet');
});
