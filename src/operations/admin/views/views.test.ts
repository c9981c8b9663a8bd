import { beforeEach, describe, expect, it } from 'vitest';
import { filledService } from '../../../../test/support/scene-service.ts';
import { LoopTurns } from '../../../base/async/loop-turns.ts';
import { silentLog } from '../../../base/log/log.ts';
import { UnservedReasons } from '../../../base/log/unserved-reasons.ts';
import { parseCidr, parseIp } from '../../../base/net/ip.ts';
import { parseMac } from '../../../base/net/mac.ts';
import { packEndpoints } from '../../../base/net/packed-endpoints.ts';
import { compilePod } from '../../../dataplane/compile/compile-pod.ts';
import { nothing } from '../../../dataplane/desired/host-entries.ts';
import { cookieOf, learnedCookie, type Owner, ownerOf } from '../../../dataplane/pipeline/cookie.ts';
import { tableName } from '../../../dataplane/pipeline/tables.ts';
import {
  type BridgeKey,
  type BridgeValue,
  describeFlowEntry,
  isFlowKey,
  isGroupKey,
} from '../../../dataplane/targets/bridge/bridge-entry.ts';
import { NodeState } from '../../../dataplane/targets/node-state.ts';
import { fakeTargets } from '../../../dataplane/targets/testing/fake-targets.ts';
import type { EndpointSlice } from '../../../kubernetes/resources/endpoint-slice.ts';
import type { Service } from '../../../kubernetes/resources/service.ts';
import { compileService } from '../../../services/compile/compile-service.ts';
import type { ServiceIntent } from '../../../services/compile/service-intent.ts';
import { type BridgeSnapshot, bridgeDifferences, flowEntries, numberedEntries } from '../../diagnose/entries/bridge-entries.ts';
import { hostEntries, portEntries } from '../../diagnose/entries/node-entries.ts';
import { ownersByCookie } from '../../diagnose/entries/owners.ts';
import { partsOf } from '../../diagnose/entries/targets.ts';
import { holdingsOf } from './holdings.ts';
import { explainService, type ServiceClient } from './service-explanation.ts';
import { type ServiceSources, serviceView } from './service-view.ts';

const pod = ownerOf('pod', 'default', 'web-0', 'eth0@abc');
const service = ownerOf('service', 'default/web:http/ipv4');
const peer = ownerOf('peer', 'n2');
const silent = { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} };
const words = {
  names: { table: tableName, port: (port: number) => (port === 32_784 ? '"web0-1234567"' : undefined) },
  ownerOf: () => undefined,
};
const via = parseIp('10.10.4.1');
const gw = 'antrea-gw0';

const intent: ServiceIntent = {
  name: 'http/ipv4',
  family: 'ipv4',
  transport: 'tcp',
  port: 80,
  addresses: [{ kind: 'cluster', ip: parseIp('10.96.0.10'), port: 80 }],
  internalPolicy: 'Cluster',
  externalPolicy: 'Cluster',
  translation: 'bucket',
  sourceRanges: [],
  cluster: [
    { ip: parseIp('10.10.0.5'), port: 8080 },
    { ip: parseIp('10.10.0.6'), port: 8080 },
  ],
  local: [],
  anyEndpoint: true,
  objections: [],
};

let targets: ReturnType<typeof fakeTargets>;
let datapath: NodeState;

/** Node in sync with its desired state. */
beforeEach(async () => {
  targets = fakeTargets();
  datapath = new NodeState(targets, silent);
  datapath.want(pod, compilePod({ ofPort: 32_784, mac: parseMac('0e:00:00:00:00:05'), addresses: [parseIp('10.10.0.5')] }));
  datapath.want(service, compileService(intent, { owner: service, groupId: () => 7 }));
  datapath.want(peer, { ...nothing, routes: [{ destination: parseCidr('10.10.4.0/22'), via, dev: gw }] });
  datapath.wantPort(pod, { name: 'web0-1234567', type: '', ofPort: 32_784, options: {}, externalIds: { 'pod-name': 'web-0' } });
  const stop = new AbortController();
  const running = datapath.run(stop.signal);
  await Promise.all([datapath.realized({ owner: pod, bridge: datapath.bridge.revision, host: datapath.host.revision }, stop.signal)]);
  await datapath.reconcilers.switch.realized(datapath.switch.revision, stop.signal);
  stop.abort();
  await running;
});

