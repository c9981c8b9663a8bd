import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { leastBundle, wholeBundle } from '../../../test/support/shown-bundle.ts';
import { writeBundle } from '../../../test/support/written-bundle.ts';
import type { Aged } from '../../ui/answers/failure.ts';
import { bundleActions, bundleRoutes, readShownBundles, type ShownBundles } from './bundle-routes.ts';
import { openUi } from './serve-ui.ts';

const folder = mkdtempSync(join(tmpdir(), 'seinectl-ui-bundle-'));
afterAll(() => rmSync(folder, { recursive: true }));

async function asked(shown: ShownBundles, name: string, query: Readonly<Record<string, string>> = {}, text = ''): Promise<Aged<unknown>> {
  const route = { ...bundleRoutes(shown), ...bundleActions(shown) }[name];
  if (!route) throw new Error(`no route ${name}`);
  return (await route(new URLSearchParams(query), new AbortController().signal, text)) as Aged<unknown>;
}

describe('the page about a support bundle', () => {
  let shown: ShownBundles;
  beforeAll(async () => {
    shown = await readShownBundles([await writeBundle(join(folder, 'n1.tar.gz'), wholeBundle())]);
  });

  it('names its bundle, and states that the flows are those of the inputs', async () => {
    const { answer, atMs } = await asked(shown, 'source');
    expect(new Date(atMs).toISOString()).toBe('2026-11-29T22:00:05.000Z');
    expect(answer).toMatchObject({ kind: 'bundles', lacks: [], bundles: [{ file: 'n1.tar.gz', node: 'n1' }] });
    expect(answer).toMatchObject({ bundles: [{ flows: expect.stringMatching(/^the bridge of n1 had the \d+ entries of its inputs$/) }] });
  });

  it.each([
    ['now', {}, { cluster: 'n1', agents: 1, answered: 1, drops: [{ name: 'route.none', packets: '7' }] }],
    ['explain', { kind: 'pod', name: 'shop/n1-0' }, { node: 'n1', isFine: false, lines: expect.arrayContaining(['! no flow']) }],
    ['explain', { kind: 'node', name: 'n1' }, { name: 'n1' }],
    ['traffic', { for: '10m' }, { seconds: 3_600, matrix: { cells: [{ from: 'shop', to: 'shop', connections: 12 }] } }],
    ['policy', { namespace: 'shop' }, { namespace: 'shop' }],
    ['names', { kind: 'node' }, { names: ['n1', 'n2'], more: 0 }],
    ['timeline', { kind: 'pod', name: 'shop/n1-0', since: '30m' }, { events: [{ kind: 'cni.add', nodes: ['n1'] }], more: 0 }],
    ['timeline', { kind: 'pod', name: 'shop/n1-0', since: '30m', until: '20m' }, { events: [] }],
    ['timeline', { kind: 'node', name: 'n1', since: '30m' }, { events: [{ kind: 'drift.found' }] }],
    ['trace', { from: 'shop/n1-0', to: 'shop/n1-1', port: '80', family: 'ipv4' }, { exitCode: 0, traces: [{ family: 'ipv4' }] }],
    [
      'trace',
      { from: 'shop/n1-0', to: '10.10.4.9', port: '80' },
      {
        exitCode: 0,
        traces: [
          {
            paths: [
              { stages: [{ node: 'n1' }, { node: 'n2', result: expect.arrayContaining([expect.stringContaining('there is no bundle')]) }] },
            ],
          },
        ],
      },
    ],
  ])('answers %s with %j', async (name, query, answer) => {
    expect((await asked(shown, name, query)).answer).toMatchObject(answer);
  });

  it.each([
    ['explain', { kind: 'pod', name: 'shop/none' }, 'no bundle has the pod'],
    ['explain', { kind: 'node', name: 'n9' }, 'there is no bundle of node'],
    ['policy', {}, 'namespace: a name is required'],
    ['names', { kind: '__proto__' }, 'kind: namespace'],
    ['trace', { from: 'shop/n1-0' }, 'to: a name'],
    ['trace', { from: 'shop/n1-0', to: 'shop/n1-1', probe: 'true' }, 'probe: a bundle has'],
    ['trace', { from: 'shop/n1-0', to: 'shop/n1-1', at: '30m' }, 'at: a bundle has'],
    ['used', { source: 'shop/n1', destination: 'shop/n1' }, 'Used: a bundle has sums of connections'],
    ['flows', {}, 'Last connections: a bundle has sums of connections'],
    ['whatif', {}, 'nothing is proposed'],
  ])('refuses %s with %j', async (name, query, message) => {
    await expect(asked(shown, name, query)).rejects.toThrow(message);
  });
});

