import { describe, expect, it } from 'vitest';
import { packEndpoints, unpackEndpoints } from '../../base/net/packed-endpoints.ts';
import { identityOf } from '../client/resource.ts';
import { endpointSlices, serviceKeyOf } from './endpoint-slice.ts';
import { namespaces } from './namespace.ts';
import { nodes } from './node.ts';
import { pods, podsOf } from './pod.ts';
import { policyPods } from './policy-pod.ts';
import { services } from './service.ts';

const metadata = { namespace: 'default', name: 'web', uid: 'u1', resourceVersion: '7' };

describe('identity', () => {
  it('is namespace/name, or the name alone', () => {
    expect(identityOf({ metadata })).toEqual({ key: 'default/web', version: '7' });
    expect(identityOf({ metadata: { name: 'n1' } })).toEqual({ key: 'n1', version: '' });
  });

  it('refuses an object without a name', () => {
    expect(() => identityOf({ metadata: { namespace: 'a' } })).toThrow(/metadata\.name/);
    expect(() => identityOf('text')).toThrow(/INVALID_INPUT/);
  });
});

describe('Node', () => {
  it('keeps pod networks and internal addresses in canonical text', () => {
    const raw = {
      metadata: { name: 'n1', uid: 'u1', labels: { 'topology.kubernetes.io/zone': 'a', other: 'x' }, managedFields: [{}] },
      spec: { podCIDR: '10.1.0.0/22', podCIDRs: ['10.1.0.0/22', 'FD00:0::/64'] },
      status: {
        addresses: [
          { type: 'Hostname', address: 'n1' },
          { type: 'InternalIP', address: '192.168.0.1' },
          { type: 'InternalIP', address: 'FD01::0001' },
        ],
      },
    };
    expect(nodes.project(raw)).toEqual({
      name: 'n1',
      uid: 'u1',
      podCidrs: ['10.1.0.0/22', 'fd00::/64'],
      internalIps: ['192.168.0.1', 'fd01::1'],
      labels: { 'topology.kubernetes.io/zone': 'a', other: 'x' },
      zone: 'a',
      deleting: false,
    });
  });

  it('keeps the annotation of the policy mode, up to a maximum length', () => {
    const modeOf = (annotations: object) => nodes.project({ metadata: { name: 'n1', uid: 'u1', annotations } })?.policyMode;
    expect(modeOf({ 'seine.dev/policy-mode': 'audit', other: 'x' })).toBe('audit');
    expect(modeOf({ 'seine.dev/policy-mode': 'x'.repeat(100_000) })).toBe('x'.repeat(32));
    expect(modeOf({ other: 'x' })).toBeUndefined();
  });

  it('keeps the annotation of the answer to denied pods, of a namespace only if it is valid', () => {
    const annotated = (denied: string) => ({ annotations: { 'seine.dev/denied': denied } });
    const ofNode = (denied: string) => nodes.project({ metadata: { name: 'n1', uid: 'u1', ...annotated(denied) } })?.denied;
    expect([ofNode('reject'), ofNode('x'.repeat(100))]).toEqual(['reject', 'x'.repeat(32)]);
    const ofNamespace = (denied: string) => namespaces.project({ metadata: { name: 'shop', uid: 'u2', ...annotated(denied) } });
    expect([ofNamespace('reject'), ofNamespace('drop'), ofNamespace('reset'.repeat(10))]).toEqual([
      { name: 'shop', labels: {}, denied: 'reject' },
      { name: 'shop', labels: {}, denied: 'drop' },
      { name: 'shop', labels: {}, invalidDenied: { text: 'reset'.repeat(10).slice(0, 32), uid: 'u2' } },
    ]);
  });

  it('accepts a node without networks, and the old single podCIDR', () => {
    const bare = nodes.project({ metadata: { name: 'n1', uid: 'u1' } });
    expect(bare).toEqual({ name: 'n1', uid: 'u1', podCidrs: [], internalIps: [], deleting: false });
    expect(nodes.project({ metadata: { name: 'n1', uid: 'u1' }, spec: { podCIDR: '10.1.0.0/24' } })?.podCidrs).toEqual(['10.1.0.0/24']);
    expect(nodes.project({ metadata: { name: 'n1', uid: 'u1' }, spec: { podCIDR: '' } })?.podCidrs).toEqual([]);
  });

  it('gives equal values for heartbeats', () => {
    const beat = (time: string) => ({ metadata: { name: 'n1', uid: 'u1' }, status: { conditions: [{ lastHeartbeatTime: time }] } });
    expect(nodes.project(beat('1'))).toEqual(nodes.project(beat('2')));
  });

  it.each([
    ['False', false],
    ['True', true],
    ['Unknown', true],
  ])('reads the condition NetworkUnavailable %s', (status, networkUnavailable) => {
    const conditions = [{ type: 'Ready', status: 'True' }, 'junk', { type: 'NetworkUnavailable', status }];
    expect(nodes.project({ metadata: { name: 'n1', uid: 'u1' }, status: { conditions } })).toMatchObject({ networkUnavailable });
  });

  it('keeps the addresses of other types separately, if they are valid', () => {
    const addresses = [
      { type: 'ExternalIP', address: '2001:DB8::7' },
      { type: 'InternalIP', address: '192.168.0.1' },
      { type: 'ExternalIP', address: 'none' },
    ];
    const node = nodes.project({ metadata: { name: 'n', uid: 'u' }, status: { addresses } });
    expect(node).toMatchObject({ internalIps: ['192.168.0.1'], externalIps: ['2001:db8::7'] });
  });

  it('reads as many addresses of a type and family as it keeps, and 16 pod networks', () => {
    const addresses = Array.from({ length: 130 }, (_, at) => ({ type: 'InternalIP', address: at < 128 ? `192.168.0.${at}` : 'unread' }));
    const podCIDRs = Array.from({ length: 18 }, (_, at) => (at < 16 ? `10.0.${at}.0/24` : 'unread'));
    const node = nodes.project({ metadata: { name: 'n', uid: 'u' }, spec: { podCIDRs }, status: { addresses } });
    expect([node?.internalIps.length, node?.podCidrs.length]).toEqual([128, 16]);
    expect(node).toMatchObject({
      refusedPodCidrs: ['spec.podCIDRs: 2 other networks are not used: a Node has at most 16, each valid'],
      refusedAddresses: ['status.addresses: 2 are not used: at most 128 of a type and family are'],
    });
  });

  it('names the wrong field', () => {
    const badAddress = { metadata: { name: 'n', uid: 'u' }, status: { addresses: [{ type: 'InternalIP', address: '1.2.3' }] } };
    expect(() => nodes.project(badAddress)).toThrow('status.addresses[0].address: "1.2.3" is not an IP address');
    expect(() => nodes.project({ metadata: { name: 'n', uid: 'u' }, spec: { podCIDRs: ['10.0.0.0/24', 'x'] } })).toThrow(
      'spec.podCIDRs[1]: ',
    );
  });
});