function snapshot(): BridgeSnapshot {
  return { held: new Map(targets.bridge.held), learned: new Map(), counted: new Map() };
}

function keyWhere(wanted: (table: string | undefined) => boolean): BridgeKey {
  const key = [...targets.bridge.held.keys()].find((each) => isFlowKey(each) && wanted(tableName(each.charCodeAt(1))));
  if (key === undefined) throw new Error('no such flow');
  return key;
}

async function all<T>(entries: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const entry of entries) found.push(entry);
  return found;
}

const telling = { words, turns: new LoopTurns(8) };
const flows = (held: BridgeSnapshot, narrowed = {}) => all(flowEntries(partsOf(datapath).bridge, held, narrowed, telling));

describe('flows', () => {
  it('are ok if the bridge has the desired one', async () => {
    const every = await flows(snapshot());
    expect(every).toHaveLength(targets.bridge.held.size - 1); // one is the group
    expect(new Set(every.map(({ state }) => state))).toEqual(new Set(['ok']));
    expect(every.find(({ table }) => table === 'classify')).toMatchObject({
      owners: [pod],
      wanted: `cookie=0x${cookieOf(pod).toString(16)}, table=classify, priority=200,in_port="web0-1234567" actions=set_field:0x3/0xf->reg0,goto_table:spoofGuard`,
      packets: null,
    });
  });

  it('are missing, changed or extra, with both texts', async () => {
    const held = snapshot();
    const [gone, changed] = [keyWhere((table) => table === 'classify'), keyWhere((table) => table === 'switch')];
    held.held.delete(gone);
    held.held.set(changed, held.held.get(keyWhere((table) => table === 'balance')) ?? ('' as BridgeValue));
    datapath.forget(service);
    const bad = (await flows(held)).filter(({ state }) => state !== 'ok');
    expect(bad.map(({ state, table }) => `${state} ${table}`).toSorted()).toEqual(['changed switch', 'extra balance', 'missing classify']);
    expect(bad.find(({ state }) => state === 'missing')).toMatchObject({ actual: null, owners: [pod] });
    expect(bad.find(({ state }) => state === 'extra')).toMatchObject({ wanted: null, owners: [] });
    const { wanted, actual } = bad.find(({ state }) => state === 'changed') ?? {};
    expect(wanted).not.toBe(actual);
  });

  it('without an owner still name the previous one', async () => {
    const byCookie = await ownersByCookie([pod, service], new LoopTurns(8));
    const held = snapshot();
    datapath.forget(service);
    const reported = { ...telling, words: { ...words, ownerOf: (cookie: bigint) => byCookie.get(cookie) } };
    const named = await all(flowEntries(partsOf(datapath).bridge, held, {}, reported));
    expect(named.filter(({ state }) => state === 'extra')).toMatchObject([{ owners: [service] }]);
  });

  it('are filtered by table, and by owner up to a slash', async () => {
    expect(new Set((await flows(snapshot(), { table: 'classify' })).map(({ table }) => table))).toEqual(new Set(['classify']));
    expect(await flows(snapshot(), { owner: 'pod/default/web-0' })).toHaveLength((await flows(snapshot(), { owner: pod })).length);
    expect(await flows(snapshot(), { owner: 'pod/default/web' })).toEqual([]);
    expect(await flows(snapshot(), { owner: 'service' })).toHaveLength(1);
  });

  it('that OVS learned are shown and are not foreign changes', async () => {
    const held = snapshot();
    const key = keyWhere((table) => table === 'balance');
    const value = held.held.get(key);
    if (value === undefined) throw new Error('no flow');
    const bytes = Buffer.from(value, 'latin1');
    bytes.writeBigUInt64BE(learnedCookie);
    held.learned.set(`Fx${key.slice(2)}` as BridgeKey, bytes.toString('latin1') as BridgeValue);
    expect((await flows(held)).filter(({ state }) => state !== 'ok')).toMatchObject([{ state: 'learned', table: 'unknownTunnelPeers' }]);
    expect(describeFlowEntry(key, bytes.toString('latin1') as BridgeValue).cookie).toBe(learnedCookie);
  });

  it('of a refused owner have the reason', async () => {
    const key = keyWhere((table) => table === 'classify');
    targets.bridge.wipe();
    targets.bridge.poison.add(key);
    const stop = new AbortController();
    const running = datapath.run(stop.signal);
    datapath.reconcilers.bridge.invalidate();
    await expect.poll(() => datapath.reconcilers.bridge.failures().length).toBe(1);
    stop.abort();
    await running;
    const refused = (await flows(snapshot())).find(({ table }) => table === 'classify');
    expect(refused).toMatchObject({ state: 'missing', error: { message: '[REFUSED] fake', ageSeconds: 0 } });
    expect(holdingsOf(partsOf(datapath), { bridge: targets.bridge.held, host: targets.host.held }, [pod])).toMatchObject({
      state: 'missing',
      error: { message: '[REFUSED] fake' },
    });
  });
});

