import { readFileSync } from 'node:fs';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { isObject } from '../../src/ovsdb/json-rpc.ts';
import { Replica } from '../../src/ovsdb/replica.ts';
import { openVswitch } from '../../src/ovsdb/schema/open-vswitch.ts';
import { JsonRpcSession } from '../../src/ovsdb/session.ts';

const row = 'aaaaaaaa-0000-0000-0000-000000000000';
const other = 'bbbbbbbb-0000-0000-0000-000000000000';

/** Messages as a server sends them. */
export const sound: readonly Uint8Array[] = [...recorded(), ...updates()].map((message) => Buffer.from(JSON.stringify(message)));

/** Recorded messages of a real server. */
function recorded(): unknown[] {
  const lines = readFileSync(new URL('../fixtures/ovsdb-transcript.jsonl', import.meta.url), 'utf8').split('\n');
  return lines.filter((line) => line !== '').flatMap((line) => JSON.parse(line).received.filter(isObject));
}

function updates(): unknown[] {
  const bridge = { name: 'br', ports: ['set', [['uuid', row]]], external_ids: ['map', [['k', '😀']]], fail_mode: 'secure' };
  const port = { name: 'p', tag: 5, trunks: ['set', [1, 2, 3]], interfaces: ['uuid', row] };
  const link = { name: 'p', ofport: 7, statistics: ['map', [['rx', 9_007_199_254_740_991]]], link_speed: 10_000_000_000 };
  const tables = (kind: string) => ({
    Bridge: { [row]: { [kind]: bridge } },
    Port: { [row]: { [kind]: port } },
    Interface: { [row]: { [kind]: link } },
  });
  return [
    { id: null, method: 'update2', params: ['replica', tables('initial')] },
    {
      id: null,
      method: 'update2',
      params: ['replica', { Bridge: { [row]: { modify: { ports: ['uuid', other] } } }, Port: { [row]: { delete: null } } }],
    },
    { id: null, method: 'update', params: ['replica', { Port: { [other]: { old: { tag: ['set', []] }, new: port } } }] },
    { id: 'echo', method: 'echo', params: [] },
    { id: 7, error: { error: 'constraint violation', details: 'x' }, result: null },
  ];
}

/**
 * Passes bytes of a server, in these chunks, to a session whose notifications a replica follows.
 *
 * @returns `refused` if they were rejected with a PROTOCOL error
 * @throws any other error
 */
export function conversation(pieces: Iterable<Uint8Array>): 'read' | 'refused' {
  const replica = new Replica(openVswitch, {
    Bridge: ['name', 'ports', 'external_ids'],
    Port: ['tag', 'trunks'],
    Interface: ['ofport', 'statistics'],
  });
  const session = new JsonRpcSession(
    { writableLength: 0, write: () => true },
    {
      notified: (method, params) => {
        if (method.startsWith('update')) replica.apply(params[1], method === 'update' ? 'update' : 'update2');
      },
      closed: () => {},
    },
  );
  try {
    for (const piece of pieces) session.received(Buffer.from(piece));
    return 'read';
  } catch (thrown) {
    if (thrown instanceof SeineError && thrown.code === 'PROTOCOL') return 'refused';
    throw thrown;
  }
}
