import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LoopTurns } from '../../../base/async/loop-turns.ts';
import { policyEvidence } from '../../resources/policy-evidence.ts';
import { json, ScriptedApiServer, status } from '../../testing/scripted-api-server.ts';
import { KubeHttp } from '../http-client.ts';
import { listObjects } from './object-list.ts';

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

async function listed(kind: keyof typeof policyEvidence): Promise<readonly unknown[]> {
  const found: unknown[] = [];
  const objects = listObjects<unknown>({ http, turns: new LoopTurns(4) }, policyEvidence[kind], AbortSignal.timeout(5_000));
  for await (const object of objects) found.push(object);
  return found;
}

const namespace = (name: string) => ({ metadata: { name, labels: { env: 'x' }, uid: 'u' }, status: {} });

describe('a list', () => {
  it('is read page by page', async () => {
    server.answer(json({ metadata: { continue: 'more' }, items: [namespace('a')] }), json({ metadata: {}, items: [namespace('b')] }));
    const labels = { env: 'x' };
    expect(await listed('namespaces')).toEqual([{ metadata: { name: 'a', labels } }, { metadata: { name: 'b', labels } }]);
    expect(server.requests).toEqual(['GET /api/v1/namespaces?limit=500', 'GET /api/v1/namespaces?limit=500&continue=more']);
  });
  it('is not a list if a page is expired or rejected, an object too large, or invalid', async () => {
    server.answer(json({ metadata: { continue: 'more' }, items: [namespace('a')] }), status(410, 'Expired'));
    await expect(listed('namespaces')).rejects.toMatchObject({ code: 'REFUSED', context: { status: 410 } });
    server.answer(json({ items: [{ ...namespace('a'), x: 'y'.repeat(9 << 20) }] }));
    await expect(listed('namespaces')).rejects.toThrow('a Namespace of');
    server.answer(json({ items: [{ metadata: {} }] }));
    await expect(listed('namespaces')).rejects.toThrow('metadata.name');
  });
});

describe('evidence', () => {
  it('for a pod has the fields that policies use, and nothing of its containers except ports', async () => {
    const metadata = {
      namespace: 'shop',
      name: 'db',
      labels: { app: 'db' },
      creationTimestamp: '2026-01-01T00:00:00Z',
      annotations: { a: 'b' },
    };
    const ports = [
      { name: 'sql', containerPort: 5432, hostIP: '' },
      { containerPort: 53, protocol: 'UDP' },
    ];
    const container = { name: 'c', env: [{ name: 'PASSWORD', value: 'secret' }], ports };
    const sidecar = { name: 's', restartPolicy: 'Always' };
    const spec = { nodeName: 'n1', containers: [container], initContainers: [sidecar] };
    const status = { phase: 'Running', podIP: '10.10.0.5', podIPs: [{ ip: '10.10.0.5' }, {}] };
    server.answer(
      json({
        items: [
          { metadata, spec, status },
          { metadata: { namespace: 'shop', name: 'new' }, spec: { containers: [] } },
        ],
      }),
    );
    expect(JSON.parse(JSON.stringify(await listed('pods')))).toEqual([
      {
        metadata: { namespace: 'shop', name: 'db', labels: { app: 'db' }, creationTimestamp: '2026-01-01T00:00:00Z' },
        spec: {
          nodeName: 'n1',
          containers: [
            {
              ports: [
                { name: 'sql', containerPort: 5432 },
                { containerPort: 53, protocol: 'UDP' },
              ],
            },
          ],
          initContainers: [{ restartPolicy: 'Always', ports: [] }],
        },
        status: { phase: 'Running', podIPs: [{ ip: '10.10.0.5' }] },
      },
      {
        metadata: { namespace: 'shop', name: 'new' },
        spec: { containers: [], initContainers: [] },
        status: { phase: 'Pending', podIPs: [] },
      },
    ]);
    expect(server.requests[0]).toContain('fieldSelector=status.phase!=Succeeded,status.phase!=Failed');
  });
  it('for a policy has its specification unchanged', async () => {
    const spec = { podSelector: { matchLabels: { toString: 'x' } }, odd: [1, { a: null }], ingress: null };
    server.answer(json({ items: [{ metadata: { namespace: 'shop', name: 'db', uid: 'u' }, spec }] }));
    expect(await listed('networkPolicies')).toEqual([{ metadata: { namespace: 'shop', name: 'db' }, spec }]);
  });
});