it('shows groups in the form of ovs-ofctl', async () => {
  expect(await all(numberedEntries(partsOf(datapath).bridge, snapshot(), { kind: 'group' }, telling))).toMatchObject([
    {
      name: '7',
      state: 'ok',
      owners: [service],
      wanted: expect.stringMatching(/^group_id=7,type=select,selection_method=dp_hash,bucket=/),
    },
  ]);
});

it('lists only differences in a diff', async () => {
  const held = snapshot();
  const collect = async () =>
    (await all(bridgeDifferences(partsOf(datapath).bridge, held, telling))).map(({ state, kind }) => `${state} ${kind}`);
  expect(await collect()).toEqual([]);
  held.held.delete(keyWhere((table) => table === 'route'));
  for (const key of held.held.keys()) if (isGroupKey(key)) held.held.delete(key);
  expect((await collect()).toSorted()).toEqual(['missing flow', 'missing group']);
});

describe('ports', () => {
  const stateOf = (ofPort: number | undefined, error?: string) => () => ({ ofPort, error });
  const ports = (state: ReturnType<typeof stateOf>) => [...portEntries(partsOf(datapath).switch, targets.switch.held, state)];

  it('are ok with the requested number', () => {
    expect(ports(stateOf(32_784))).toMatchObject([
      { name: 'web0-1234567', state: 'ok', ofPort: 32_784, wanted: 'port web0-1234567 ofport_request=32784 external_ids:pod-name="web-0"' },
    ]);
  });

  it('are changed with another number, or none', () => {
    expect(ports(stateOf(5))).toMatchObject([{ state: 'changed', ofPort: 5, actual: expect.stringContaining(' ofport=5') }]);
    expect(ports(stateOf(-1, 'could not open network device'))).toMatchObject([
      { state: 'changed', ofPort: null, error: { message: 'ovs-vswitchd: could not open network device' } },
    ]);
  });
});

it('names missing entries of the node’s own stack in the words of ip', () => {
  expect([...hostEntries(partsOf(datapath).host, targets.host.held)]).toMatchObject([
    { state: 'ok', wanted: 'route 10.10.4.0/22 via 10.10.4.1 dev antrea-gw0 onlink', owners: [peer] },
  ]);
  expect([...hostEntries(partsOf(datapath).host, new Map())]).toMatchObject([{ state: 'missing', actual: null }]);
});

