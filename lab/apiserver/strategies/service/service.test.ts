import { beforeEach, expect, it } from 'vitest';
import { refusalOf } from '../../../../test/support/api-refusal.ts';
import { openClusterObjects } from '../../cluster-objects.ts';
import { builtIn } from '../../controllers/access.ts';
import type { ApiObject } from '../../object/api-object.ts';
import type { JsonRecord } from '../../object/json.ts';
import type { Registry } from '../../resource/registry.ts';
import type { ServiceRanges } from '../../resource/resource.ts';
import { Store } from '../../store/store.ts';
import type { ObjectWriter } from '../../write/object-writer.ts';
import { mergePatch } from '../../write/patch/patch.ts';
import { trackServiceRanges } from './service-ranges.ts';

let store: Store;
let registry: Registry;
let writer: ObjectWriter;
let services: ServiceRanges;

const serviceCidrs = ['10.96.0.0/24', 'fd00:96::/112'];
const nodePortRange = { first: 30_000, last: 30_003 };

beforeEach(() => {
  store = new Store();
  ({ registry, writer } = openClusterObjects({ store, serviceCidrs, nodePortRange, now: () => 0 }));
  services = trackServiceRanges(store, serviceCidrs, nodePortRange);
});

const tcp80 = [{ port: 80 }];

function create(name: string, spec: JsonRecord): JsonRecord {
  return writer.create(builtIn(registry, '', 'services'), 'default', { metadata: { name }, spec }, {}).spec as JsonRecord;
}

function patch(name: string, spec: JsonRecord): JsonRecord {
  return writer.update(
    builtIn(registry, '', 'services'),
    `default/${name}`,
    (old: ApiObject) => mergePatch(old, { spec }) as JsonRecord,
    {},
  ).spec as JsonRecord;
}

const refusal = (act: () => unknown): string => refusalOf(act).message;

it('fills in omitted fields of a ClusterIP Service', () => {
  expect(create('web', { ports: tcp80, selector: { app: 'web' } })).toEqual({
    clusterIP: '10.96.0.16',
    clusterIPs: ['10.96.0.16'],
    internalTrafficPolicy: 'Cluster',
    ipFamilies: ['IPv4'],
    ipFamilyPolicy: 'SingleStack',
    ports: [{ port: 80, protocol: 'TCP', targetPort: 80 }],
    selector: { app: 'web' },
    sessionAffinity: 'None',
    type: 'ClusterIP',
  });
});

it('allocates in both families, in the requested order', () => {
  expect(create('a', { ports: tcp80, ipFamilyPolicy: 'PreferDualStack' })).toMatchObject({
    clusterIPs: ['10.96.0.16', 'fd00:96::100'],
    ipFamilies: ['IPv4', 'IPv6'],
  });
  expect(create('b', { ports: tcp80, ipFamilyPolicy: 'RequireDualStack', ipFamilies: ['IPv6', 'IPv4'] })).toMatchObject({
    clusterIP: 'fd00:96::101',
    ipFamilies: ['IPv6', 'IPv4'],
  });
  expect(create('c', { ports: tcp80, ipFamilies: ['IPv6'] })).toMatchObject({
    clusterIPs: ['fd00:96::102'],
    ipFamilyPolicy: 'SingleStack',
  });
});

it('allocates a chosen address, and releases it with the Service', () => {
  expect(create('dns', { ports: tcp80, clusterIP: '10.96.0.10' })).toMatchObject({ clusterIPs: ['10.96.0.10'], ipFamilies: ['IPv4'] });
  const again = () => create('other', { ports: tcp80, clusterIP: '10.96.0.10' });
  expect(refusal(again)).toBe(
    'Service "other" is invalid: spec.clusterIPs: Invalid value: []string{"10.96.0.10"}: failed to allocate IP 10.96.0.10: provided IP is already allocated',
  );
  writer.delete(builtIn(registry, '', 'services'), 'default', 'dns', {});
  expect(again()).toMatchObject({ clusterIP: '10.96.0.10' });
  expect(refusal(() => create('far', { ports: tcp80, clusterIP: '10.97.0.1' }))).toContain('The range of valid IPs is 10.96.0.0/24');
});

