import { describe, expect, it } from 'vitest';
import { filledService } from '../../../test/support/scene-service.ts';
import { parseCidr, parseIp } from '../../base/net/ip.ts';
import { packEndpoints, type SliceEndpoint } from '../../base/net/packed-endpoints.ts';
import type { EndpointSlice } from '../../kubernetes/resources/endpoint-slice.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import { type Proxying, serviceIntents, unusedEndpoints } from './intent.ts';
import { answerFor, type ServiceIntent } from './service-intent.ts';

const web = filledService({
  name: 'web',
  clusterIps: ['10.96.0.10', 'fd00:96::10'],
  ipFamilies: ['ipv4', 'ipv6'],
  ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080 }],
});
const here: Proxying = {
  node: {
    name: 'n1',
    zone: 'a',
    families: ['ipv4', 'ipv6'],
    sctp: false,
    addresses: [parseIp('192.168.77.1')],
    gateway: [parseIp('10.10.0.1')],
  },
  config: {
    proxyAll: true,
    skipServices: new Set(),
    proxyLoadBalancerIps: true,
    serviceProxyName: '',
    externalIpRanges: [parseCidr('198.51.100.0/24')],
    bucketTranslation: true,
  },
};
const isReady = { ready: true, serving: true, terminating: false };
const isLeaving = { ready: false, serving: true, terminating: true };
const isDown = { ready: false, serving: false, terminating: false };

function slice(
  name: string,
  family: 'ipv4' | 'ipv6',
  endpoints: readonly (readonly [string, Omit<SliceEndpoint, 'addresses'>])[],
): EndpointSlice {
  return {
    namespace: 'default',
    name,
    service: 'web',
    family,
    ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
    endpoints: packEndpoints(endpoints.map(([address, rest]) => ({ addresses: [address], ...rest }))),
  };
}

function texts(endpoints: ServiceIntent['cluster']): string[] {
  return endpoints.map(({ ip, port }) => `${ip.text} ${port}`);
}

function cluster(service: Service, slices: readonly EndpointSlice[], proxying = here): Record<string, string[]> {
  return Object.fromEntries(serviceIntents(service, slices, proxying).map((intent) => [intent.name, texts(intent.cluster)]));
}