describe('a Service', () => {
  const plain = filledService({
    name: 'web',
    clusterIps: ['10.96.0.10'],
    ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080 }],
  });
  const objections = new UnservedReasons('Service', silentLog);
  const slice: EndpointSlice = {
    namespace: 'default',
    name: 'web-x',
    service: 'web',
    family: 'ipv4',
    ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
    endpoints: packEndpoints(
      ['10.10.0.5', '10.10.0.6', '10.10.0.7'].map((address, at) => ({
        addresses: [address],
        ready: at < 2,
        serving: at < 2,
        terminating: false,
        nodeName: `n${at + 1}`,
      })),
    ),
  };
  const nodePort = { kind: 'nodePort', ip: parseIp('169.254.0.252'), port: 30_080 } as const;
  const sources = (changes: Partial<ServiceIntent> = {}): ServiceSources => ({
    ownersOf: () => ({ ports: [service], endpoints: new Set<Owner>() }),
    portsOf: () =>
      new Map([
        [
          service,
          {
            intent: { ...intent, addresses: [...intent.addresses, nodePort], ...changes },
            groups: new Map([['cluster/0', 7]]),
          },
        ],
      ]),
    slicesOf: () => [slice],
    times: { of: () => ({ at: new Date(Date.UTC(2026, 0, 1)), tookMs: 4.16 }) },
    proxying: {
      node: { name: 'n1', families: ['ipv4'], sctp: false, addresses: [], gateway: [] },
      config: {
        proxyAll: true,
        skipServices: new Set(),
        proxyLoadBalancerIps: true,
        serviceProxyName: '',
        externalIpRanges: [],
        bucketTranslation: true,
      },
    },
    objections,
  });
  const view = (changes: Partial<Service>) =>
    serviceView({ ...plain, ...changes }, sources(), partsOf(datapath), { bridge: targets.bridge.held, host: targets.host.held });

  it('has its entries and its endpoints', () => {
    expect(view({})).toMatchObject({
      name: 'default/web',
      state: 'ok',
      flows: { wanted: 2, held: 2, changed: 0 },
      ports: ['http:80/TCP'],
      notServed: [],
    });
  });

  it('names where it is served, unused endpoints with reasons, and the duration of the last change', () => {
    expect(view({})).toMatchObject({
      addresses: ['10.96.0.10', 'node port 30080'],
      unused: [{ why: 'not ready', count: 1 }],
      endpoints: 2,
      groups: [7],
      lastChange: '2026-01-01T00:00:00.000Z',
      programmedMs: 4.2,
    });
  });

  const explain = (
    clients: readonly ServiceClient[],
    changes: Partial<ServiceIntent> = {},
    of: Partial<Service> = {},
    fullAffinities: readonly Owner[] = [],
  ) =>
    explainService({ service: { ...plain, ...of }, services: sources(changes), node: 'n1', clients, proxyAll: 'on', fullAffinities }).lines;
  const external: ServiceClient = { client: 'external', name: 'An external client', addresses: [] };
  const somePod: ServiceClient = { client: 'pod', name: 'Pod a', addresses: [parseIp('10.10.0.9')] };

  it('is explained in sentences', () => {
    expect(explain([somePod, external])).toEqual([
      'Port http/ipv4, TCP:',
      '  Pod a at cluster address 10.96.0.10:80 gets one of 2 endpoints: 10.10.0.5:8080, 10.10.0.6:8080.',
      '  An external client at cluster address 10.96.0.10:80 gets one of 2 endpoints: 10.10.0.5:8080, 10.10.0.6:8080.',
      '  Pod a at node port 30080 gets one of 2 endpoints: 10.10.0.5:8080, 10.10.0.6:8080.',
      '  An external client at node port 30080 gets one of 2 endpoints: 10.10.0.5:8080, 10.10.0.6:8080; those of this node see the client’s address, those of others an address of this node’s pod network.',
      '  10.10.0.7:8080 is not used: not ready.',
    ]);
  });

  it('is explained if a port remembers the maximum number of clients', () => {
    const [owner = expect.fail('no port')] = sources({}).portsOf('default/web').keys();
    const lines = explain([external], { affinitySeconds: 600 }, {}, [owner]);
    expect(lines).toContain('! 10000 clients are remembered, the maximum of a port: further clients are balanced without affinity.');
    expect(explain([external], { affinitySeconds: 600 }).join()).not.toContain('10000');
  });

  it('is explained if it drops, refuses or excludes clients', () => {
    const balancer = { kind: 'loadBalancer', ip: parseIp('192.0.2.1'), port: 80 } as const;
    expect(explain([external], { addresses: [nodePort], externalPolicy: 'Local' })[1]).toContain('is dropped: only endpoints of this node');
    expect(explain([external], { addresses: [nodePort], cluster: [], anyEndpoint: false })[1]).toContain(
      'is refused immediately: there is no endpoint.',
    );
    const ranges = { addresses: [balancer], sourceRanges: [parseCidr('198.51.100.0/24')] };
    expect(explain([somePod, external], ranges).slice(1, 3)).toEqual([
      '  Pod a at load balancer’s address 192.0.2.1:80 is dropped: it is in none of loadBalancerSourceRanges.',
      expect.stringContaining(', if it is in 198.51.100.0/24'),
    ]);
    expect(explain([external], {}, { type: 'ExternalName' })).toEqual(['default/web is not served by n1: ExternalName is for DNS.']);
  });

  it('is idle if nothing is to be served', () => {
    expect(view({ clusterIps: [] })).toMatchObject({ state: 'idle', notServed: ['headless: DNS returns the endpoints'] });
    expect(view({ type: 'ExternalName' })).toMatchObject({ state: 'idle' });
    expect(view({ proxyName: 'other' })).toMatchObject({ state: 'idle', notServed: ['served by "other"'] });
  });
});

it('names both owners of a shared cookie', async () => {
  const same = await ownersByCookie([pod, pod], new LoopTurns(8));
  expect(same.get(cookieOf(pod))).toBe(`${pod} or ${pod}`);
});
