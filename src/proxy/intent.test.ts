import { describe, expect, it } from 'vitest';
import type { EndpointSlice } from '../kube/endpoint-slice.ts';
import type { Service } from '../kube/service.ts';
import { serviceIntents } from './intent.ts';

const web: Service = {
  namespace: 'default',
  name: 'web',
  uid: 'u1',
  type: 'ClusterIP',
  clusterIps: ['10.96.0.10', 'fd00:96::10'],
  ipFamilies: ['ipv4', 'ipv6'],
  ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080 }],
  externalTrafficPolicy: 'Cluster',
  internalTrafficPolicy: 'Cluster',
  externalIps: [],
  loadBalancerIngress: [],
  loadBalancerSourceRanges: [],
  publishNotReadyAddresses: false,
  headlessLabel: false,
};
type EndpointState = Pick<EndpointSlice['endpoints'][number], 'ready' | 'serving' | 'terminating'>;
const isReady: EndpointState = { ready: true, serving: true, terminating: false };
const isLeaving: EndpointState = { ready: false, serving: true, terminating: true };
const isDown: EndpointState = { ready: false, serving: false, terminating: false };

function slice(name: string, family: 'ipv4' | 'ipv6', endpoints: readonly (readonly [string, EndpointState])[]): EndpointSlice {
  return {
    namespace: 'default',
    name,
    service: 'web',
    family,
    ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
    endpoints: endpoints.map(([address, state]) => ({ addresses: [address], ...state })),
  };
}

function addresses(service: Service, slices: readonly EndpointSlice[]): Record<string, string[]> {
  return Object.fromEntries(
    serviceIntents(service, slices).map(({ name, endpoints }) => [name, endpoints.map(({ ip, port }) => `${ip.text} ${port}`)]),
  );
}

describe('serviceIntents', () => {
  it('joins slices of the address’s family, each endpoint once, in order', () => {
    const slices = [
      slice('a', 'ipv4', [
        ['10.10.1.5', isReady],
        ['10.10.0.9', isReady],
      ]),
      slice('b', 'ipv4', [['10.10.1.5', isReady]]),
      slice('c', 'ipv6', [['fd00:10::5', isReady]]),
    ];
    expect(addresses(web, slices)).toEqual({ 'http/ipv4': ['10.10.0.9 8080', '10.10.1.5 8080'], 'http/ipv6': ['fd00:10::5 8080'] });
  });

  it('leaves out what is not ready, and falls back to what still serves while it terminates', () => {
    expect(
      addresses(web, [
        slice('a', 'ipv4', [
          ['10.10.0.1', isDown],
          ['10.10.0.2', isLeaving],
          ['10.10.0.3', isReady],
        ]),
      ])['http/ipv4'],
    ).toEqual(['10.10.0.3 8080']);
    expect(
      addresses(web, [
        slice('a', 'ipv4', [
          ['10.10.0.1', isDown],
          ['10.10.0.2', isLeaving],
        ]),
      ])['http/ipv4'],
    ).toEqual(['10.10.0.2 8080']);
    expect(addresses({ ...web, publishNotReadyAddresses: true }, [slice('a', 'ipv4', [['10.10.0.1', isDown]])])['http/ipv4']).toEqual([
      '10.10.0.1 8080',
    ]);
  });

  it('keeps a Service without endpoints, so that it can be refused', () =>
    expect(addresses(web, [])).toEqual({ 'http/ipv4': [], 'http/ipv6': [] }));

  it.each([
    ['headless', { clusterIps: [] }],
    ['an ExternalName', { type: 'ExternalName' as const }],
    ['another proxy’s', { proxyName: 'other' }],
    ['labelled headless', { headlessLabel: true }],
  ])('serves no Service that is %s', (_, change) => expect(serviceIntents({ ...web, ...change }, [])).toEqual([]));

  it('takes the slice’s port of the same name and protocol', () => {
    const other = {
      ...slice('a', 'ipv4', [['10.10.0.1', isReady]]),
      ports: [
        { name: 'http', protocol: 'UDP' as const, port: 9 },
        { name: '', protocol: 'TCP' as const, port: 9 },
      ],
    };
    expect(addresses(web, [other])['http/ipv4']).toEqual([]);
  });
});
