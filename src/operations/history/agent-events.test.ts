import { expect, it } from 'vitest';
import type { Problem } from '../../api/problem.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { packEndpoints } from '../../base/net/packed-endpoints.ts';
import { ReplicaStore } from '../../kubernetes/client/replica/replica.ts';
import { ConnectionEvents, noteCall, noteNodeEvent, noteStage, ProblemRecord, recordedNodeState, SourceEvents } from './agent-events.ts';
import { DeniedBursts } from './denied-bursts.ts';
import { eventText } from './event-kinds.ts';
import type { EventRecorder } from './event-stream.ts';
import { NodeWatch } from './node-watch.ts';
import { changedFields, ObjectEvents } from './object-events.ts';

interface Noted {
  readonly kind: string;
  readonly subjects: readonly string[];
  readonly text: string;
}

function recorder(): EventRecorder & { readonly noted: Noted[] } {
  const noted: Noted[] = [];
  return { noted, note: (kind, subjects, data) => void noted.push({ kind, subjects, text: eventText(kind, { ...(data as object) }) }) };
}

const kinds = (noted: readonly Noted[]): string[] => noted.map(({ kind }) => kind);

it('records calls of the runtime with pod and stages, and failures of every command', () => {
  const events = recorder();
  noteCall(events, { command: 'ADD', code: 0, tookMs: 31, stages: [['ipam', 2]], pod: 'shop/web-1' });
  noteCall(events, { command: 'DEL', code: 0, tookMs: 5, stages: [] });
  noteCall(events, { command: 'STATUS', code: 0, tookMs: 5, stages: [] });
  noteCall(events, { command: 'STATUS', code: 50, tookMs: 5, stages: [] });
  noteStage(events, 'port', 12, 'pod/shop/web-1/eth0@4f5e');
  noteStage(events, 'announce', 1, 'pod/shop/web-1/eth0@4f5e');
  expect(events.noted).toEqual([
    { kind: 'cni.add', subjects: ['pod/shop/web-1'], text: 'ADD answered after 31 ms: ipam 2 ms' },
    { kind: 'cni.del', subjects: [], text: 'DEL answered after 5 ms' },
    { kind: 'cni.failed', subjects: [], text: 'STATUS failed with CNI error 50 after 5 ms' },
    { kind: 'pod.port', subjects: ['pod/shop/web-1'], text: 'OVS opened the port of the pod after 12 ms' },
    { kind: 'pod.announced', subjects: ['pod/shop/web-1'], text: 'the addresses of the pod were announced to the network' },
  ]);
});

it('records that the bridge is complete at first and after a loss, not after every change', () => {
  const events = recorder();
  const none = () => undefined;
  const state = recordedNodeState(
    { round: none, drift: none, repaired: none, failure: none, refused: none } as unknown as Parameters<typeof recordedNodeState>[0],
    events,
    () => [],
  );
  for (let count = 0; count < 3; count++) state.complete?.('bridge');
  expect(kinds(events.noted)).toEqual(['bridge.complete']);
  state.lost?.('bridge', ['1']);
  state.complete?.('host');
  for (let count = 0; count < 2; count++) state.complete?.('bridge');
  expect(kinds(events.noted)).toEqual(['bridge.complete', 'drift.lost', 'bridge.complete']);
  state.failure('bridge', new SeineError('UNAVAILABLE', 'no answer'));
  state.complete?.('bridge');
  expect(kinds(events.noted).slice(3)).toEqual(['target.failing', 'bridge.complete']);
});

it('records no failure of a connection that the agent ends', () => {
  const events = recorder();
  new ConnectionEvents(events).failed('bridge', new SeineError('CANCELLED', 'connection no longer needed'));
  expect(events.noted).toEqual([]);
});