function only(service: Partial<Service>, endpoints: Parameters<typeof slice>[2] = [], proxying = here): ServiceIntent {
  const [intent, ...others] = serviceIntents({ ...web, clusterIps: ['10.96.0.10'], ...service }, [slice('a', 'ipv4', endpoints)], proxying);
  if (!intent || others.length > 0) throw new Error('not one intent');
  return intent;
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
    expect(cluster(web, slices)).toEqual({ 'http/ipv4': ['10.10.0.9 8080', '10.10.1.5 8080'], 'http/ipv6': ['fd00:10::5 8080'] });
  });

  it('uses the slice with ready when an endpoint is in two', () => {
    const moving = [slice('a', 'ipv4', [['10.10.1.5', isDown]]), slice('b', 'ipv4', [['10.10.1.5', isReady]])];
    expect(cluster(web, moving)['http/ipv4']).toEqual(['10.10.1.5 8080']);
    expect(cluster(web, moving.toReversed())['http/ipv4']).toEqual(['10.10.1.5 8080']);
  });

  it('reads a Service of many slices like one of few', () => {
    const many = Array.from({ length: 9 }, (_, at) => slice(`s${at}`, 'ipv4', [[`10.10.${9 - at}.5`, isReady]]));
    expect(cluster(web, many)['http/ipv4']).toEqual(Array.from({ length: 9 }, (_, at) => `10.10.${at + 1}.5 8080`));
  });

  it('omits endpoints that are not ready, and falls back to those that still serve while they terminate', () => {
    const [down, leaving, ready] = [
      ['10.10.0.1', isDown],
      ['10.10.0.2', isLeaving],
      ['10.10.0.3', isReady],
    ] as const;
    expect(cluster(web, [slice('a', 'ipv4', [down, leaving, ready])])['http/ipv4']).toEqual(['10.10.0.3 8080']);
    expect(cluster(web, [slice('a', 'ipv4', [down, leaving])])['http/ipv4']).toEqual(['10.10.0.2 8080']);
    expect(cluster({ ...web, publishNotReadyAddresses: true }, [slice('a', 'ipv4', [down])])['http/ipv4']).toEqual(['10.10.0.1 8080']);
  });

  it('ignores slices of DNS or another proxy, whatever their Service says', () => {
    const ours = slice('a', 'ipv4', [['10.10.0.1', isReady]]);
    const headless = { ...slice('b', 'ipv4', [['10.10.0.2', isReady]]), headlessLabel: true } as const;
    const others = ['', 'other'].map((proxyName) => ({ ...slice('c', 'ipv4', [['10.10.0.3', isReady]]), proxyName }));
    const slices = [ours, headless, ...others];
    expect(cluster(web, slices)['http/ipv4']).toEqual(['10.10.0.1 8080']);
    const [intent] = serviceIntents(web, slices, here);
    expect(intent && unusedEndpoints(web, slices, intent, here)).toEqual([]);
    const named = { ...here, config: { ...here.config, serviceProxyName: 'other' } };
    expect(cluster({ ...web, proxyName: 'other' }, slices, named)['http/ipv4']).toEqual(['10.10.0.3 8080']);
  });

  it('admits no client if no source range is valid, with the reason', () => {
    const refused = { family: 'ipv4', why: '"10.0.0.0/08" has leading zeros' } as const;
    const balanced = { type: 'LoadBalancer', refusedSourceRanges: [refused] } as const;
    const [ipv4, ipv6] = serviceIntents({ ...web, ...balanced }, [], here);
    expect([ipv4?.sourceRanges.map(({ text }) => text), ipv6?.sourceRanges]).toEqual([['0.0.0.0/32'], []]);
    expect([ipv4?.objections, ipv6?.objections]).toEqual([['loadBalancerSourceRanges: "10.0.0.0/08" has leading zeros'], []]);
    const some = only({ ...balanced, loadBalancerSourceRanges: ['203.0.113.0/24'] });
    expect([some.sourceRanges.map(({ text }) => text), some.objections.length]).toEqual([['203.0.113.0/24'], 1]);
    expect(only({ refusedSourceRanges: [refused] })).toMatchObject({ sourceRanges: [], objections: [] });
  });

  it('admits the network of a source range with host bits, and warns', () => {
    const why = '"203.0.113.5/24" has host bits; the network is 203.0.113.0/24';
    const ranges = { loadBalancerSourceRanges: ['203.0.113.0/24'], clearedSourceRanges: [{ family: 'ipv4' as const, why }] };
    const { sourceRanges, objections } = only({ type: 'LoadBalancer', ...ranges });
    expect([sourceRanges.map(({ text }) => text), objections]).toEqual([['203.0.113.0/24'], [`loadBalancerSourceRanges: ${why}`]]);
  });

  it('keeps a Service without endpoints, so that it can be refused', () =>
    expect(cluster(web, [])).toEqual({ 'http/ipv4': [], 'http/ipv6': [] }));

  it.each([
    ['headless', { clusterIps: [] }],
    ['an ExternalName', { type: 'ExternalName' as const }],
    ['another proxy’s', { proxyName: 'other' }],
    ['labelled for a proxy without a name', { proxyName: '' }],
    ['labelled headless', { headlessLabel: true }],
  ])('serves no Service that is %s', (_, change) => expect(serviceIntents({ ...web, ...change }, [], here)).toEqual([]));

  it('serves Services with its own label only, if configured, and none that are to be skipped', () => {
    const named = { ...here, config: { ...here.config, serviceProxyName: 'seine' } };
    expect(serviceIntents(web, [], named)).toEqual([]);
    expect(serviceIntents({ ...web, proxyName: 'seine' }, [], named)).toHaveLength(2);
    for (const skipped of ['default/web', '10.96.0.10'])
      expect(serviceIntents(web, [], { ...here, config: { ...here.config, skipServices: new Set([skipped]) } })).toEqual([]);
  });

  it('uses the slice’s port of the same name and protocol', () => {
    const ports = [
      { name: 'http', protocol: 'UDP' as const, port: 9 },
      { name: '', protocol: 'TCP' as const, port: 9 },
    ];
    expect(cluster(web, [{ ...slice('a', 'ipv4', [['10.10.0.1', isReady]]), ports }])['http/ipv4']).toEqual([]);
  });

  it('gives SCTP no address if the data path cannot distinguish its ports', () => {
    const sctp = { ports: [{ name: 'http', protocol: 'SCTP' as const, port: 80, targetPort: 80 }] };
    const intent = only(sctp);
    expect([intent.addresses, intent.objections]).toEqual([[], ['port 80/SCTP: the userspace data path cannot distinguish SCTP ports']]);
    expect(only(sctp, [], { ...here, node: { ...here.node, sctp: true } }).addresses).toHaveLength(1);
  });
});

