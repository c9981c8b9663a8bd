import protobuf from 'protobufjs/light.js';
import { expect, it } from 'vitest';
import { decodeProtoBody } from './proto-body.ts';

/** Length-delimited fields, one after another. */
class ProtoMessage {
  readonly #writer = protobuf.Writer.create();

  text(field: number, value: string): this {
    this.#writer.uint32(field * 8 + 2).string(value);
    return this;
  }

  message(field: number, value: ProtoMessage): this {
    this.#writer.uint32(field * 8 + 2).bytes(value.bytes());
    return this;
  }

  bytes(): Uint8Array {
    return this.#writer.finish();
  }
}

const magic = Uint8Array.of(0x6b, 0x38, 0x73, 0x00);

function body(kind: string, object: ProtoMessage): Uint8Array {
  const unknown = new ProtoMessage().message(1, new ProtoMessage().text(1, 'v1').text(2, kind)).message(2, object);
  return Buffer.concat([magic, unknown.bytes()]);
}

const models = (_apiVersion: string, kind: string) => `V1${kind}`;

it('reads a message as the JSON it would be', () => {
  const port = new ProtoMessage().text(1, 'http').message(4, new ProtoMessage().text(3, 'web'));
  const selector = new ProtoMessage().text(1, 'app').text(2, 'x');
  const service = new ProtoMessage()
    .message(1, new ProtoMessage().text(1, 'web').text(2, ''))
    .message(2, new ProtoMessage().message(1, port).message(2, selector));
  expect(decodeProtoBody(body('Service', service), models)).toEqual({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'web' },
    spec: { ports: [{ name: 'http' }], selector: { app: 'x' } },
  });
});

it('reads integers, and strings that may be integers', () => {
  const intOrString = Buffer.from([0x08, 0x01, 0x1a, 0x03, 0x77, 0x65, 0x62]);
  const port = Buffer.concat([Uint8Array.of(0x18, 0xbb, 0x03, 0x22, intOrString.length), intOrString]);
  const spec = Buffer.concat([Uint8Array.of(0x0a, port.length), port]);
  const service = Buffer.concat([Uint8Array.of(0x12, spec.length), spec]);
  const typeMeta = new ProtoMessage().text(1, 'v1').text(2, 'Service').bytes();
  const bytes = Buffer.concat([magic, Uint8Array.of(0x0a, typeMeta.length), typeMeta, Uint8Array.of(0x12, service.length), service]);
  expect(decodeProtoBody(bytes, models)).toMatchObject({ spec: { ports: [{ port: 443, targetPort: 'web' }] } });
});

it('rejects fields that it would lose', () => {
  expect(() => decodeProtoBody(body('Service', new ProtoMessage().text(99, 'x')), models)).toThrow(
    'field 99 of V1Service is not taken as protobuf here',
  );
  expect(() => decodeProtoBody(Buffer.from('{"kind":"Service"}'), models)).toThrow('does not appear to be a protobuf message');
  const cut = body('Service', new ProtoMessage().message(1, new ProtoMessage().text(1, 'web')));
  expect(() => decodeProtoBody(cut.subarray(0, cut.length - 2), models)).toThrow('the protobuf message is damaged');
});
