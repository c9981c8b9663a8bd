import { setImmediate as nextLoopTurn } from 'node:timers/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { filledService } from '../../../test/support/scene-service.ts';
import { servicesScenario } from '../../../test/support/services-scenario.ts';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { hostCidr, parseCidr, parseIp } from '../../base/net/ip.ts';
import { encodeBridgeEntries } from '../../dataplane/targets/bridge/bridge-entry.ts';
import { type EndpointSlice, endpointSlices } from '../../kubernetes/resources/endpoint-slice.ts';
import { type Service, services } from '../../kubernetes/resources/service.ts';
import { compileService } from '../compile/compile-service.ts';
import type { ProxyConfig } from '../compile/proxy-config.ts';
import { serviceBounds } from '../compile/service-bounds.ts';
import { externalElements } from './service-firewall.ts';
import type { ServiceHost } from './service-host.ts';

/** Largest object that an API server stores (etcd's `--max-request-bytes`). */
const storedBytes = 1_500_000;
/** Configuration that accepts all addresses of tests as external ones. */
const anyExternal: Partial<ProxyConfig> = { externalIpRanges: [parseCidr('0.0.0.0/0')] };

const list = <T>(length: number, make: (index: number) => T): T[] => Array.from({ length }, (_, index) => make(index));
const ipOf = (first: number, index: number): string => `${first}.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`;

/** Repeating fields of a Service's object that this agent reads, with a value of `count` elements each. */
const serviceFields = {
  ports: (count) => ({ spec: { ports: list(count, (at) => ({ name: `p${at}`, protocol: 'TCP', port: at + 1, nodePort: at + 1 })) } }),
  externalIPs: (count) => ({ spec: { externalIPs: list(count, (at) => ipOf(20, at)) } }),
  loadBalancerSourceRanges: (count) => ({ spec: { loadBalancerSourceRanges: list(count, (at) => `${ipOf(30, at)}/32`) } }),
  'status.loadBalancer.ingress': (count) => ({ status: { loadBalancer: { ingress: list(count, (at) => ({ ip: ipOf(40, at) })) } } }),
} as const satisfies Record<string, (count: number) => { readonly spec?: object; readonly status?: object }>;

const sliceFields = {
  ports: (count) => ({ ports: list(count, (at) => ({ name: `p${at}`, protocol: 'TCP', port: at + 1 })) }),
  endpoints: (count) => ({ endpoints: list(count, (at) => endpoint(at)) }),
  'endpoints.addresses': (count) => ({ endpoints: [{ ...endpoint(0), addresses: list(count, (at) => ipOf(10, at)) }] }),
  'endpoints.hints.forZones': (count) => ({
    endpoints: [{ ...endpoint(0), hints: { forZones: list(count, (at) => ({ name: `z${at}` })) } }],
  }),
  'endpoints.hints.forNodes': (count) => ({
    endpoints: [{ ...endpoint(0), hints: { forNodes: list(count, (at) => ({ name: `n${at}` })) } }],
  }),
} as const satisfies Record<string, (count: number) => object>;

function endpoint(at: number) {
  return { addresses: [ipOf(10, at)], conditions: { ready: true } };
}

function pairsOf<K extends string>(fields: Readonly<Record<K, unknown>>): [K, K][] {
  const names = Object.keys(fields) as K[];
  return names.flatMap((first, at) => names.slice(at + 1).map((second): [K, K] => [first, second]));
}

/** Returns the number of elements with which a field takes half of the largest object. */
function half(field: (count: number) => object, most = Number.POSITIVE_INFINITY): number {
  const each = (JSON.stringify(field(1_000)).length - JSON.stringify(field(0)).length) / 1_000;
  return Math.min(most, Math.floor(storedBytes / 2 / each));
}

function serviceOf(...parts: readonly { readonly spec?: object; readonly status?: object }[]): Service {
  const metadata = { namespace: 'default', name: 'large', uid: 'u1', labels: {} };
  const spec = {
    type: 'LoadBalancer',
    clusterIP: '10.96.0.9',
    clusterIPs: ['10.96.0.9'],
    ipFamilies: ['IPv4'],
    ports: [{ name: 'p0', port: 1 }],
  };
  const whole = {
    metadata,
    spec: Object.assign({}, spec, ...parts.map((part) => part.spec ?? {})),
    status: Object.assign({}, ...parts.map((part) => part.status ?? {})),
  };
  const projected = services.project(whole);
  if (projected === undefined) throw new Error('no Service');
  return projected;
}

function otherAt(clusterIp: string): Service {
  return filledService({ name: 'other', clusterIps: [clusterIp], ports: [{ name: '', protocol: 'TCP', port: 80, targetPort: 80 }] });
}

