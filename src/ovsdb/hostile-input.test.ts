import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SeineError } from '../base/errors/seine-error.ts';
import { readResults } from './batcher.ts';
import { JsonFramer } from './framer.ts';
import { Monitor, readServerColumns } from './monitor.ts';
import { Replica } from './replica.ts';
import { parseSchema } from './schema/database-schema.ts';
import { openVswitch } from './schema/open-vswitch.ts';
import { JsonRpcSession } from './session.ts';

const row = 'aaaaaaaa-0000-0000-0000-000000000000';
const stream = Buffer.from(
  [
    '{"id":null,"method":"update3","params":["replica","00000000-0000-0000-0000-000000000000",',
    `{"Bridge":{"${row}":{"insert":{"name":"br","ports":["set",[["uuid","${row}"]]],"external_ids":["map",[["k","😀"]]]}}},`,
    `"Interface":{"${row}":{"insert":{"name":"p","ofport":7,"statistics":["map",[["rx",9223372036854775807]]]}}}}]}\n`,
    `{"id":null,"method":"update2","params":["replica",{"Bridge":{"${row}":{"modify":{"ports":["uuid","${row}"]}}}}]}`,
  ].join(''),
);

/** Maximum CPU time for any input, of this thread only: the host may be busy. */
const mostMs = 50;

function cpuMs(work: () => void): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

/** Feeds bytes to a session and a replica as the client does. Returns the code of the error, or `read`. */
function feed(bytes: Uint8Array): string {
  const replica = new Replica(openVswitch, { Bridge: ['name', 'ports', 'external_ids'], Interface: ['name', 'ofport', 'statistics'] });
  const outlet = { writableLength: 0, write: () => true };
  const session = new JsonRpcSession(outlet, {
    notified: (method, params) => replica.apply(params[method === 'update3' ? 2 : 1], 'update2'),
    closed: () => {},
  });
  try {
    session.received(bytes);
    return 'read';
  } catch (thrown) {
    if (thrown instanceof SeineError) return thrown.code;
    throw thrown;
  }
}

it('valid input is read', () => {
  expect(feed(stream)).toBe('read');
});

it('truncated input is awaited', () => {
  for (let length = 0; length < stream.length; length += 1) expect(feed(stream.subarray(0, length))).toBe('read');
});