it('records changes of objects with the names of fields, and the endpoints of a Service', () => {
  const events = recorder();
  const objects = new ObjectEvents(events);
  const pods = new ReplicaStore<object>();
  pods.observe(objects.of('PolicyPod'));
  pods.put('shop/web-1', '5', { labels: { app: 'web' }, ips: ['10.10.0.5'] });
  pods.put('shop/web-1', '6', { labels: { app: 'web', tier: 'front' }, ips: ['10.10.0.5'] });
  pods.put('shop/web-1', '7', { labels: { app: 'web', tier: 'front' }, ips: ['10.10.0.5'] }); // nothing that the agent uses
  pods.remove('shop/web-1', '8');
  const slices = new ReplicaStore<object>();
  slices.observe(objects.of('EndpointSlice'));
  const slice = (...ready: string[]) => ({
    namespace: 'shop',
    name: 'db-x',
    service: 'db',
    endpoints: packEndpoints(ready.map((address) => ({ addresses: [address], ready: true, serving: true, terminating: false }))),
  });
  slices.put('shop/db-x', '1', slice('10.10.0.7'));
  slices.put('shop/db-x', '2', slice('10.10.0.8'));
  expect(events.noted).toEqual([
    { kind: 'object.added', subjects: ['pod/shop/web-1'], text: 'received Pod shop/web-1, version 5' },
    { kind: 'object.changed', subjects: ['pod/shop/web-1'], text: 'received Pod shop/web-1, version 6: labels.tier changed' },
    { kind: 'object.removed', subjects: ['pod/shop/web-1'], text: 'Pod shop/web-1 was removed' },
    { kind: 'endpoint.added', subjects: ['service/shop/db'], text: 'endpoints of shop/db added: 10.10.0.7' },
    { kind: 'object.added', subjects: ['service/shop/db'], text: 'received EndpointSlice shop/db-x, version 1' },
    { kind: 'endpoint.added', subjects: ['service/shop/db'], text: 'endpoints of shop/db added: 10.10.0.8' },
    { kind: 'endpoint.removed', subjects: ['service/shop/db'], text: 'endpoints of shop/db removed: 10.10.0.7' },
    { kind: 'object.changed', subjects: ['service/shop/db'], text: 'received EndpointSlice shop/db-x, version 2: endpoints changed' },
  ]);
});

it('records a list of many changes as one event, a first list not at all, and what two sources receive once', () => {
  const events = recorder();
  const objects = new ObjectEvents(events);
  const store = new ReplicaStore<{ readonly n: number }>();
  store.observe(objects.of('Service'));
  const list = (from: number, count: number) =>
    new Map(
      Array.from({ length: count }, (_, at) => [
        `shop/s${from + at}`,
        store.reuse(`shop/s${from + at}`, String(from + at + 1), { n: from + at }),
      ]),
    );
  store.replace(list(0, 1_000));
  expect(events.noted).toEqual([]);
  store.replace(list(200, 1_000));
  expect(events.noted.map(({ text }) => text)).toEqual(['Service: a list has 200 new, 0 changed and 200 removed objects']);
  const [local, all] = [new ReplicaStore<object>(), new ReplicaStore<object>()];
  local.observe(objects.of('Pod'));
  all.observe(objects.of('PolicyPod'));
  for (const pods of [local, all]) pods.put('shop/web-1', '5', { ips: [] });
  expect(kinds(events.noted.slice(1))).toEqual(['object.added']);
});

it('names changed fields of two levels, and no values', () => {
  expect(changedFields({ a: 1, b: { c: 1, d: [1] } }, { a: 2, b: { c: 1, d: [2], e: 'secret' } })).toEqual(['a', 'b.d', 'b.e']);
  expect(changedFields(Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`f${at}`, at])), {})).toHaveLength(13);
});

it('records drift with the objects that own the entries, and each series of failures once', () => {
  const events = recorder();
  const silent = { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} };
  const owners = { k1: ['pod/shop/web-1/eth0@4f5e'], k2: ['service/shop/db:http'], k3: ['peer/node-2'] };
  const hooks = recordedNodeState(silent, events, (_, key) => owners[key as keyof typeof owners]);
  hooks.drift('bridge', ['k1', 'k2', 'k3']);
  hooks.repaired('bridge', 12);
  for (let times = 0; times < 3; times++) hooks.failure('host', new SeineError('UNAVAILABLE', 'no answer'));
  hooks.recovered?.('host');
  for (let times = 0; times < 3; times++) hooks.refused('bridge', 'peer/node-2', new SeineError('REFUSED', 'bad action'));
  hooks.accepted?.('bridge', 'peer/node-2');
  expect(kinds(events.noted)).toEqual([
    'drift.found',
    'drift.repaired',
    'target.failing',
    'target.recovered',
    'entries.refused',
    'entries.accepted',
  ]);
  expect(events.noted[0]?.subjects).toEqual(['pod/shop/web-1', 'service/shop/db', 'node/node-2']);
});

