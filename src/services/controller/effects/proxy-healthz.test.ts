import { createServer } from 'node:net';
import { afterEach, expect, it, vi } from 'vitest';
import { silentLog } from '../../../base/log/log.ts';
import type { Node } from '../../../kubernetes/resources/node.ts';
import { ProxyHealthz } from './proxy-healthz.ts';

const open: ProxyHealthz[] = [];
afterEach(() => {
  for (const each of open.splice(0)) each.close();
});

const plain: Node = { name: 'node-1', uid: 'u', podCidrs: [], internalIps: [], deleting: false };

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, () => resolve()));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address ? address.port : 0;
}

async function healthz(host = '[::]') {
  const port = await freePort();
  const state: { mode: { proxyAll: boolean; kubeProxyFound: boolean }; node: Node | undefined; synced: boolean; why: string | undefined } =
    {
      mode: { proxyAll: true, kubeProxyFound: false },
      node: plain,
      synced: true,
      why: undefined,
    };
  const made = new ProxyHealthz({
    nodeName: 'node-1',
    address: `${host}:${port}`,
    mode: {
      get proxyAll() {
        return state.mode.proxyAll;
      },
      get kubeProxyFound() {
        return state.mode.kubeProxyFound;
      },
    },
    nodes: {
      get: () => state.node,
      get synced() {
        return state.synced;
      },
    },
    obstacle: () => state.why,
    log: silentLog,
  });
  open.push(made);
  const ask = async (path = '/healthz'): Promise<readonly [number, unknown]> => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`);
    const text = await answer.text();
    return [answer.status, text === '' ? undefined : JSON.parse(text)];
  };
  return { made, state, ask, port };
}

it('answers as kube-proxy does, until the node does not forward', async () => {
  const { made, state, ask, port } = await healthz();
  made.look();
  await vi.waitFor(async () => expect(await ask()).toMatchObject([200, { nodeEligible: true }]));
  expect(made.sentence).toBe(`200 on [::]:${port}`);
  const [, before] = await ask();
  expect(before).toEqual({ lastUpdated: expect.any(String), currentTime: expect.any(String), nodeEligible: true });
  state.why = 'ovs-vswitchd is not connected';
  const [code, after] = await ask();
  expect(code).toBe(503);
  expect(after).toMatchObject({ lastUpdated: (before as { lastUpdated: string }).lastUpdated, nodeEligible: true });
  expect((await ask('/livez'))[0]).toBe(503);
  expect(made.sentence).toBe(`503 on [::]:${port}: ovs-vswitchd is not connected`);
  state.why = undefined;
  expect((await ask())[0]).toBe(200);
  expect(await ask('/metrics')).toEqual([404, undefined]);
});

it.each([
  ['that is being deleted', { node: { ...plain, deleting: true } }],
  ['that the autoscaler is about to delete', { node: { ...plain, toBeDeleted: true as const } }],
  ['that is gone', { node: undefined }],
])('is unhealthy for new traffic on a node %s, which is alive all the same', async (_, change) => {
  const { made, state, ask } = await healthz();
  made.look();
  await vi.waitFor(async () => expect((await ask())[0]).toBe(200));
  Object.assign(state, change);
  expect(await ask()).toMatchObject([503, { nodeEligible: false }]);
  expect((await ask('/livez'))[0]).toBe(200);
});

it('does not treat a node as deleted before the nodes are listed', async () => {
  const { made, state, ask } = await healthz();
  Object.assign(state, { node: undefined, synced: false });
  made.look();
  await vi.waitFor(async () => expect(await ask()).toMatchObject([200, { nodeEligible: true }]));
});

it('releases the address to a kube-proxy, and takes it when that is gone', async () => {
  const { made, state, ask, port } = await healthz();
  made.look();
  await vi.waitFor(async () => expect((await ask())[0]).toBe(200));
  expect([made.isOwn(port), made.isOwn(port + 1)]).toEqual([true, false]);
  state.mode.kubeProxyFound = true;
  made.look();
  expect(made.isOwn(port)).toBe(false);
  expect(made.sentence).toBe('off: kube-proxy answers load balancers');
  await expect(ask()).rejects.toThrow('fetch failed');
  state.mode = { proxyAll: false, kubeProxyFound: false };
  made.look();
  expect(made.sentence).toBe('off: proxy.proxyAll is false');
  state.mode.proxyAll = true;
  made.look();
  await vi.waitFor(async () => expect((await ask())[0]).toBe(200));
});

it('reports that another process has the address, and does not count as its owner', async () => {
  const { made, port } = await healthz();
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(port, () => resolve()));
  try {
    made.look();
    await vi.waitFor(() => expect(made.sentence).toBe(`not yet: another process has [::]:${port}`));
    expect(made.isOwn(port)).toBe(false);
  } finally {
    await new Promise((resolve) => other.close(resolve));
  }
});