it('input with some changed bytes is read or rejected, immediately', () => {
  const flips = fc.array(fc.tuple(fc.nat(stream.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(flips, (changes) => {
      const bytes = Uint8Array.from(stream);
      for (const [at, byte] of changes) bytes[at] = byte;
      const cost = cpuMs(() => expect(['read', 'PROTOCOL']).toContain(feed(bytes)));
      expect(cost).toBeLessThan(mostMs);
    }),
    { numRuns: 5_000 },
  );
});

it('input with any value in place of any other is read or rejected', () => {
  const text = stream.subarray(0, stream.indexOf('\n')).toString();
  const message = JSON.parse(text);
  const paths: (readonly (string | number)[])[] = [];
  const collect = (value: unknown, path: readonly (string | number)[]): void => {
    paths.push(path);
    if (Array.isArray(value)) for (const [index, element] of value.entries()) collect(element, [...path, index]);
    else if (typeof value === 'object' && value !== null)
      for (const [key, member] of Object.entries(value)) collect(member, [...path, key]);
  };
  collect(message, []);
  const replace = (value: unknown, path: readonly (string | number)[], by: unknown): unknown => {
    const [step, ...rest] = path;
    if (step === undefined) return by;
    if (Array.isArray(value)) return value.map((element, index) => (index === step ? replace(element, rest, by) : element));
    return Object.fromEntries(
      Object.entries(Object(value)).map(([key, member]) => [key, key === step ? replace(member, rest, by) : member]),
    );
  };
  fc.assert(
    fc.property(fc.constantFrom(...paths), fc.jsonValue({ maxDepth: 3 }), (path, by) => {
      expect(['read', 'PROTOCOL']).toContain(feed(Buffer.from(JSON.stringify(replace(message, path, by)))));
    }),
    { numRuns: 2_000, examples: [[['id'], { '': [Number.MAX_SAFE_INTEGER + 1] }]] },
  );
});

describe('an invalid message is rejected with the error, and its place', () => {
  const update = (row: string) => `{"id":null,"method":"update2","params":["replica",{"Interface":{"${rowName}":{"insert":${row}}}}]}`;
  const rowName = row;

  it.each([
    ['{"id":1', 'read'],
    ['{"id":\0}', 'message at 0 is not JSON'],
    ['{"id":"\0"}', 'message at 0 is not JSON'],
    ['\0', 'byte 0 where a message should begin, at 0'],
    [`{"a":${'['.repeat(1_000_000)}`, 'message at 0 is nested deeper than 64'],
    [`{"id":null,"method":"update2","params":${'7'.repeat(1_000_000)}}`, 'params is not an array'],
    ['{"id":null,"method":"update2","params":["replica",{"Bridge":[]}]}', 'Bridge is not an object'],
    ['{"id":null,"method":"update2","params":["replica",{"Port":{}}]}', 'update of a table that is not monitored'],
    ['{"id":null,"method":"update2","params":["replica",{"Bridge":{"x":{}}}]}', 'update of Bridge with a row name that is not a UUID'],
    [update('7'), 'row of Interface is not an object'],
    [update('{"name":7}'), `Interface.name of row ${rowName}: OVSDB: string expected, number found`],
    [update('{"name":"a\\u0000b"}'), `Interface.name of row ${rowName}: OVSDB: string expected, one with a zero byte found`],
    [update('{"name":"\\ud800"}'), `Interface.name of row ${rowName}: OVSDB: string expected, one with half a character found`],
    [update('{"ofport":99999999999999999999}'), `Interface.ofport of row ${rowName}: OVSDB: small integer expected`],
    [update('{"statistics":["map",[["rx"]]]}'), `Interface.statistics of row ${rowName}: OVSDB: malformed pair in a map`],
    [update('{"statistics":["map",[["rx",1e400]]]}'), `Interface.statistics of row ${rowName}: OVSDB: integer expected`],
    [
      update('{"statistics":["map",[["rx",9223372036854775808]]]}'),
      `Interface.statistics of row ${rowName}: OVSDB: integer of 64 bits expected`,
    ],
  ])('%.80s', (text, complaint) => {
    const cost = cpuMs(() => expect(complaintAbout(Buffer.from(text))).toContain(complaint));
    expect(cost).toBeLessThan(mostMs);
  });

  it('also if it is long', () => {
    const members = (count: number) =>
      `{"id":null,"method":"x","params":[{${Array.from({ length: count }, (_, at) => `"k${at}":${at}`).join(',')}}]}`;
    expect(cpuMs(() => expect(feed(Buffer.from(members(20_000)))).toBe('PROTOCOL'))).toBeLessThan(mostMs);
    const framer = new JsonFramer({ maxBytes: 1_000, maxDepth: 64 });
    expect(() => framer.push(Buffer.from(members(20_000)))).toThrow('message at 0 is longer than 1000 bytes');
  });

  it('and rows without end', () => {
    const small = new Replica(openVswitch, { Bridge: ['name'] }, 2);
    const rows = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`aaaaaaaa-0000-0000-0000-00000000000${at}`, { insert: {} }]));
    small.apply({ Bridge: rows(2) }, 'update2');
    expect(() => small.apply({ Bridge: rows(3) }, 'update2')).toThrow('3 rows exceed the limit of 2');
    expect(small.tables.get('Bridge')?.size).toBe(2);
  });

  it('any answer to our requests is read or rejected', () => {
    const answer = fc.oneof(fc.jsonValue({ maxDepth: 4 }), fc.constant([false, row, { Bridge: { [row]: { initial: {} } } }]));
    fc.assert(
      fc.asyncProperty(answer, async (json) => {
        for (const read of [readServerColumns, parseSchema, (value: unknown) => readResults(value, [{ op: 'x' }])]) {
          expect(['read', 'PROTOCOL', 'REFUSED', 'INVALID_INPUT']).toContain(codeOf(() => void read(json)));
        }
        const monitor = new Monitor(new Replica(openVswitch, { Bridge: ['name'] }), { database: 'D', id: 'replica' });
        const session = new JsonRpcSession({ writableLength: 0, write: (text) => queueMicrotask(() => reply(text, json)) }, quiet);
        const reply = (text: string, result: unknown): void => {
          session.received(Buffer.from(JSON.stringify({ id: JSON.parse(text).id, error: null, result })));
        };
        const outcome = await monitor.start(session, new Map(), AbortSignal.timeout(5_000)).then(
          () => 'read',
          (thrown: unknown) => (thrown instanceof SeineError ? thrown.code : thrown),
        );
        expect(['read', 'PROTOCOL']).toContain(outcome);
      }),
      { numRuns: 500 },
    );
  });
});

const quiet = { notified: () => {}, closed: () => {} };

function codeOf(work: () => void): string {
  try {
    work();
    return 'read';
  } catch (thrown) {
    if (thrown instanceof SeineError) return thrown.code;
    throw thrown;
  }
}

/** Returns the text of the error. */
function complaintAbout(bytes: Uint8Array): string {
  const replica = new Replica(openVswitch, { Bridge: ['name'], Interface: ['name', 'ofport', 'statistics'] });
  const session = new JsonRpcSession(
    { writableLength: 0, write: () => true },
    { ...quiet, notified: (_, params) => replica.apply(params[1], 'update2') },
  );
  try {
    session.received(bytes);
    return 'read';
  } catch (thrown) {
    return thrown instanceof SeineError && thrown.code === 'PROTOCOL' ? thrown.message : String(thrown);
  }
}
