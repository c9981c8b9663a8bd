import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { LoopTurns } from '../../src/base/async/loop-turns.ts';
import { type KubeAccess, loadKubeAccess } from '../../src/kubernetes/client/config.ts';
import { EventPoster } from '../../src/kubernetes/client/events.ts';
import { KubeHttp } from '../../src/kubernetes/client/http-client.ts';
import { Reflector } from '../../src/kubernetes/client/reflector/reflector.ts';
import { reflectorPolicy } from '../../src/kubernetes/client/reflector/reflector-machine.ts';
import type { ReflectorReport } from '../../src/kubernetes/client/reflector/reflector-report.ts';
import type { Resource } from '../../src/kubernetes/client/resource.ts';
import { endpointSlices } from '../../src/kubernetes/resources/endpoint-slice.ts';
import { networkPolicies } from '../../src/kubernetes/resources/network-policy.ts';
import { nodes } from '../../src/kubernetes/resources/node.ts';
import { setNodeCondition } from '../../src/kubernetes/resources/node-condition.ts';
import { podsOf } from '../../src/kubernetes/resources/pod.ts';
import { services } from '../../src/kubernetes/resources/service.ts';
import { LoneApiServer } from '../support/lone-api-server.ts';

let server: LoneApiServer;
let access: KubeAccess;
let http: KubeHttp;
const stop = new AbortController();
const running: Promise<void>[] = [];
const reports: ReflectorReport[] = [];
const turns = new LoopTurns(5);

beforeAll(async () => {
  server = await LoneApiServer.start();
  access = loadKubeAccess({ from: 'file', path: server.kubeconfig });
  http = new KubeHttp(access, 'seine-test');
});

afterAll(async () => {
  stop.abort();
  await Promise.all(running);
  http.close();
  await server.remove();
});

function reflect<T>(resource: Resource<T>): Reflector<T> {
  const policy = { ...reflectorPolicy, minBackoffMs: 20 };
  const reflector = new Reflector({
    http,
    resource,
    turns,
    policy,
    stateDir: join(server.dir, 'state'),
    onReport: (report) => reports.push(report),
  });
  running.push(reflector.run(stop.signal));
  return reflector;
}

const create = (path: string, body: object) => http.json({ method: 'POST', path, body }, AbortSignal.timeout(5_000));
const remove = (path: string) => http.json({ method: 'DELETE', path }, AbortSignal.timeout(5_000));
const eventually = (check: () => void) => vi.waitFor(check, { timeout: 10_000, interval: 10 });

it('follows every resource of a Kubernetes API over TLS, also across its restart', async () => {
  const replicas = {
    nodes: reflect(nodes).replica,
    services: reflect(services).replica,
    slices: reflect(endpointSlices).replica,
    pods: reflect(podsOf('n1')).replica,
    policies: reflect(networkPolicies).replica,
  };
  await Promise.all(Object.values(replicas).map((replica) => replica.whenSynced(AbortSignal.timeout(10_000))));

  await create('/api/v1/nodes', { metadata: { name: 'n1', labels: { 'topology.kubernetes.io/zone': 'a' } } });
  await create('/api/v1/namespaces/default/services', {
    metadata: { name: 'web' },
    spec: { selector: { app: 'web' }, ports: [{ port: 80 }] },
  });
  await create('/apis/networking.k8s.io/v1/namespaces/default/networkpolicies', { metadata: { name: 'deny' }, spec: { podSelector: {} } });
  const pod = (name: string, nodeName: string) => ({ metadata: { name }, spec: { nodeName, containers: [{ name: 'c', image: 'x' }] } });
  await create('/api/v1/namespaces/default/pods', pod('here', 'n1'));
  await create('/api/v1/namespaces/default/pods', pod('elsewhere', 'n2'));
  await create('/apis/discovery.k8s.io/v1/namespaces/default/endpointslices', {
    metadata: { name: 'web-1', labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    ports: [{ name: '', port: 8080 }],
    endpoints: [{ addresses: ['10.0.0.5'] }],
  });
  await eventually(() => {
    expect(replicas.nodes.get('n1')).toMatchObject({ name: 'n1', zone: 'a' });
    expect(replicas.services.get('default/web')).toMatchObject({
      type: 'ClusterIP',
      ports: [{ port: 80, protocol: 'TCP', targetPort: 80 }],
    });
    expect(replicas.services.get('default/web')?.clusterIps[0]).toMatch(/^10\.96\./);
    expect(replicas.policies.get('default/deny')).toMatchObject({ generation: 1 });
    expect(Array.from(replicas.pods.entries(), ([key]) => key)).toEqual(['default/here']);
    expect(replicas.slices.get('default/web-1')).toMatchObject({ service: 'web', family: 'ipv4' });
  });

  await server.restart();
  // The kept connection is closed, which only the next use shows; a DELETE may be repeated here.
  await vi.waitFor(() => remove('/api/v1/namespaces/default/services/web'), { timeout: 10_000 });
  await create('/api/v1/nodes', { metadata: { name: 'n2' } });
  await eventually(() => {
    expect(replicas.services.get('default/web')).toBeUndefined();
    expect(replicas.nodes.get('n2')?.name).toBe('n2');
  });
  expect(reports.filter(({ what }) => what === 'invalid' || what === 'unreadable' || what === 'storage')).toEqual([]);
});

it('posts an Event and sets the condition of a Node', async () => {
  const failures: unknown[] = [];
  const poster = new EventPoster({ http, component: 'seine-agent', instance: 'n1', onFailure: (error) => failures.push(error) });
  running.push(poster.run(stop.signal));
  const about = { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', namespace: 'default', name: 'deny', uid: 'u' };
  poster.post({ type: 'Warning', reason: 'NotUnderstood', message: 'not understood', about });
  await eventually(() => expect(poster.waiting).toBe(0));
  expect(failures).toEqual([]);
  const events = await http.json(
    { path: '/api/v1/namespaces/default/events', query: { fieldSelector: 'involvedObject.name=deny' } },
    AbortSignal.timeout(5_000),
  );
  expect(events).toMatchObject({ items: [{ reason: 'NotUnderstood', type: 'Warning' }] });

  const condition = { type: 'NetworkUnavailable', status: 'False', reason: 'SeineIsUp', message: 'ready' } as const;
  await setNodeCondition(http, 'n1', condition, AbortSignal.timeout(5_000));
  const node = await http.json({ path: '/api/v1/nodes/n1' }, AbortSignal.timeout(5_000));
  expect(node).toMatchObject({ status: { conditions: expect.arrayContaining([expect.objectContaining(condition)]) } });
});