it('never allocates an address twice, and reports exhaustion', () => {
  const given = Array.from({ length: 253 }, (_, index) => create(`s${index}`, { ports: tcp80 })['clusterIP']);
  expect(new Set(given).size).toBe(253);
  expect(given).not.toContain('10.96.0.0');
  expect(given).not.toContain('10.96.0.255');
  create('last', { ports: tcp80 });
  expect(refusal(() => create('more', { ports: tcp80 }))).toContain('range is full');
});

it('leaves headless services without an address', () => {
  expect(create('none', { clusterIP: 'None', selector: { app: 'a' } })).toMatchObject({
    clusterIPs: ['None'],
    ipFamilies: ['IPv4'],
    ipFamilyPolicy: 'SingleStack',
  });
  expect(create('free', { clusterIP: 'None' })).toMatchObject({ ipFamilies: ['IPv4', 'IPv6'], ipFamilyPolicy: 'RequireDualStack' });
});

it('allocates node ports, one number for the TCP and UDP of a port', () => {
  const ports = [
    { name: 'a', port: 53 },
    { name: 'b', port: 53, protocol: 'UDP' },
    { name: 'c', port: 80 },
  ];
  const { ports: given, externalTrafficPolicy } = create('np', { type: 'NodePort', ports });
  expect(given).toMatchObject([{ nodePort: 30_000 }, { nodePort: 30_000 }, { nodePort: 30_001 }]);
  expect(externalTrafficPolicy).toBe('Cluster');
  expect(refusal(() => create('x', { type: 'NodePort', ports: [{ port: 80, nodePort: 30_001 }] }))).toContain(
    'spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated',
  );
  expect(refusal(() => create('x', { type: 'NodePort', ports: [{ port: 80, nodePort: 80 }] }))).toContain(
    'The range of valid ports is 30000-30003',
  );
});

it('allocates a health check port only to load balancers with the local policy', () => {
  expect(create('lb', { type: 'LoadBalancer', ports: tcp80, externalTrafficPolicy: 'Local' })).toMatchObject({
    healthCheckNodePort: 30_001,
    allocateLoadBalancerNodePorts: true,
  });
  const changed = patch('lb', { externalTrafficPolicy: 'Cluster' });
  expect(changed['healthCheckNodePort']).toBeUndefined();
  expect(create('plain', { type: 'LoadBalancer', ports: tcp80, allocateLoadBalancerNodePorts: false })['ports']).toEqual([
    { port: 80, protocol: 'TCP', targetPort: 80 },
  ]);
});

it('keeps allocated values when a client replaces the spec without them', () => {
  const before = create('np', { type: 'NodePort', ports: tcp80 });
  const body = () => ({ metadata: { name: 'np' }, spec: { type: 'NodePort', ports: [{ port: 80, targetPort: 8080 }] } });
  const after = writer.update(builtIn(registry, '', 'services'), 'default/np', body, {}).spec;
  expect(after).toMatchObject({ clusterIP: before['clusterIP'], ports: [{ nodePort: 30_000, targetPort: 8080 }] });
});

it('clears node ports and addresses that a new type does not use', () => {
  create('np', { type: 'NodePort', ports: tcp80 });
  expect(patch('np', { type: 'ClusterIP' })).toMatchObject({ ports: [{ port: 80, protocol: 'TCP', targetPort: 80 }] });
  const external = patch('np', { type: 'ExternalName', externalName: 'example.com' });
  expect(external['clusterIP']).toBeUndefined();
  expect(external['ipFamilies']).toBeUndefined();
  expect(services.refusedAddress('10.96.0.16', 'IPv4', 'default/new')).toBeUndefined();
});

it('adds and removes the second family', () => {
  create('a', { ports: tcp80 });
  expect(patch('a', { ipFamilyPolicy: 'PreferDualStack' })).toMatchObject({ clusterIPs: ['10.96.0.16', 'fd00:96::100'] });
  expect(patch('a', { ipFamilyPolicy: 'SingleStack' })).toMatchObject({ clusterIPs: ['10.96.0.16'], ipFamilies: ['IPv4'] });
});