describe('the addresses of a Service', () => {
  const everything: Partial<Service> = {
    type: 'LoadBalancer',
    ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080, nodePort: 30_080 }],
    externalIps: ['198.51.100.9', '203.0.113.9', '2001:db8::9'],
    loadBalancerIngress: [
      { ip: '203.0.113.7', ipMode: 'VIP' },
      { ip: '203.0.113.8', ipMode: 'Proxy' },
      { ip: '169.254.0.253', ipMode: 'VIP' },
    ],
    loadBalancerSourceRanges: ['192.0.2.0/24', '2001:db8::/32'],
  };
  const addresses = (intent: ServiceIntent) => intent.addresses.map(({ kind, ip, port }) => `${kind} ${ip.text} ${port}`);

  it('are all addresses from Kubernetes, of one family, except forbidden ones', () => {
    const intent = only(everything);
    expect(addresses(intent)).toEqual([
      'cluster 10.96.0.10 80',
      'nodePort 169.254.0.252 30080',
      'loadBalancer 203.0.113.7 80',
      'external 198.51.100.9 80',
    ]);
    expect(intent.sourceRanges.map(({ text }) => text)).toEqual(['192.0.2.0/24']);
    expect(intent.objections).toEqual([
      '169.254.0.253 belongs to no host',
      'externalIP 203.0.113.9 is not in a range that the configuration allows (proxy.externalIPRanges)',
    ]);
  });

  it('are cluster addresses only together with a kube-proxy', () =>
    expect(addresses(only(everything, [], { ...here, config: { ...here.config, proxyAll: false } }))).toEqual(['cluster 10.96.0.10 80']));

  it('exclude load balancers if configured', () =>
    expect(addresses(only(everything, [], { ...here, config: { ...here.config, proxyLoadBalancerIps: false } }))).not.toContain(
      'loadBalancer 203.0.113.7 80',
    ));
});

