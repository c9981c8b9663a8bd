import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { silentLog } from '../../../src/base/log/log.ts';
import { openClusterObjects } from '../cluster-objects.ts';
import type { ApiObject } from '../object/api-object.ts';
import { arrayAt, at, type JsonRecord } from '../object/json.ts';
import type { Registry } from '../resource/registry.ts';
import { Store } from '../store/store.ts';
import type { ObjectWriter } from '../write/object-writer.ts';
import { mergePatch } from '../write/patch/patch.ts';
import { podBinder } from '../write/pod-subresources.ts';
import { builtIn } from './access.ts';
import { startControllers } from './controllers.ts';
import { eventLimit } from './event-limit.ts';

/** Waits for what comes soon, and long enough for a busy host. */
const eventually = (check: () => unknown) => vi.waitFor(check, { timeout: 10_000 });

let store: Store;
let registry: Registry;
let writer: ObjectWriter;
let stop: () => Promise<void>;

beforeEach(() => {
  store = new Store();
  ({ registry, writer } = openClusterObjects({
    store,
    serviceCidrs: ['10.96.0.0/16', 'fd00:96::/112'],
    nodePortRange: { first: 30_000, last: 30_100 },
    now: Date.now,
  }));
  const podRanges = { cidrs: ['10.10.0.0/20', 'fd00:10::/62'], masks: { ipv4: 22, ipv6: 64 } };
  const bindPod = podBinder({ store, now: Date.now });
  stop = startControllers({ store, registry, writer, bindPod, podRanges, caPem: 'CA', log: silentLog, now: Date.now });
});

afterEach(() => stop());

function create(group: string, plural: string, body: JsonRecord, namespace?: string): ApiObject {
  return writer.create(builtIn(registry, group, plural), namespace, body, {});
}

function node(name: string, labels: Record<string, string> = {}): void {
  create('', 'nodes', { metadata: { name, labels }, status: { conditions: [{ type: 'Ready', status: 'True' }] } });
}

function pod(name: string, spec: JsonRecord = {}): void {
  const containers = [{ name: 'c', image: 'x', ports: [{ name: 'web', containerPort: 8080 }] }];
  create('', 'pods', { metadata: { name, labels: { app: 'web' } }, spec: { containers, ...spec } }, 'default');
}

function status(name: string, change: JsonRecord): void {
  writer.update(builtIn(registry, '', 'pods'), `default/${name}`, (old) => mergePatch(old, { status: change }) as JsonRecord, {
    subresource: 'status',
  });
}

const nodeOf = (name: string) => at(store.get('pods', `default/${name}`)?.object.spec, 'nodeName');
const rangesOf = (name: string) => at(store.get('nodes', name)?.object.spec, 'podCIDRs');
const slices = () => store.list('discovery.k8s.io/endpointslices').map(({ object }) => object);

it('assigns node CIDRs of both families, and reuses a freed one last', async () => {
  for (const name of ['n1', 'n2', 'n3', 'n4']) node(name);
  await eventually(() => expect(rangesOf('n4')).toEqual(['10.10.12.0/22', 'fd00:10:0:3::/64']));
  expect(rangesOf('n1')).toEqual(['10.10.0.0/22', 'fd00:10::/64']);
  node('n5');
  await eventually(() => expect(store.list('events').map(({ object }) => object['reason'])).toEqual(['CIDRNotAvailable']));
  writer.delete(builtIn(registry, '', 'nodes'), undefined, 'n2', {});
  node('n6');
  await eventually(() => expect(rangesOf('n6')).toEqual(['10.10.4.0/22', 'fd00:10:0:1::/64']));
});

it('spreads pods over ready nodes, within their selectors', async () => {
  pod('waits');
  await eventually(() => expect(store.list('events').map(({ object }) => object['reason'])).toEqual(['FailedScheduling']));
  node('n1');
  node('n2', { 'kubernetes.io/hostname': 'n2' });
  await eventually(() => expect(nodeOf('waits')).toBe('n1'));
  pod('p2');
  await eventually(() => expect(nodeOf('p2')).toBe('n2'));
  pod('p3', { nodeSelector: { 'kubernetes.io/hostname': 'n2' } });
  await eventually(() => expect(nodeOf('p3')).toBe('n2'));
});