it('computes what a proposal breaks from the objects of a bundle', async () => {
  const shown = await readShownBundles([await writeBundle(join(folder, 'proposed.tar.gz'), wholeBundle())]);
  const metadata = { name: 'deny-all', namespace: 'shop' };
  const denyAll = {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata,
    spec: { podSelector: {}, policyTypes: ['Ingress'] },
  };
  const { answer } = await asked(shown, 'whatif', { namespace: 'shop' }, JSON.stringify(denyAll));
  expect(answer).toMatchObject({ changed: ['NetworkPolicy shop/deny-all'], contradicted: 0, missing: [] });
  expect((answer as { readonly rows: readonly { readonly effect: string }[] }).rows.map(({ effect }) => effect)).toContain('breaks');
  expect(answer).toMatchObject({ evidence: [expect.stringContaining('Use is not known')] });
});

it('names each view of which an older bundle has no data', async () => {
  const shown = await readShownBundles([await writeBundle(join(folder, 'old.tar.gz'), leastBundle(), { seine: '0.28.0' })]);
  for (const [view, name, query] of [
    ['Now', 'now', {}],
    ['Traffic', 'traffic', {}],
    ['Timeline', 'timeline', { kind: 'node', name: 'n1' }],
    ['Pod', 'explain', { kind: 'pod', name: 'shop/n1-0' }],
  ] as const)
    await expect(asked(shown, name, query)).rejects.toMatchObject({
      context: { absent: true },
      message: expect.stringMatching(
        new RegExp(`${view}: the bundle of n1 has no .*: it was collected by Seine 0\\.28\\.0, which did not keep it`),
      ),
    });
  const { answer } = await asked(shown, 'source');
  expect(answer).toMatchObject({
    lacks: [expect.stringContaining('has no Services and EndpointSlices: it was collected by Seine 0.28.0')],
  });
});

it('contacts no cluster, also with a kubeconfig at hand', async () => {
  let connections = 0;
  const cluster = createServer((socket) => {
    connections++;
    socket.destroy();
  });
  await new Promise<void>((resolve) => cluster.listen(0, '127.0.0.1', resolve));
  const kubeconfig = join(folder, 'kubeconfig');
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      clusters: [{ name: 'c', cluster: { server: `http://127.0.0.1:${(cluster.address() as AddressInfo).port}` } }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      users: [{ name: 'u', user: { token: 'secret' } }],
      'current-context': 'c',
    }),
  );
  const bundle = [await writeBundle(join(folder, 'alone.tar.gz'), wholeBundle())];
  const page = await openUi({ bundle, agentNamespace: 'seine-system', port: 0, open: false }, { KUBECONFIG: kubeconfig });
  try {
    const entered = await fetch(page.url, { redirect: 'manual' });
    const cookie = (entered.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
    for (const path of [
      'now',
      'traffic',
      'names?kind=pod',
      'policy?namespace=shop',
      'explain?kind=node&name=n1',
      'timeline?kind=node&name=n1',
      'source',
    ])
      expect([path, (await fetch(`http://127.0.0.1:${page.port}/api/${path}`, { headers: { cookie } })).status]).toEqual([path, 200]);
    expect(connections).toBe(0);
  } finally {
    page.close();
    cluster.close();
  }
});