function sliceOf(name: string, ...parts: readonly object[]): EndpointSlice {
  const metadata = { namespace: 'default', name, labels: { 'kubernetes.io/service-name': 'large' }, annotations: {} };
  const projected = endpointSlices.project(
    Object.assign({ metadata, addressType: 'IPv4', ports: [{ name: 'p0', port: 1 }], endpoints: [] }, ...parts),
  );
  if (projected === undefined) throw new Error('no EndpointSlice');
  return projected;
}

/** Entries of the node's own stack for external addresses, as `ServiceHost` has them. */
const external: Pick<ServiceHost, 'routes' | 'elements'> = {
  routes: ({ addresses }) =>
    addresses.flatMap(({ kind, ip }) =>
      kind === 'external' ? { destination: hostCidr(ip), via: parseIp('169.254.0.253'), dev: 'gw' } : [],
    ),
  elements: (intent, addresses = intent.addresses) => externalElements({ ...intent, addresses }, () => true),
};

/**
 * Records turns that end after each step, and maxima of one turn: owners of desired entries, entries that are added or removed, and
 * reported ports.
 */
function counted(config?: Partial<ProxyConfig>) {
  const turns = new LoopTurns(0);
  const t = servicesScenario({ turns, host: external, ...(config && { config }) });
  const work = { most: 0, turns: 0, reported: 0, entries: 0 };
  const next = turns.next.bind(turns);
  let before = 0;
  let [reported, reportedBefore] = [0, 0];
  let entriesBefore = 0;
  const { bridge, host, firewall } = t.datapath;
  t.served.subscribe({ changed: ({ ports }) => void (reported += ports.length) });
  vi.spyOn(turns, 'next').mockImplementation(async () => {
    work.most = Math.max(work.most, t.wishes.length - before);
    work.reported = Math.max(work.reported, reported - reportedBefore);
    const entries = bridge.size + host.size + firewall.size;
    work.entries = Math.max(work.entries, Math.abs(entries - entriesBefore));
    work.turns++;
    before = t.wishes.length;
    entriesBefore = entries;
    reportedBefore = reported;
    await next();
  });
  return { ...t, work };
}

/** Bridge that accepts each batch when the test permits it. */
async function withGate(t: ReturnType<typeof counted>) {
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const gate = { isShut: false, batches: 0, open: () => {} };
  const target = t.datapath.targets.bridge;
  const apply = target.apply.bind(target);
  target.apply = async (plan, signal) => {
    gate.batches++;
    if (gate.isShut) await new Promise<void>((resolve) => (gate.open = resolve));
    await apply(plan, signal);
  };
  void t.datapath.run(stop.signal);
  t.datapath.allowRemovals();
  await t.served.inStep(stop.signal);
  return gate;
}

/** Numbers of desired entries of Services, by the subject of each bound. */
function sizes(t: ReturnType<typeof counted>) {
  const ports = t.served.portsOf('default/large');
  let [addresses, endpoints, ranges] = [0, 0, 0];
  for (const { intent } of ports.values()) {
    addresses += intent.addresses.filter(({ kind }) => kind === 'external' || kind === 'loadBalancer').length;
    endpoints += intent.cluster.length + intent.local.length;
    ranges = Math.max(ranges, intent.sourceRanges.length);
  }
  return { ports: ports.size, addresses, endpoints, ranges };
}

async function serve(t: ReturnType<typeof counted>, service: Service, ...slices: readonly EndpointSlice[]): Promise<void> {
  t.services.put('default/large', '1', service);
  t.services.put('default/other', '1', otherAt('10.96.0.8'));
  for (const slice of slices) t.slices.put(`default/${slice.name}`, '1', slice);
  t.services.markSynced();
  t.slices.markSynced();
  await t.follow();
}

function expectBounded(t: ReturnType<typeof counted>): void {
  const found = sizes(t);
  expect(found.ports).toBeLessThanOrEqual(serviceBounds.portAddresses);
  expect(found.addresses).toBeLessThanOrEqual(serviceBounds.portAddresses);
  expect(found.endpoints).toBeLessThanOrEqual(Math.max(serviceBounds.portEndpoints, found.ports));
  expect(found.ranges).toBeLessThanOrEqual(serviceBounds.sourceRanges);
  expect(t.work.most).toBeLessThanOrEqual(260);
  expect(t.work.reported).toBeLessThanOrEqual(200);
  expect(t.work.entries).toBeLessThanOrEqual(2_500);
  expect(t.served.objections.of('default/large').length).toBeLessThanOrEqual(5);
  expect(t.served.portsOf('default/other').size).toBe(1);
}