it('keeps slices of both families, with named ports and conditions', async () => {
  node('n1', { 'topology.kubernetes.io/zone': 'z1' });
  create(
    '',
    'services',
    {
      metadata: { name: 'web' },
      spec: { selector: { app: 'web' }, ipFamilyPolicy: 'PreferDualStack', ports: [{ name: 'http', port: 80, targetPort: 'web' }] },
    },
    'default',
  );
  await eventually(() => expect(slices().map((slice) => slice['endpoints'])).toEqual([null, null]));
  pod('p1', { nodeName: 'n1' });
  status('p1', { phase: 'Running', podIPs: [{ ip: '10.10.0.2' }, { ip: 'fd00:10::2' }] });
  const endpoints = (type: string) =>
    arrayAt(
      slices().find((slice) => slice['addressType'] === type),
      'endpoints',
    );
  await eventually(() =>
    expect(endpoints('IPv6')).toMatchObject([
      { addresses: ['fd00:10::2'], conditions: { ready: false, serving: false, terminating: false }, nodeName: 'n1', zone: 'z1' },
    ]),
  );
  status('p1', { conditions: [{ type: 'Ready', status: 'True' }] });
  await eventually(() => expect(endpoints('IPv4')).toMatchObject([{ addresses: ['10.10.0.2'], conditions: { ready: true } }]));
  expect(slices()[0]?.['ports']).toEqual([{ name: 'http', port: 8080, protocol: 'TCP' }]);
  writer.delete(builtIn(registry, '', 'pods'), 'default', 'p1', {});
  await eventually(() => expect(endpoints('IPv4')).toMatchObject([{ conditions: { ready: false, serving: true, terminating: true } }]));
  writer.delete(builtIn(registry, '', 'pods'), 'default', 'p1', { gracePeriodSeconds: 0 });
  await eventually(() => expect(endpoints('IPv4')).toEqual([]));
  writer.delete(builtIn(registry, '', 'services'), 'default', 'web', {});
  await eventually(() => expect(slices()).toEqual([]));
});

it('recreates a slice that a client deleted', async () => {
  create('', 'services', { metadata: { name: 'web' }, spec: { selector: { app: 'web' }, ports: [{ port: 80 }] } }, 'default');
  await eventually(() => expect(slices()).toHaveLength(1));
  const [first] = slices();
  writer.delete(builtIn(registry, 'discovery.k8s.io', 'endpointslices'), 'default', first?.metadata.name ?? '', {});
  await eventually(() => expect(slices().filter((slice) => slice.metadata.uid !== first?.metadata.uid)).toHaveLength(1));
});

it('creates the default objects of a namespace, and empties it before its deletion', async () => {
  create('', 'namespaces', { metadata: { name: 'shop' } });
  await eventually(() => expect(store.get('configmaps', 'shop/kube-root-ca.crt')?.object['data']).toEqual({ 'ca.crt': 'CA' }));
  create('', 'configmaps', { metadata: { name: 'held', finalizers: ['example.com/hold'] } }, 'shop');
  writer.delete(builtIn(registry, '', 'namespaces'), undefined, 'shop', {});
  await eventually(() => expect(store.get('configmaps', 'shop/kube-root-ca.crt')).toBeUndefined());
  expect(store.get('namespaces', 'shop')?.object.status).toEqual({ phase: 'Terminating' });
  writer.update(
    builtIn(registry, '', 'configmaps'),
    'shop/held',
    (old) => mergePatch(old, { metadata: { finalizers: null } }) as JsonRecord,
    {},
  );
  await eventually(() => expect(store.get('namespaces', 'shop')).toBeUndefined());
});

it('keeps the newest events', async () => {
  for (let count = 0; count < eventLimit + 1; count++)
    create('', 'events', { metadata: { name: `e${count}` }, involvedObject: {} }, 'default');
  await eventually(() => expect(store.count('events')).toBeLessThanOrEqual(eventLimit));
  expect([store.get('events', 'default/e0'), store.get('events', `default/e${eventLimit}`)]).toEqual([undefined, expect.anything()]);
});

it('deletes dependents with their last owner, waits in the foreground, and keeps orphans', async () => {
  const owned = (name: string, ...owners: ApiObject[]) =>
    create(
      '',
      'configmaps',
      {
        metadata: {
          name,
          ownerReferences: owners.map(({ metadata }) => ({ apiVersion: 'v1', kind: 'ConfigMap', name: metadata.name, uid: metadata.uid })),
        },
      },
      'default',
    );
  const there = (name: string) => store.get('configmaps', `default/${name}`)?.object;
  const configMaps = builtIn(registry, '', 'configmaps');
  const [a, b, c] = [owned('a'), owned('b'), owned('c')];
  owned('of-a-and-b', a, b);
  owned('of-c', c);
  writer.delete(configMaps, 'default', 'a', {});
  await eventually(() => expect(there('of-a-and-b')?.metadata.ownerReferences).toMatchObject([{ name: 'b' }]));
  writer.delete(configMaps, 'default', 'b', { propagationPolicy: 'Foreground' });
  await eventually(() => expect([there('b'), there('of-a-and-b')]).toEqual([undefined, undefined]));
  writer.delete(configMaps, 'default', 'c', { propagationPolicy: 'Orphan' });
  await eventually(() => expect(there('c')).toBeUndefined());
  expect(there('of-c')?.metadata.ownerReferences).toEqual([]);
});