it('omits pod networks of a Node that Kubernetes tolerates and that are ambiguous, and reports them', () => {
  const project = (spec: object) => nodes.project({ metadata: { name: 'n', uid: 'u' }, spec });
  expect(project({ podCIDRs: ['10.0.0.5/24', 'fd00::/64'] })).toMatchObject({
    podCidrs: ['fd00::/64'],
    refusedPodCidrs: ['spec.podCIDRs: "10.0.0.5/24" has host bits; the network is 10.0.0.0/24'],
  });
  expect(project({ podCIDR: '10.0.0.0/024', podCIDRs: [] })).toMatchObject({ podCidrs: [], refusedPodCidrs: [expect.any(String)] });
  expect(project({ podCIDR: '10.0.0.0/24' })).toEqual(expect.not.objectContaining({ refusedPodCidrs: expect.anything() }));
});

describe('Service', () => {
  const minimal = { metadata, spec: { clusterIPs: ['10.96.0.1'], ports: [{ port: 80 }] } };

  it('fills in the defaults of the API server', () => {
    expect(services.project(minimal)).toEqual({
      namespace: 'default',
      name: 'web',
      uid: 'u1',
      type: 'ClusterIP',
      clusterIps: ['10.96.0.1'],
      ipFamilies: ['ipv4'],
      ports: [{ name: '', protocol: 'TCP', port: 80, targetPort: 80 }],
      externalTrafficPolicy: 'Cluster',
      internalTrafficPolicy: 'Cluster',
      externalIps: [],
      loadBalancerIngress: [],
      loadBalancerSourceRanges: [],
      publishNotReadyAddresses: false,
      headlessLabel: false,
    });
  });

  it('keeps everything a proxy acts on', () => {
    const spec = {
      type: 'LoadBalancer',
      clusterIP: '10.96.0.1',
      clusterIPs: ['10.96.0.1', 'FD00::A'],
      ipFamilies: ['IPv4', 'IPv6'],
      ports: [{ name: 'dns', protocol: 'UDP', port: 53, targetPort: 'dns', nodePort: 30053 }],
      sessionAffinity: 'ClientIP',
      externalTrafficPolicy: 'Local',
      internalTrafficPolicy: 'Local',
      externalIPs: ['203.0.113.1'],
      loadBalancerSourceRanges: ['203.0.113.0/24', ' 198.51.100.0/24 '],
      healthCheckNodePort: 31000,
      publishNotReadyAddresses: true,
      trafficDistribution: 'PreferClose',
    };
    const labels = { 'service.kubernetes.io/service-proxy-name': 'other', 'service.kubernetes.io/headless': '' };
    const status = { loadBalancer: { ingress: [{ ip: '198.51.100.1', ipMode: 'Proxy' }, { hostname: 'lb' }] } };
    expect(services.project({ metadata: { ...metadata, labels }, spec, status })).toMatchObject({
      clusterIps: ['10.96.0.1', 'fd00::a'],
      ipFamilies: ['ipv4', 'ipv6'],
      ports: [{ name: 'dns', protocol: 'UDP', port: 53, targetPort: 'dns', nodePort: 30053 }],
      affinitySeconds: 10_800,
      externalTrafficPolicy: 'Local',
      internalTrafficPolicy: 'Local',
      loadBalancerIngress: [{ ip: '198.51.100.1', ipMode: 'Proxy' }],
      loadBalancerSourceRanges: ['203.0.113.0/24', '198.51.100.0/24'],
      healthCheckNodePort: 31000,
      publishNotReadyAddresses: true,
      trafficDistribution: 'PreferClose',
      proxyName: 'other',
      headlessLabel: true,
    });
  });

  it('omits ambiguous source ranges, clears host bits of others, and reports both', () => {
    const loadBalancerSourceRanges = [
      '10.0.0.0/08',
      '203.0.113.0/24',
      'fd00::1/64',
      '::ffff:10.0.0.0/104',
      '010.0.0.0/8',
      ' 192.168.77.5/24',
    ];
    const projected = services.project({ metadata, spec: { ...minimal.spec, loadBalancerSourceRanges } });
    expect(projected?.loadBalancerSourceRanges).toEqual(['203.0.113.0/24', 'fd00::/64', '192.168.77.0/24']);
    expect(projected?.refusedSourceRanges).toEqual([
      { family: 'ipv4', why: '"10.0.0.0/08" has leading zeros; 10.0.0.0/8 has not' },
      { family: 'ipv4', why: '"::ffff:10.0.0.0/104" is a network of IPv4 written as IPv6' },
      { family: 'ipv4', why: '"010.0.0.0/8" has leading zeros; 10.0.0.0/8 has not' },
    ]);
    expect(projected?.clearedSourceRanges).toEqual([
      { family: 'ipv6', why: '"fd00::1/64" has host bits; the network is fd00::/64' },
      { family: 'ipv4', why: '"192.168.77.5/24" has host bits; the network is 192.168.77.0/24' },
    ]);
    expect(() => services.project({ metadata, spec: { ...minimal.spec, loadBalancerSourceRanges: ['10.0.0.0/8', 'x'] } })).toThrow(
      'spec.loadBalancerSourceRanges[1]: ',
    );
  });

  it('reads the first 20,000 elements of a list, and reports the number of others', () => {
    const addresses = Array.from({ length: 20_001 }, (_, at) => (at < 20_000 ? `20.0.${at >> 8}.${at & 255}` : 'unread'));
    const spec = { ...minimal.spec, externalIPs: addresses, loadBalancerSourceRanges: addresses.map((ip) => `${ip}/32`) };
    const status = { loadBalancer: { ingress: addresses.map((ip) => ({ ip })) } };
    const service = services.project({ ...minimal, spec, status });
    const lengths = [service?.externalIps, service?.loadBalancerSourceRanges, service?.loadBalancerIngress].map((list) => list?.length);
    expect(lengths).toEqual([20_000, 20_000, 20_000]);
    expect(service?.unread).toEqual(
      ['spec.externalIPs', 'spec.loadBalancerSourceRanges', 'status.loadBalancer.ingress'].map(
        (field) => `${field}: 1 of 20001 are ignored: a Service has at most 20000`,
      ),
    );
  });

  it('has no addresses when it is headless', () => {
    expect(services.project({ metadata, spec: { clusterIP: 'None', clusterIPs: ['None'], ports: null } })?.clusterIps).toEqual([]);
  });

  it('names the wrong field', () => {
    expect(() => services.project({ metadata, spec: { ports: [{ port: 80 }, { port: 70_000 }] } })).toThrow(/spec\.ports\[1\]\.port: /);
    expect(() => services.project({ metadata, spec: { clusterIPs: ['10.0.0.1; drop'] } })).toThrow(/spec\.clusterIPs\[0\]/);
  });

  it('ignores labels that name a prototype', () => {
    const labels = JSON.parse('{"__proto__": "x", "constructor": "y"}') as unknown;
    expect(services.project({ ...minimal, metadata: { ...metadata, labels } })?.headlessLabel).toBe(false);
  });
});

