import { describe, expect, it } from 'vitest';
import { isObject } from './json-rpc.ts';
import { type LeaderRule, ServerWatch } from './server-watch.ts';
import { JsonRpcSession } from './session.ts';

const row = 'aaaaaaaa-0000-0000-0000-000000000000';
const cluster = 'bbbbbbbb-0000-0000-0000-000000000000';
const none = '00000000-0000-0000-0000-000000000000';
const never = new AbortController().signal;

const columns = Object.fromEntries(['name', 'model', 'connected', 'leader', 'cid', 'index'].map((name) => [name, {}]));

/** Starts a server with this row for the database, which can send changes. */
function serverWith(database: object | undefined) {
  const answers: Readonly<Record<string, unknown>> = {
    set_db_change_aware: {},
    get_schema: { tables: { Database: { columns } } },
    monitor_cond_since: [false, none, database === undefined ? {} : { Database: { [row]: { initial: database } } }],
  };
  return (watch: ServerWatch) => {
    const session: JsonRpcSession = new JsonRpcSession(
      { writableLength: 0, write: (text) => queueMicrotask(() => reply(String(text))) },
      { notified: (method, params) => void watch.notified(method, params), closed: () => {} },
    );
    const reply = (text: string): void => {
      const request: unknown = JSON.parse(text);
      if (!isObject(request)) return;
      const result = answers[String(request['method'])];
      session.received(Buffer.from(JSON.stringify({ id: request['id'], error: result === undefined ? 'unknown method' : null, result })));
    };
    const tell = (change: object): void => {
      const params = ['server', none, { Database: { [row]: change } }];
      session.received(Buffer.from(JSON.stringify({ id: null, method: 'update3', params })));
    };
    return { session, tell };
  };
}

async function watching(database: object | undefined, leader: LeaderRule = 'required') {
  let news = 0;
  const watch = new ServerWatch('Open_vSwitch', leader, () => (news += 1));
  const { session, tell } = serverWith(database)(watch);
  await watch.start(session, never);
  return { watch, tell, news: () => news };
}

const standalone = { name: 'Open_vSwitch', model: 'standalone', connected: true, leader: true };
const member = { name: 'Open_vSwitch', model: 'clustered', connected: true, leader: true, cid: ['uuid', cluster], index: 7 };

describe('a server', () => {
  it.each([
    ['that has the database to itself', standalone, 'required', undefined],
    ['that leads', member, 'required', undefined],
    ['that follows, if any member will do', { ...member, leader: false }, 'not required', undefined],
    ['that follows', { ...member, leader: false }, 'required', 'the server is not the leader of Open_vSwitch'],
    ['that is cut off', { ...member, connected: false }, 'not required', 'the server has no contact with the rest of Open_vSwitch'],
    ['that has another database', { ...standalone, name: 'Other' }, 'required', 'the server has no database Open_vSwitch'],
    ['that has none', undefined, 'required', 'the server has no database Open_vSwitch'],
    ['that relays and has contact', { ...member, model: 'relay', leader: false }, 'required', undefined],
  ] as const)('%s', async (_what, database, leader, objection) => {
    const { watch } = await watching(database, leader);
    expect(watch.objection).toBe(objection);
  });

  it('may become unsuitable', async () => {
    const { watch, tell, news } = await watching(member);
    tell({ modify: { leader: false } });
    expect(watch.objection).toBe('the server is not the leader of Open_vSwitch');
    expect(news()).toBe(2);
    tell({ delete: null });
    expect(watch.objection).toBe('the server has no database Open_vSwitch');
  });

  it('is unsuitable while it is behind a state that another one has shown, unless the cluster is another', async () => {
    const watch = new ServerWatch('Open_vSwitch', 'required', () => {});
    const connect = async (database: object) => {
      watch.stop();
      const { session, tell } = serverWith(database)(watch);
      await watch.start(session, never);
      return tell;
    };
    await connect({ ...member, index: 9 });
    expect(watch.objection).toBeUndefined();
    const tell = await connect({ ...member, index: 8 });
    expect(watch.objection).toContain('is older than what we have seen');
    tell({ modify: { index: 9 } });
    expect(watch.objection).toBeUndefined();
    await connect({ ...member, cid: ['uuid', row], index: 1 });
    expect(watch.objection).toBeUndefined();
  });

  it('that does not describe itself is accepted', async () => {
    const watch = new ServerWatch('Open_vSwitch', 'required', () => {});
    const session: JsonRpcSession = new JsonRpcSession(
      {
        writableLength: 0,
        write: (text) =>
          queueMicrotask(() => session.received(Buffer.from(JSON.stringify({ id: JSON.parse(String(text)).id, error: 'unknown method' })))),
      },
      { notified: () => {}, closed: () => {} },
    );
    await watch.start(session, never);
    expect(watch.objection).toBeUndefined();
  });
});