describe('traffic policies', () => {
  const nodePorts = {
    type: 'NodePort' as const,
    ports: [{ name: 'http', protocol: 'TCP' as const, port: 80, targetPort: 80, nodePort: 30_080 }],
  };
  const [mine, theirs] = [
    ['10.10.0.5', { ...isReady, nodeName: 'n1' }],
    ['10.10.4.5', { ...isReady, nodeName: 'n2' }],
  ] as const;

  it('Local inside: endpoints of this node, or silence if there are some elsewhere', () => {
    const policy = { internalTrafficPolicy: 'Local' as const };
    expect(answerFor(only(policy, [mine, theirs]), 'cluster', 'pod')).toMatchObject({
      do: 'balance',
      scope: 'local',
      endpoints: [{ ip: { text: '10.10.0.5' } }],
    });
    expect(answerFor(only(policy, [theirs]), 'cluster', 'pod')).toEqual({ do: 'drop' });
    expect(answerFor(only(policy, []), 'cluster', 'pod')).toEqual({ do: 'refuse' });
  });

  it('Local outside: external clients get endpoints of this node, pods and the node get all', () => {
    const intent = only({ ...nodePorts, externalTrafficPolicy: 'Local' }, [mine, theirs]);
    expect(answerFor(intent, 'nodePort', 'external')).toMatchObject({ scope: 'local', endpoints: [{ ip: { text: '10.10.0.5' } }] });
    for (const client of ['pod', 'node'] as const)
      expect(answerFor(intent, 'nodePort', client)).toMatchObject({ scope: 'cluster', endpoints: [{}, {}] });
    const away = only({ ...nodePorts, externalTrafficPolicy: 'Local' }, [theirs]);
    expect(answerFor(away, 'nodePort', 'external')).toEqual({ do: 'drop' });
    expect(answerFor(away, 'nodePort', 'pod')).toMatchObject({ do: 'balance' });
  });

  it('Local falls back to terminating local endpoints, whatever is ready elsewhere', () => {
    const intent = only({ ...nodePorts, externalTrafficPolicy: 'Local' }, [['10.10.0.5', { ...isLeaving, nodeName: 'n1' }], theirs]);
    expect(texts(intent.local)).toEqual(['10.10.0.5 8080']);
    expect(texts(intent.cluster)).toEqual(['10.10.4.5 8080']);
  });

  it('keeps the lists that no address uses empty', () => {
    expect(texts(only({}, [mine, theirs]).local)).toEqual([]);
    expect(texts(only({ internalTrafficPolicy: 'Local' }, [mine, theirs]).cluster)).toEqual([]);
  });
});

describe('topology', () => {
  const at = (address: string, hints: Partial<SliceEndpoint>) => [address, { ...isReady, ...hints }] as const;

  it('prefers the zone’s endpoints if all are hinted and some are for it', () => {
    const [a, b] = [at('10.10.0.1', { zoneHints: ['a'] }), at('10.10.0.2', { zoneHints: ['b'] })];
    expect(texts(only({}, [a, b]).cluster)).toEqual(['10.10.0.1 8080']);
    expect(texts(only({}, [a, b, at('10.10.0.3', {})]).cluster)).toHaveLength(3);
    expect(texts(only({}, [b]).cluster)).toHaveLength(1);
    const { zone: _, ...nowhere } = here.node;
    expect(texts(only({}, [a, b], { ...here, node: nowhere }).cluster)).toHaveLength(2);
  });

  it('prefers the node’s endpoints to the zone’s', () => {
    const [mine, near] = [
      at('10.10.0.1', { nodeHints: ['n1'], zoneHints: ['a'] }),
      at('10.10.0.2', { nodeHints: ['n2'], zoneHints: ['a'] }),
    ];
    expect(texts(only({}, [mine, near]).cluster)).toEqual(['10.10.0.1 8080']);
    expect(texts(only({}, [near, at('10.10.0.3', { nodeHints: ['n3'], zoneHints: ['b'] })]).cluster)).toEqual(['10.10.0.2 8080']);
  });

  it('does not use those that are not ready', () => {
    const [ready, down] = [at('10.10.0.1', { zoneHints: ['a'] }), ['10.10.0.2', isDown] as const];
    expect(texts(only({}, [ready, down, at('10.10.0.3', { zoneHints: ['b'] })]).cluster)).toEqual(['10.10.0.1 8080']);
  });

  it('can give the reason why an endpoint is not used', () => {
    const endpoints = [
      at('10.10.0.1', { zoneHints: ['a'] }),
      at('10.10.0.2', { zoneHints: ['b'] }),
      ['10.10.0.3', isDown] as const,
      ['10.10.0.4', isLeaving] as const,
    ];
    const service = { ...web, clusterIps: ['10.96.0.10'] };
    const slices = [slice('a', 'ipv4', endpoints)];
    const [intent] = serviceIntents(service, slices, here);
    if (!intent) throw new Error('no intent');
    expect(unusedEndpoints(service, slices, intent, here).map(({ ip, why }) => `${ip.text} ${why}`)).toEqual([
      '10.10.0.2 hinted for other zones',
      '10.10.0.3 not ready',
      '10.10.0.4 terminating, and others are ready',
    ]);
  });
});