it('records sources and connections that fail once, and that they work again', () => {
  const events = recorder();
  const sources = new SourceEvents(events);
  const error = new SeineError('UNAVAILABLE', 'refused');
  for (let failures = 1; failures < 4; failures++) sources.note('Service', { what: 'failed', error, failures, waitMs: 1 });
  sources.note('Service', { what: 'recovered' });
  sources.note('Service', { what: 'synced', objects: 4, version: '9', tookMs: 12 });
  const connections = new ConnectionEvents(events);
  for (let times = 0; times < 3; times++) connections.failed('bridge', error);
  connections.noting('bridge', () => {})();
  noteNodeEvent(events, 'n1', 'PolicySuspended', 'policies are suspended for pod shop/web-1');
  noteNodeEvent(events, 'n1', 'NodeNetworkProblem', 'recorded as a problem');
  expect(kinds(events.noted)).toEqual([
    'source.failed',
    'source.recovered',
    'source.synced',
    'bridge.failed',
    'bridge.connected',
    'policy.suspended',
  ]);
});

it('records when a problem begins and ends, with its object', () => {
  const events = recorder();
  const record = new ProblemRecord(events, 'n1');
  const problem = { kind: 'object', about: 'Service shop/db', message: 'Service shop/db is not served', ageSeconds: 0 } as Problem;
  record.note([problem], 0);
  record.note([{ ...problem, message: 'another sentence' }], 1_000);
  record.note([], 61_000);
  expect(events.noted).toEqual([
    { kind: 'problem.began', subjects: ['node/n1', 'service/shop/db'], text: 'problem object: Service shop/db is not served' },
    { kind: 'problem.ended', subjects: ['node/n1', 'service/shop/db'], text: 'problem object ended after 61 s: another sentence' },
  ]);
});

it('records how policies apply to each pod, and by which policy', () => {
  const events = recorder();
  const watch = new NodeWatch(events, 'n1');
  const free = { is: 'free', ingress: [], egress: [] } as const;
  watch.compare({ readiness: { state: 'starting', reason: 'no OVSDB' }, pods: undefined });
  watch.compare({ readiness: { state: 'ready' }, pods: new Map([['shop/web-1', free]]) });
  watch.compare({ readiness: { state: 'ready' }, pods: new Map([['shop/web-1', { is: 'policed', ingress: ['shop/deny'], egress: [] }]]) });
  watch.compare({ readiness: { state: 'ready' }, pods: new Map() });
  expect(events.noted.map(({ kind, subjects }) => [kind, ...subjects])).toEqual([
    ['agent.notReady', 'node/n1'],
    ['agent.ready', 'node/n1'],
    ['policy.free', 'pod/shop/web-1'],
    ['policy.isolated', 'pod/shop/web-1', 'policy/shop/deny'],
    ['pod.detached', 'pod/shop/web-1'],
  ]);
  expect(events.noted[3]?.text).toBe('policies: ingress by shop/deny, egress by no policy');
});

it('records a burst of denied packets as its first packet and its end', () => {
  const events = recorder();
  const bursts = new DeniedBursts(events);
  const denial = {
    verdict: 'denied',
    direction: 'ingress',
    policies: ['shop/deny'],
    why: 'no rule of spec.ingress allows it',
    pod: 'shop/db',
    podAddress: '10.10.0.7',
    peer: 'shop/web-1',
    peerAddress: '10.10.0.5',
    protocol: 'TCP',
    port: 5432,
  } as const;
  for (let second = 0; second < 20; second++) bursts.note('shop/db', denial, 10, second * 1_000);
  bursts.sweep(25_000);
  bursts.sweep(30_000);
  expect(events.noted).toEqual([
    {
      kind: 'denied.burst',
      subjects: ['pod/shop/db', 'pod/shop/web-1', 'policy/shop/deny'],
      text: 'denied ingress from shop/web-1 5432/TCP: 10 packets, by shop/deny',
    },
    {
      kind: 'denied.burst',
      subjects: ['pod/shop/db', 'pod/shop/web-1', 'policy/shop/deny'],
      text: 'denied ingress from shop/web-1 5432/TCP: 190 packets in 19 s, by shop/deny',
    },
  ]);
});