describe('the largest Service that an API server stores', () => {
  it.each(pairsOf(serviceFields))('is served within bounds, in short turns: %s and %s', async (first, second) => {
    const t = counted(anyExternal);
    const counts = [half(serviceFields[first], 65_535), half(serviceFields[second], 65_535)] as const;
    await serve(
      t,
      serviceOf(serviceFields[first](counts[0]), serviceFields[second](counts[1])),
      sliceOf('large-a', sliceFields.endpoints(10)),
    );
    expectBounded(t);
  });

  it.each(pairsOf(sliceFields))('has bounded endpoints, in short turns: %s and %s of its slice', async (first, second) => {
    const t = counted();
    const counts = [half(sliceFields[first], 20_000), half(sliceFields[second], 20_000)] as const;
    const slice = sliceOf('large-a', sliceFields[first](counts[0]), sliceFields[second](counts[1]));
    await serve(t, serviceOf(serviceFields.ports(Math.min(5_000, slice.ports.length))), slice);
    expectBounded(t);
  });
});

describe('a Service port of many addresses', () => {
  const most = serviceBounds.portAddresses;
  /** Minimum number of entries of an address: its route, two elements, and flows, with those for fragments. */
  const entriesOf = { UDP: 3 + 8, TCP: 3 + 3 } as const;
  const portOf = (protocol: 'TCP' | 'UDP') => ({ spec: { ports: [{ name: 'p0', protocol, port: 1 }] } });
  const slice = (protocol: 'TCP' | 'UDP') => sliceOf('large-a', { ports: [{ name: 'p0', protocol, port: 1 }] }, sliceFields.endpoints(2));

  it.each(['TCP', 'UDP'] as const)('is served, changed and withdrawn in short turns: %s', async (protocol) => {
    const t = counted(anyExternal);
    await serve(t, serviceOf(portOf(protocol), serviceFields.externalIPs(most)), slice(protocol));
    expect(sizes(t)).toMatchObject({ ports: 1, addresses: most });
    const { bridge, host, firewall } = t.datapath;
    const size = () => bridge.size + host.size + firewall.size;
    expect(size()).toBeGreaterThan(most * entriesOf[protocol]);
    t.services.put('default/large', '2', serviceOf(portOf(protocol), serviceFields.externalIPs(1)));
    await t.flush();
    expect(sizes(t)).toMatchObject({ addresses: 1 });
    expect(size()).toBeLessThan(40);
    t.services.put('default/large', '3', serviceOf(portOf(protocol), serviceFields.externalIPs(most)));
    await t.flush();
    t.services.remove('default/large', '4');
    await t.flush();
    expect([...bridge.owners()].filter((owner) => owner.startsWith('service/'))).toEqual(['service/default/other:80-tcp/ipv4']);
    expect([host.size, firewall.size]).toEqual([0, 0]);
    expect(t.work.entries).toBeLessThanOrEqual(2_500);
  });

  it('has the entries that the compiler returns for the whole port', async () => {
    const t = counted(anyExternal);
    await serve(t, serviceOf(portOf('UDP'), serviceFields.externalIPs(most)), slice('UDP'));
    const changed = {
      ...slice('UDP'),
      ...sliceOf('large-a', { ports: [{ name: 'p0', protocol: 'UDP', port: 2 }] }, sliceFields.endpoints(3)),
    };
    t.slices.put('default/large-a', '2', changed);
    t.services.put('default/large', '2', serviceOf(portOf('UDP'), serviceFields.externalIPs(1_000)));
    await t.flush();
    const [[owner, { intent, groups }] = expect.fail('no port')] = t.served.portsOf('default/large');
    const compiled = encodeBridgeEntries(owner, compileService(intent, { owner, groupId: (name) => groups.get(name) ?? 0 }));
    const { bridge } = t.datapath;
    expect(new Map(bridge.keysOf(owner).map((key) => [key, bridge.wanted(key)]))).toEqual(compiled);
  });
});

