import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { identityIn } from '../resource.ts';
import { identityAhead } from './object-head.ts';

const text = fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('"', '\\', '}', '{"metadata":{"name":"other"}}', '"metadata":{'));
const metadata = fc.record(
  {
    name: text,
    namespace: text,
    resourceVersion: fc.oneof(text, fc.nat()),
    labels: fc.dictionary(text, text),
    managedFields: fc.jsonValue(),
  },
  { requiredKeys: [], noNullPrototype: true },
);
const object = fc.tuple(fc.subarray(['kind', 'apiVersion', 'spec']), metadata, fc.jsonValue()).map(([before, own, spec]) => ({
  ...Object.fromEntries(before.map((name) => [name, name === 'spec' ? spec : 'discovery.k8s.io/v1'])),
  metadata: own,
  spec,
}));

function bytesOf(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

describe('the identity at the beginning of an object', () => {
  it('is that of the whole object, or unknown', () => {
    fc.assert(
      fc.property(object, (each) => {
        const parsed: unknown = JSON.parse(JSON.stringify(each));
        for (const found of [identityAhead(bytesOf(each), 'object'), identityAhead(bytesOf({ type: 'ADDED', object: each }), 'added')])
          if (found) expect(found).toEqual(identityIn(parsed));
      }),
    );
  });

  it("is known for objects in the servers' order", () => {
    const slice = { metadata: { name: 'a-x', namespace: 'default', resourceVersion: '7', labels: { of: 'a}"\\' } }, endpoints: [] };
    const named = { kind: 'EndpointSlice', apiVersion: 'discovery.k8s.io/v1', ...slice };
    const known = { key: 'default/a-x', version: '7' };
    expect(identityAhead(bytesOf(slice), 'object')).toEqual(known);
    expect(identityAhead(bytesOf(named), 'object')).toEqual(known);
    expect(identityAhead(bytesOf({ type: 'ADDED', object: named }), 'added')).toEqual(known);
  });

  it('is unknown for deleted or modified objects, fragments, and another order', () => {
    const named = { metadata: { name: 'a', resourceVersion: '7' } };
    for (const type of ['DELETED', 'MODIFIED', 'BOOKMARK', 'ERROR'])
      expect(identityAhead(bytesOf({ type, object: named }), 'added')).toBeUndefined();
    expect(identityAhead(bytesOf({ spec: 1, ...named }), 'object')).toBeUndefined();
    const whole = bytesOf(named);
    for (let length = 0; length < whole.length - 1; length++) expect(identityAhead(whole.subarray(0, length), 'object')).toBeUndefined();
  });
});
