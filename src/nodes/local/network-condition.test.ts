import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { silentLog } from '../../base/log/log.ts';
import { KubeHttp } from '../../kubernetes/client/http-client.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import { json, ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { keepNetworkCondition } from './network-condition.ts';

const server = new ScriptedApiServer();
const stop = new AbortController();
let http: KubeHttp;
let node: Node;
const listeners = new Set<(names: ReadonlySet<string>) => void>();
let running: Promise<void>;
const wrote = () => server.requests.filter((line) => line === 'PATCH /api/v1/nodes/n1/status').length;

function become(networkUnavailable: boolean | undefined): void {
  node = {
    name: 'n1',
    uid: 'u1',
    podCidrs: [],
    internalIps: [],
    deleting: false,
    ...(networkUnavailable === undefined ? {} : { networkUnavailable }),
  };
  for (const listener of listeners) listener(new Set(['n1']));
}

beforeEach(async () => {
  become(undefined);
  http = new KubeHttp(await server.listen(), 'test');
  const nodes = {
    get: () => node,
    whenSynced: () => Promise.resolve(),
    subscribe: (listener: (names: ReadonlySet<string>) => void) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
  const readiness = { whenReady: () => Promise.resolve() };
  running = keepNetworkCondition({ nodeName: 'n1', nodes, http, readiness, log: silentLog, rests: { first: 1, most: 5 } }, stop.signal);
});
afterEach(async () => {
  stop.abort();
  await running;
  http.close();
  await server.close();
  expect(listeners.size).toBe(0);
});

it('sets NetworkUnavailable to False until it is written, and again when another client changes it', async () => {
  server.answer(json({ kind: 'Status', reason: 'InternalError', message: 'not now' }, 500), (request, response, signal) => {
    become(false);
    return json({})(request, response, signal);
  });
  await vi.waitFor(() => expect(wrote()).toBe(2));
  expect(server.bodies.at(-1)).toMatchObject({ status: { conditions: [{ type: 'NetworkUnavailable', status: 'False' }] } });
  server.answer((request, response, signal) => {
    become(false);
    return json({})(request, response, signal);
  });
  become(true);
  await vi.waitFor(() => expect(wrote()).toBe(3));
});