it('rejects a change of an address', () => {
  create('a', { ports: tcp80 });
  expect(refusal(() => patch('a', { clusterIP: '10.96.0.99', clusterIPs: ['10.96.0.99'] }))).toBe(
    'Service "a" is invalid: spec.clusterIPs[0]: Invalid value: []string{"10.96.0.99"}: may not change once set',
  );
});

it('sets and removes the affinity time with the affinity', () => {
  expect(create('a', { ports: tcp80, sessionAffinity: 'ClientIP' })).toMatchObject({
    sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } },
  });
  expect(patch('a', { sessionAffinity: 'None' })['sessionAffinityConfig']).toBeUndefined();
});

for (const [what, spec, text] of [
  ['no ports', {}, 'spec.ports: Required value'],
  ['a port of 0', { ports: [{}] }, 'spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive'],
  ['a port too large', { ports: [{ port: 70_000 }] }, 'spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive'],
  ['two ports without names', { ports: [{ port: 1 }, { port: 2 }] }, 'spec.ports[0].name: Required value'],
  [
    'a protocol of none',
    { ports: [{ port: 1, protocol: 'ICMP' }] },
    'spec.ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
  ],
  ['a type of none', { type: 'Headless', ports: tcp80 }, 'spec.type: Unsupported value: "Headless"'],
  [
    'two families for a single stack',
    { ports: tcp80, ipFamilyPolicy: 'SingleStack', ipFamilies: ['IPv4', 'IPv6'] },
    'spec.ipFamilyPolicy: Invalid value: "SingleStack"',
  ],
  [
    'a node port on a cluster IP',
    { ports: [{ port: 80, nodePort: 30_000 }] },
    "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
  ],
  ['an external name without a name', { type: 'ExternalName' }, 'spec.externalName: Required value'],
] as const) {
  it(`refuses ${what}`, () => {
    expect(refusal(() => create('bad', { ...spec }))).toContain(text);
  });
}

it('allocates nothing for a failed request', () => {
  expect(refusal(() => create('bad', { type: 'NodePort', ports: [{ port: 0, nodePort: 30_002 }] }))).toContain('must be between');
  expect(services.refusedPort(30_002, 'TCP', 'default/other')).toBeUndefined();
});

function ingress(name: string, list: readonly JsonRecord[]): unknown {
  const resource = builtIn(registry, '', 'services');
  const change = (old: ApiObject) => mergePatch(old, { status: { loadBalancer: { ingress: list } } }) as JsonRecord;
  return writer.update(resource, `default/${name}`, change, { subresource: 'status' }).status;
}

it('accepts the addresses of a load balancer, as VIP by default', () => {
  create('balanced', { type: 'LoadBalancer', ports: tcp80 });
  const list = [{ ip: '198.51.100.1' }, { ip: '198.51.100.2', ipMode: 'Proxy' }, { hostname: 'lb.example' }];
  expect(ingress('balanced', list)).toEqual({
    loadBalancer: { ingress: [{ ip: '198.51.100.1', ipMode: 'VIP' }, { ip: '198.51.100.2', ipMode: 'Proxy' }, { hostname: 'lb.example' }] },
  });
  expect(refusal(() => ingress('balanced', [{ ip: '198.51.100.1', ipMode: 'vip' }]))).toContain('supported values: "Proxy", "VIP"');
  expect(refusal(() => ingress('balanced', [{ hostname: 'lb.example', ipMode: 'VIP' }]))).toContain('when `ip` is not set');
  expect(refusal(() => ingress('balanced', [{ ip: '198.51.100' }]))).toContain('must be a valid IP address');
});

it('rejects load balancer addresses for other types, and removes them with the type', () => {
  create('balanced', { type: 'LoadBalancer', ports: tcp80 });
  ingress('balanced', [{ ip: '198.51.100.1' }]);
  patch('balanced', { type: 'ClusterIP' });
  expect(store.get('services', 'default/balanced')?.object.status).toEqual({ loadBalancer: {} });
  expect(refusal(() => ingress('balanced', [{ ip: '198.51.100.1' }]))).toContain("`spec.type` is 'LoadBalancer'");
});