describe('a Service of many ports', () => {
  it('names what exceeds a bound, and is served with the rest', async () => {
    const t = counted(anyExternal);
    await serve(t, serviceOf(serviceFields.ports(6_000), serviceFields.externalIPs(6_000)));
    expect(sizes(t)).toMatchObject({ ports: 6_000, addresses: 6_000 });
    expect(t.served.objections.of('default/large')).toEqual([
      '5999 of 6000 addresses are not served: a Service with 6000 ports has at most 1',
    ]);
  });

  it('names few of the addresses that the configuration does not allow', async () => {
    const t = counted();
    await serve(t, serviceOf(serviceFields.ports(6_000), serviceFields.externalIPs(6_000)));
    expect(sizes(t)).toMatchObject({ ports: 6_000, addresses: 0 });
    expect(t.served.objections.of('default/large').at(-1)).toBe('and 5997 more like this');
  });

  it('has its source ranges once', async () => {
    const t = counted();
    const ingress = serviceFields['status.loadBalancer.ingress'](1);
    await serve(t, serviceOf(serviceFields.ports(2_500), serviceFields.loadBalancerSourceRanges(2_500), ingress));
    const owners = [...t.datapath.bridge.owners()].filter((owner) => owner.startsWith('service/source-ranges:'));
    expect(owners).toHaveLength(1);
    // A flow for each range, and for each port: from itself, to the ranges, of pods, and cluster address, node port and balancer.
    expect(t.datapath.bridge.size).toBeLessThan(2_500 + 2_500 * 9);
    t.services.remove('default/large', '2');
    await t.flush();
    expect([...t.datapath.bridge.owners()].filter((owner) => owner.startsWith('service/'))).toEqual(['service/default/other:80-tcp/ipv4']);
  });

  it('has the maximum number of endpoints of a Service, and names the others', async () => {
    const t = counted();
    const slice = sliceOf('large-a', sliceFields.ports(1_000), sliceFields.endpoints(1_000));
    await serve(t, serviceOf(serviceFields.ports(1_000)), slice);
    expect(sizes(t)).toMatchObject({ ports: 1_000, endpoints: 100_000 });
    expect(t.served.objections.of('default/large')).toEqual([
      'endpoints: 900 of 1000 of a port get no connections: a Service with 1000 ports has at most 100 each',
    ]);
  });

  it('has few addresses that are endpoints’ as well, each of which has its own list, and names the others', async () => {
    const t = counted(anyExternal);
    const externalIPs = list(1_000, (at) => ipOf(10, at));
    await serve(t, serviceOf({ spec: { externalIPs } }), sliceOf('large-a', sliceFields.endpoints(1_000)));
    expect(sizes(t)).toMatchObject({ ports: 1, addresses: 10, endpoints: 1_000 });
    expect(t.served.objections.of('default/large')).toEqual([
      'port 1: 990 external addresses that are endpoints’ as well are not served: they are too many',
    ]);
  });

  it('does not delay the change of a small Service', async () => {
    const t = counted();
    const ready = (isReady: boolean) => ({ endpoints: [endpoint(0), { ...endpoint(1), conditions: { ready: isReady } }] });
    await serve(t, serviceOf(serviceFields.ports(2_000)), sliceOf('large-a', sliceFields.ports(2_000), ready(true)));
    t.wishes.length = 0;
    t.changes.length = 0;
    t.slices.put('default/large-a', '2', sliceOf('large-a', sliceFields.ports(2_000), ready(false)));
    t.slices.flush();
    // Asked after each turn: a timer could come after all ports were compared.
    while (t.wishes.length <= 10) await nextLoopTurn();
    t.services.put('default/other', '2', otherAt('10.96.0.7'));
    t.services.flush();
    await t.served.settled();
    expect([...new Set(t.changes.map(({ key }) => key))]).toEqual(['default/other', 'default/large']);
    expect(t.changes.at(-1)?.hasMore).toBe(false);
    expect(t.wishes.indexOf('service/default/other:80-tcp/ipv4' as never)).toBeLessThan(1_000);
  });

  it.each([
    ['comes with it', 'together'],
    ['comes while its batches are written', 'later'],
  ] as const)('lets the change of a small Service that %s pass on the bridge', async (_, when) => {
    const t = counted();
    const ready = (isReady: boolean) => ({ endpoints: [endpoint(0), { ...endpoint(1), conditions: { ready: isReady } }] });
    await serve(t, serviceOf(serviceFields.ports(2_000)), sliceOf('large-a', sliceFields.ports(2_000), ready(true)));
    const gate = await withGate(t);
    const acknowledged: string[] = [];
    t.served.subscribe({ changed: ({ key }, has) => void has.then(() => acknowledged.push(key)) });
    gate.isShut = true;
    const changeOther = (): void => {
      t.services.put('default/other', '2', otherAt('10.96.0.7'));
      t.services.flush();
    };
    const before = gate.batches;
    t.slices.put('default/large-a', '2', sliceOf('large-a', sliceFields.ports(2_000), ready(false)));
    if (when === 'together') changeOther();
    t.slices.flush();
    await vi.waitUntil(() => gate.batches > before);
    if (when === 'later') {
      await t.served.settled();
      gate.open();
      await vi.waitUntil(() => gate.batches > before + 1, { timeout: 30_000 });
      changeOther();
    }
    await t.served.settled();
    const written = gate.batches;
    // Batches of thousands of flows wait.
    while (acknowledged.length === 0) {
      const { batches } = gate;
      gate.open();
      await vi.waitUntil(() => acknowledged.length > 0 || gate.batches > batches);
    }
    expect(acknowledged).toEqual(['default/other']);
    expect(gate.batches - written).toBeLessThanOrEqual(2);
    gate.isShut = false;
    gate.open();
  });
});