describe('EndpointSlice', () => {
  const slice = (rest: object) => ({
    metadata: { ...metadata, labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    ...rest,
  });

  it('reads unknown conditions as kube-proxy does', () => {
    const projected = endpointSlices.project(
      slice({ endpoints: [{ addresses: ['10.0.0.1'] }, { addresses: ['10.0.0.2'], conditions: { ready: false } }] }),
    );
    expect(projected && unpackEndpoints(projected.endpoints)).toEqual([
      { addresses: ['10.0.0.1'], ready: true, serving: true, terminating: false },
      { addresses: ['10.0.0.2'], ready: false, serving: true, terminating: false },
    ]);
    expect(projected && serviceKeyOf(projected)).toBe('default/web');
  });

  it('has the name of its Service', () => {
    const labels = {
      'service.kubernetes.io/headless': '',
      'service.kubernetes.io/service-proxy-name': '',
      'kubernetes.io/service-name': '',
    };
    const projected = endpointSlices.project({ metadata: { ...metadata, labels }, addressType: 'IPv4' });
    expect(projected).toMatchObject({ headlessLabel: true, proxyName: '' });
    expect(projected && serviceKeyOf(projected)).toBeUndefined();
  });

  it('keeps node, zone and hints', () => {
    const endpoint = {
      addresses: ['10.0.0.1'],
      nodeName: 'n1',
      zone: 'a',
      hints: { forZones: [{ name: 'a' }], forNodes: [{ name: 'n1' }] },
    };
    const projected = endpointSlices.project(slice({ endpoints: [endpoint], ports: [{ name: 'dns', protocol: 'UDP', port: 53 }] }));
    expect(projected).toMatchObject({ family: 'ipv4', ports: [{ name: 'dns', protocol: 'UDP', port: 53 }] });
    expect(projected && unpackEndpoints(projected.endpoints)).toMatchObject([
      { nodeName: 'n1', zone: 'a', zoneHints: ['a'], nodeHints: ['n1'] },
    ]);
  });

  it('accepts null lists and ignores host names', () => {
    expect(endpointSlices.project(slice({ endpoints: null, ports: null }))).toMatchObject({ ports: [], endpoints: packEndpoints([]) });
    expect(endpointSlices.project(slice({ addressType: 'FQDN', endpoints: [{ addresses: ['a.example'] }] }))).toBeUndefined();
  });

  it('names the wrong field', () => {
    expect(() => endpointSlices.project(slice({ endpoints: [{ addresses: ['10.0.0.1'] }, { addresses: ['a.example'] }] }))).toThrow(
      'endpoints[1].addresses[0]: "a.example" is not an IP address',
    );
  });
});

describe('Pod', () => {
  it('keeps addresses, node and phase', () => {
    const raw = {
      metadata,
      spec: { nodeName: 'n1' },
      status: { phase: 'Running', podIP: '10.0.0.1', podIPs: [{ ip: '10.0.0.1' }, { ip: 'FD00::1' }] },
    };
    expect(pods.project(raw)).toEqual({
      namespace: 'default',
      name: 'web',
      uid: 'u1',
      nodeName: 'n1',
      podIps: ['10.0.0.1', 'fd00::1'],
      hostNetwork: false,
      labels: {},
      ports: {},
      phase: 'Running',
      deleting: false,
    });
  });

  it('keeps the fields that policies use: labels, and named ports of containers and sidecars', () => {
    const port = (name: string, containerPort: number, protocol?: string) => ({ name, containerPort, ...(protocol && { protocol }) });
    const raw = {
      metadata: { ...metadata, labels: { app: 'web' } },
      spec: {
        containers: [{ ports: [port('http', 8080), port('dns', 53, 'UDP')] }, { ports: [port('http', 9090)] }],
        initContainers: [{ ports: [port('setup', 1)] }, { restartPolicy: 'Always', ports: [port('metrics', 9100)] }],
      },
    };
    const asked = { labels: { app: 'web' }, ports: { 'http/TCP': 8080, 'dns/UDP': 53, 'metrics/TCP': 9100 } };
    expect(pods.project(raw)).toMatchObject(asked);
    expect(policyPods.project(raw)).toMatchObject(asked);
  });

  it('accepts an unscheduled pod', () => {
    expect(pods.project({ metadata, spec: {} })).toMatchObject({ podIps: [], phase: 'Pending' });
    expect(podsOf('n1').fieldSelector).toBe('spec.nodeName=n1');
  });
});
