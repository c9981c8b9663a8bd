import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { SeineError } from '../base/errors/seine-error.ts';
import { readResults } from './batcher.ts';
import { readMessage } from './json-rpc.ts';
import { defaultSessionLimits, JsonRpcSession } from './session.ts';

const patience = new AbortController().signal;

/** Session whose other end is played by the test. */
function pair() {
  const sent: string[] = [];
  const notified: string[] = [];
  const outlet = { writableLength: 0, write: (text: string) => sent.push(text) };
  const session = new JsonRpcSession(outlet, {
    notified: (method, params) => notified.push(`${method} ${JSON.stringify(params)}`),
    closed: (cause) => notified.push(`closed ${cause.code}`),
  });
  return { session, sent, notified, outlet, deliver: (message: unknown) => session.received(Buffer.from(JSON.stringify(message))) };
}

function call(session: JsonRpcSession, method: string, signal = patience) {
  return session.call({ method, params: [] }, (result) => result, signal);
}

describe('JsonRpcSession', () => {
  it('matches replies that come in another order', async () => {
    const { session, sent, deliver } = pair();
    const [first, second] = [call(session, 'one'), call(session, 'two')];
    expect(sent).toEqual(['{"method":"one","params":[],"id":1}', '{"method":"two","params":[],"id":2}']);
    deliver({ id: 2, result: 'b', error: null });
    deliver({ id: 1, result: 'a', error: null });
    expect(await Promise.all([first, second])).toEqual(['a', 'b']);
  });

  it('runs the reader of a reply before a notification in the same chunk', async () => {
    const order: string[] = [];
    const outlet = { writableLength: 0, write: () => true };
    const session = new JsonRpcSession(outlet, { notified: (method) => order.push(method), closed: () => {} });
    const answer = session.call({ method: 'monitor', params: [] }, () => order.push('read'), patience);
    session.received(Buffer.from('{"id":1,"result":{},"error":null}{"id":null,"method":"update","params":[]}'));
    await answer;
    expect(order).toEqual(['read', 'update']);
  });

  it.each([
    [{ id: 1, error: 'unknown method' }, 'unknown method', ''],
    [{ id: 1, result: null, error: { error: 'unknown database', details: 'no database X' } }, 'unknown database', 'no database X'],
    [{ id: 1, error: 7 }, 'unreadable error', ''],
  ])('tells an error %j in the words of the server', async (reply, error, details) => {
    const { session, deliver } = pair();
    const answer = call(session, 'transact');
    deliver(reply);
    await expect(answer).rejects.toMatchObject({ code: 'REFUSED', context: { error, details } });
  });

  it('stops answering a peer that sends requests and does not read', () => {
    const written: string[] = [];
    const outlet = { writableLength: 0, write: (text: string) => written.push(text) };
    const limits = { ...defaultSessionLimits, maxUnsentBytes: 100 };
    const session = new JsonRpcSession(outlet, { notified: () => {}, closed: () => {} }, limits);
    const echo = Buffer.from('{"id":1,"method":"echo","params":[]}');
    session.received(echo);
    outlet.writableLength = 101;
    expect(() => session.received(echo)).toThrow('[UNAVAILABLE] JSON-RPC: the peer sends requests and does not read the answers');
    expect(written).toHaveLength(1);
  });

  it.each([0, 'echo', null, { a: [1] }, [1]])('answers an echo with id %j with its params', (id) => {
    const { sent, notified, deliver } = pair();
    deliver({ method: 'echo', id, params: ['x', { y: 1 }] });
    if (id === null) expect([sent, notified]).toEqual([[], ['echo ["x",{"y":1}]']]);
    else expect(sent.map((text) => JSON.parse(text))).toEqual([{ id, error: null, result: ['x', { y: 1 }] }]);
  });

  it('returns integers that exceed a double unchanged', () => {
    const { session, sent } = pair();
    session.received(Buffer.from('{"method":"echo","id":{"a":9007199254740993},"params":[[-9223372036854775808]]}'));
    session.received(Buffer.from('{"method":"frobnicate","id":9007199254740993,"params":[]}'));
    expect(sent).toEqual([
      '{"result":[[-9223372036854775808]],"error":null,"id":{"a":9007199254740993}}',
      '{"result":null,"error":"unknown method","id":9007199254740993}',
    ]);
  });

  it('answers other requests with an error', () => {
    const { sent, deliver } = pair();
    deliver({ method: 'frobnicate', id: 9, params: [] });
    expect(sent).toEqual(['{"result":null,"error":"unknown method","id":9}']);
  });

  it('fails open calls as unknown when the stream ends, and later ones as not sent', async () => {
    const { session, notified } = pair();
    const open = call(session, 'transact');
    session.closed(new SeineError('UNAVAILABLE', 'gone'));
    session.closed(new SeineError('UNAVAILABLE', 'gone again'));
    await expect(open).rejects.toMatchObject({ code: 'UNAVAILABLE', context: { sent: true } });
    await expect(call(session, 'transact')).rejects.toMatchObject({ code: 'UNAVAILABLE', context: { sent: false } });
    expect(notified).toEqual(['closed UNAVAILABLE']);
  });

  it('drops a call that is no longer awaited, and its late reply', async () => {
    const { session, deliver } = pair();
    const stop = new AbortController();
    const answer = call(session, 'transact', stop.signal);
    stop.abort();
    await expect(answer).rejects.toMatchObject({ code: 'CANCELLED', context: { sent: true } });
    deliver({ id: 1, result: [], error: null });
    await expect(call(session, 'transact', stop.signal)).rejects.toMatchObject({ code: 'CANCELLED', context: { sent: false } });
  });

  it('rejects requests to a peer that does not read', async () => {
    const { session, outlet } = pair();
    outlet.writableLength = 2 ** 30;
    await expect(call(session, 'transact')).rejects.toMatchObject({ code: 'UNAVAILABLE', context: { sent: false } });
  });

  it.each([
    { id: 2, result: [], error: null },
    { id: 'x', result: [], error: null },
    { id: null, result: null, error: 'syntax error' },
    { id: 1, method: 'echo', params: {} },
    { hello: 1 },
  ])('treats %j as a broken peer', (message) => {
    const { deliver } = pair();
    expect(() => deliver(message)).toThrow('[PROTOCOL]');
  });
});

