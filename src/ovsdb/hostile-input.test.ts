import fc from 'fast-check';
import { expect, it } from 'vitest';
import { SeineError } from '../errors/seine-error.ts';
import { Replica } from './replica.ts';
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

/** Feeds bytes to a session and a replica as the client does. Gives the code of the error, or `read`. */
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

it('is read when it is sound', () => {
  expect(feed(stream)).toBe('read');
});

it('cut anywhere, it is waited for', () => {
  for (let length = 0; length < stream.length; length += 1) expect(feed(stream.subarray(0, length))).toBe('read');
});

it('with some bytes changed, it is read or refused, at once', () => {
  const flips = fc.array(fc.tuple(fc.nat(stream.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(flips, (changes) => {
      const bytes = Uint8Array.from(stream);
      for (const [at, byte] of changes) bytes[at] = byte;
      const startMs = performance.now();
      expect(['read', 'PROTOCOL']).toContain(feed(bytes));
      expect(performance.now() - startMs).toBeLessThan(1_000);
    }),
    { numRuns: 5_000 },
  );
});

it('with any value in place of any other, it is read or refused', () => {
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
