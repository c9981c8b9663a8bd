import { afterEach, beforeEach, expect, it } from 'vitest';
import { LoopTurns } from '../../../base/async/loop-turns.ts';
import { KubeHttp } from '../../../kubernetes/client/http-client.ts';
import { json, ScriptedApiServer, status } from '../../../kubernetes/testing/scripted-api-server.ts';
import { clusterObjectLines } from './cluster-objects.ts';

let server: ScriptedApiServer;
let http: KubeHttp;
beforeEach(async () => {
  server = new ScriptedApiServer();
  http = new KubeHttp(await server.listen(), 'test');
});
afterEach(async () => {
  http.close();
  await server.close();
});

async function lines(): Promise<readonly unknown[]> {
  const found: unknown[] = [];
  for await (const line of clusterObjectLines({ http, turns: new LoopTurns(4) }, AbortSignal.timeout(5_000))) found.push(JSON.parse(line));
  return found;
}

const settings = json({
  items: [{ metadata: { namespace: 'seine-system', name: 'seine-live', uid: 'u' }, data: { 'policy.mode': 'audit' } }],
});

it('has Services, EndpointSlices and live settings without the members that no reader needs', async () => {
  const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': '{"password":"x"}' };
  const metadata = { namespace: 'shop', name: 'db', labels: { 'kubernetes.io/service-name': 'db' } };
  const spec = { clusterIPs: ['10.96.0.20'], ports: [{ port: 5432 }] };
  const endpoint = { addresses: ['10.10.0.9'], nodeName: 'n1', conditions: { ready: true } };
  server.answer(
    settings,
    json({ items: [{ metadata: { ...metadata, annotations, managedFields: [{}] }, spec, status: { loadBalancer: {} } }] }),
    json({ items: [{ metadata, addressType: 'IPv4', endpoints: [{ ...endpoint, targetRef: { kind: 'Pod' } }], ports: [{ port: 5432 }] }] }),
  );
  expect(await lines()).toEqual([
    {
      kind: 'object',
      of: 'liveSettings',
      object: { metadata: { namespace: 'seine-system', name: 'seine-live' }, data: { 'policy.mode': 'audit' } },
    },
    { kind: 'object', of: 'services', object: { metadata, spec, status: { loadBalancer: {} } } },
    { kind: 'object', of: 'slices', object: { metadata, addressType: 'IPv4', endpoints: [endpoint], ports: [{ port: 5432 }] } },
    { kind: 'end' },
  ]);
  expect(server.requests[0]).toBe('GET /api/v1/namespaces/seine-system/configmaps?fieldSelector=metadata.name=seine-live&limit=500');
});

it('ends with the reason if a list cannot be read', async () => {
  server.answer(settings, status(403, 'Forbidden'));
  expect((await lines()).at(-1)).toMatchObject({ kind: 'failed', message: expect.stringContaining('403') });
});
