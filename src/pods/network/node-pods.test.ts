import { expect, it } from 'vitest';
import { CniBench } from '../../../test/support/cni-bench.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { parseIp } from '../../base/net/ip.ts';
import { ReplicaStore } from '../../kubernetes/client/replica/replica.ts';
import type { Pod } from '../../kubernetes/resources/pod.ts';
import { NodePods } from './node-pods.ts';

const never = new AbortController().signal;
const staticHash = '0123456789abcdef0123456789abcdef';

function podWith(changes: Partial<Pod> = {}): Pod {
  return {
    namespace: 'default',
    name: 'web',
    uid: 'u-1',
    podIps: [],
    hostNetwork: false,
    labels: {},
    ports: {},
    phase: 'Pending',
    deleting: false,
    ...changes,
  };
}

const asked = (uid: string, name = 'web') => ({ namespace: 'default', name, uid });
const down = async (): Promise<undefined> => {
  throw new SeineError('UNAVAILABLE', 'connection refused');
};

/** Pods of the watch, the reply of the API server, and the number of its requests. */
function scene(watched: readonly Pod[], server: () => Promise<Pod | undefined>) {
  const replica = new ReplicaStore<Pod>();
  let version = 0;
  const show = (...pods: readonly Pod[]): void => {
    for (const pod of pods) replica.put(`${pod.namespace}/${pod.name}`, String(++version), pod);
    replica.flush();
  };
  show(...watched);
  const counts = { fetched: 0 };
  const fetch = async (): Promise<Pod | undefined> => {
    counts.fetched++;
    return await server();
  };
  return { replica, show, counts, pods: new NodePods({ replica, fetch, watchPatienceMs: 30, fetchPatienceMs: 50 }) };
}

it('sends no request for a pod in the watch, nor if the runtime passes no UID', async () => {
  const { pods, counts } = scene([podWith()], down);
  await pods.expect(asked('u-1'), never);
  await pods.expect(asked('', 'anything'), never);
  expect(counts.fetched).toBe(0);
});

it('waits for a watch that lags', async () => {
  const { pods, show, counts } = scene([podWith({ uid: 'u-0' })], down);
  const expected = pods.expect(asked('u-1'), never);
  show(podWith({ name: 'other' }));
  show(podWith());
  await expected;
  expect(counts.fetched).toBe(0);
});

it('requests the pod from the API server when the watch keeps lagging', async () => {
  const { pods, counts } = scene([], async () => podWith());
  await pods.expect(asked('u-1'), never);
  expect(counts.fetched).toBe(1);
});

it.each<[string, Pod | undefined, string]>([
  ['no such pod', undefined, 'CNI_ARGS: K8S_POD_UID: "u-1": the API server has no pod "default/web"'],
  [
    'another pod of its name',
    podWith({ uid: 'u-2' }),
    'CNI_ARGS: K8S_POD_UID: "u-1": the pod "default/web" of the API server has UID "u-2"',
  ],
])('rejects %s, and reports it', async (_, answer, message) => {
  const { pods } = scene([], async () => answer);
  await expect(pods.expect(asked('u-1'), never)).rejects.toMatchObject({ code: 107, message });
});

it('recognises a static pod by its hash: by the mirror, and before there is one', async () => {
  const mirror = podWith({ uid: 'u-9', configHash: staticHash });
  const watched = scene([mirror], down);
  await watched.pods.expect(asked(staticHash), never);
  expect(watched.counts.fetched).toBe(0);
  await scene([], async () => mirror).pods.expect(asked(staticHash), never);
  await scene([], async () => undefined).pods.expect(asked(staticHash), never);
});

it('trusts the kubelet if the API server does not answer, in time or at all', async () => {
  await scene([], down).pods.expect(asked('u-1'), never);
  const silent = async (): Promise<undefined> => await new Promise(() => {});
  const hung = scene([], silent);
  const { replica } = hung;
  const fetch = async (_namespace: string, _name: string, signal: AbortSignal): Promise<undefined> => {
    await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    return undefined;
  };
  await new NodePods({ replica, fetch, watchPatienceMs: 5, fetchPatienceMs: 20 }).expect(asked('u-1'), never);
});

it('stops with its caller', async () => {
  const stop = new AbortController();
  const { pods } = scene([], down);
  const expected = pods.expect(asked('u-1'), stop.signal);
  stop.abort();
  await expect(expected).rejects.toMatchObject({ code: 'CANCELLED' });
});

it('has the addresses that are reserved', () => {
  const lease = (ip: string) => ({ addresses: [{ ip: parseIp(ip), prefixLength: 24, gateway: parseIp('10.0.0.1') }] });
  const { pods, show, replica } = scene([], down);
  expect(pods.isClaimedByApi(lease('10.0.0.5'))).toBe(true); // not synced yet
  replica.markSynced();
  expect(pods.isClaimedByApi(lease('10.0.0.5'))).toBe(false);
  show(podWith({ podIps: ['10.0.0.5'], phase: 'Running' }), podWith({ name: 'host', podIps: ['10.0.0.6'], hostNetwork: true }));
  expect(['10.0.0.5', '10.0.0.6'].map((ip) => pods.isClaimedByApi(lease(ip)))).toEqual([true, false]);
  show(podWith({ podIps: ['10.0.0.5'], phase: 'Succeeded' }));
  expect(pods.isClaimedByApi(lease('10.0.0.5'))).toBe(false);
});

it('reports whether a pod lives or is deleted, and nothing about pods unknown to the API server', async () => {
  const mirror = podWith({ name: 'mirror', uid: 'u-9', configHash: staticHash });
  const { pods, show } = scene([], down);
  show(podWith({ phase: 'Running' }), podWith({ name: 'job', phase: 'Succeeded' }), mirror);
  const named = (name: string, uid: string) => ({ namespace: 'default', name, uid });
  expect(
    [named('web', 'u-1'), named('web', ''), named('web', 'u-2'), named('job', 'u-1'), named('none', 'u-3')].map((pod) =>
      pods.apiStateOf(pod),
    ),
  ).toEqual(['living', 'living', 'gone', 'gone', 'gone']);
  expect(
    [undefined, named('mirror', staticHash), named('mirror', ''), named('gone', staticHash)].map((pod) => pods.apiStateOf(pod)),
  ).toEqual(['unknown', 'unknown', 'unknown', 'unknown']);
  expect(await pods.isGoneNow(named('web', 'u-1'), never)).toBe(false); // no reply
  expect(await scene([], async () => undefined).pods.isGoneNow(named('web', 'u-1'), never)).toBe(true);
});

it('is called by ADD, and by nothing else', async () => {
  const bench = new CniBench();
  bench.pods = scene([podWith()], async () => undefined).pods;
  await bench.start();
  try {
    const env = (uid: string) => ({ CNI_ARGS: `K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_UID=${uid}` });
    expect(await bench.call('ADD', 'a', {}, env('u-1'))).toMatchObject({ exit: 0 });
    const refused = await bench.call('ADD', 'b', {}, env('u-2'));
    expect(JSON.parse(refused.stdout)).toMatchObject({ code: 107, msg: expect.stringContaining('u-2') });
    expect(bench.ipam.leases()).toHaveLength(1);
    expect(await bench.call('ADD', 'c')).toMatchObject({ exit: 0 });
    expect(await bench.call('DEL', 'a', {}, env('u-2'))).toMatchObject({ exit: 0 });
  } finally {
    await bench.remove();
  }
});