it('reads all recorded messages of a real server', () => {
  const lines = readFileSync(new URL('../../test/fixtures/ovsdb-transcript.jsonl', import.meta.url), 'utf8')
    .trim()
    .split('\n');
  const outcomes = lines.map((line) => {
    const { case: name, sent, received } = JSON.parse(line);
    const kinds = received
      .filter((message: unknown) => message !== '<<closed>>')
      .map((message: unknown) => {
        const read = readMessage(message);
        if (read.kind !== 'result' || sent.method !== 'transact') return read.kind;
        try {
          return `${readResults(read.result, sent.params.slice(1)).length} results`;
        } catch (thrown) {
          return SeineError.from(thrown, 'reading').message;
        }
      });
    return `${name}: ${kinds.join(' ')}`;
  });
  expect(outcomes).toMatchInlineSnapshot(`
    [
      "list_dbs: result",
      "unknown method: error",
      "echo empty: result",
      "id object: result",
      "jsonrpc: truncated json: ",
      "jsonrpc: params object: ",
      "jsonrpc: deep nesting: ",
      "jsonrpc: nul escape: ",
      "transact: empty: 0 results",
      "transact: select columns: 1 results",
      "transact: where bad function: [REFUSED] ovsdb transact, operation 0: unknown function: No function named ~.",
      "transact: insert + mutate with named-uuid: 2 results",
      "transact: dangling strong ref: [REFUSED] ovsdb transact, commit: referential integrity violation: Table Open_vSwitch column bridges row 558d4ac1-0340-4fb9-9829-9cb581403ed8 references nonexistent row 12345678-1234-1234-1234-123456789012 in table Bridge.",
      "transact: insert column constraint: [REFUSED] ovsdb transact, operation 0: constraint violation: bogus is not one of the allowed values ([access, dot1q-tunnel, native-tagged, native-untagged, trunk])",
      "transact: update _uuid: [REFUSED] ovsdb transact, operation 0: constraint violation: Cannot update immutable column _uuid in table Bridge.",
      "transact: mutate delete map kv mismatch: 2 results",
      "transact: mutate / 0: [REFUSED] ovsdb transact, operation 0: domain error: Division by zero.",
      "transact: wait != : 1 results",
      "transact: abort: [REFUSED] ovsdb transact, operation 1: aborted: aborted by request",
      "transact: assert without lock: [REFUSED] ovsdb transact, operation 0: not owner: Asserted lock L1 not held.",
      "lock B while A holds: result",
      "steal by third: result",
      "B gets locked notification?: ",
      "transact: modify for monitor: 1 results",
      "monitor_cancel twice: error",
      "monitor_cond initial (update2): result",
      "monitor_cond_change: notification result",
      "update3 delta: notification",
      "transact: find brx: 1 results",
      "set_db_change_aware: result",
    ]
  `);
});
