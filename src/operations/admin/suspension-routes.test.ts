import { expect, it } from 'vitest';
import { silentLog } from '../../base/log/log.ts';
import { Suspensions } from '../../policy/controller/suspensions.ts';
import { suspensionActions, suspensions } from './suspension-routes.ts';

function setUp() {
  const held = new Suspensions({
    file: { read: () => undefined, write: async () => undefined },
    clock: { wallMs: () => 0, bootMs: () => 0, bootId: 'b' },
    postEvent: () => undefined,
    log: silentLog,
  });
  const pods = new Map(['shop/db', 'shop/web', 'other/x'].map((pod) => [pod, { is: 'free', ingress: [], egress: [] } as const]));
  const port = { suspensions: held, node: () => ({ policy: { pods: () => pods } }) };
  const actions = suspensionActions(port);
  const post = async (path: string, query: Readonly<Record<string, string>>) =>
    JSON.parse(String((await actions[path]?.(new URLSearchParams(query), AbortSignal.timeout(1_000)))?.body)) as unknown;
  return { post, list: () => JSON.parse(String(suspensions(port).body)) as unknown };
}

const view = {
  what: 'namespace',
  name: 'shop',
  reason: 'orders fail',
  since: '1970-01-01T00:00:00.000Z',
  until: '1970-01-01T00:01:00.000Z',
  pods: 2,
};

it('suspends, lists and resumes', async () => {
  const { post, list } = setUp();
  const target = { what: 'namespace', name: 'shop' };
  expect(await post('/v1/policy/suspend', { ...target, seconds: '60', reason: 'orders fail' })).toEqual({
    was: false,
    isRemembered: true,
    suspension: view,
  });
  expect(list()).toEqual({ items: [view] });
  expect(await post('/v1/policy/resume', { what: 'node' })).toEqual({ was: false, isRemembered: true });
  expect(await post('/v1/policy/resume', target)).toEqual({ was: true, isRemembered: true });
  expect(list()).toEqual({ items: [] });
});

it.each<Record<string, string>>([
  {},
  { what: 'cluster' },
  { what: 'pod', name: 'shop/db', seconds: '', reason: 'x' },
  { what: 'pod', name: 'shop/db', seconds: '60' },
])('refuses %j', async (query) => {
  await expect(setUp().post('/v1/policy/suspend', query)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
});
