import { expect, it } from 'vitest';
import { packEndpoints } from '../../../base/net/packed-endpoints.ts';
import type { EndpointSlice } from '../../../kubernetes/resources/endpoint-slice.ts';
import { localEndpoints } from './local-endpoints.ts';

function slice(
  family: 'ipv4' | 'ipv6',
  ...endpoints: readonly (readonly [address: string, node: string, state: 'ready' | 'leaving'])[]
): EndpointSlice {
  return {
    namespace: 'default',
    name: 'x',
    family,
    ports: [],
    endpoints: packEndpoints(
      endpoints.map(([address, nodeName, state]) => ({
        addresses: [address],
        ready: state === 'ready',
        serving: true,
        terminating: state === 'leaving',
        nodeName,
      })),
    ),
  };
}

it('counts each ready endpoint of the node once, not those that only serve while they terminate', () => {
  const slices = [
    slice('ipv4', ['10.0.0.1', 'a', 'ready'], ['10.0.0.2', 'a', 'leaving'], ['10.0.0.3', 'b', 'ready']),
    slice('ipv4', ['10.0.0.1', 'a', 'ready'], ['10.0.0.4', 'a', 'ready']),
    slice('ipv6', ['fd00::1', 'a', 'ready']),
  ];
  expect(localEndpoints({ ipFamilies: ['ipv4', 'ipv6'] }, slices, 'a')).toBe(2);
  expect(localEndpoints({ ipFamilies: ['ipv6', 'ipv4'] }, slices, 'a')).toBe(1);
  expect(localEndpoints({ ipFamilies: ['ipv4'] }, slices, 'c')).toBe(0);
});
