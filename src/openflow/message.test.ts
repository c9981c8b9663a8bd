import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { SeineError } from '../base/errors/seine-error.ts';
import { decodeMessage, encodeMessage, type MessageKind, messageName, messageRows } from './message.ts';
import { OPENFLOW_13, OPENFLOW_15 } from './protocol.ts';

interface Line {
  readonly hex: string;
  readonly canonical?: string;
}

function linesOf(file: string): Line[] {
  return readFileSync(new URL(`../../test/fixtures/${file}.jsonl`, import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line): Line => JSON.parse(line));
}

/**
 * Messages between ovs-ofctl and ovs-vswitchd 3.1 in both versions, and, in `openflow-vectors`, messages that they do not send but
 * `ovs-ofctl ofp-print` or os-ken can read.
 */
const files = ['openflow-corpus', 'openflow13-corpus', 'openflow-replies', 'openflow-session', 'openflow-vectors', 'openflow-rare'];
const lines = files.flatMap(linesOf);

function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(Buffer.from(hex, 'hex'));
}

describe('every message of Open vSwitch and its tools', () => {
  it('comes back from decoding and encoding byte for byte', () => {
    expect(lines.length).toBeGreaterThan(900);
    for (const { hex, canonical } of lines) {
      const message = decodeMessage(bytesOf(hex));
      expect(message.kind, canonical ?? hex).not.toBe('unknown');
      expect(Buffer.from(encodeMessage(message)).toString('hex'), canonical).toBe(hex);
    }
  });

  it('has the name that the tools give it', () => {
    for (const { hex, canonical } of lines.filter((line) => line.canonical !== undefined)) {
      const message = decodeMessage(bytesOf(hex));
      if (message.kind !== 'unknown')
        expect(canonical?.startsWith(`${messageName(message.kind, message.version)} (`), canonical).toBe(true);
    }
  });

  it('exists for every row, in every version that has it', () => {
    const seen = new Set(lines.map(({ hex }) => decodeMessage(bytesOf(hex))).map(({ kind, version }) => `${kind} ${version}`));
    const wanted = (Object.keys(messageRows) as MessageKind[]).flatMap((kind) =>
      messageRows[kind].wire.flatMap((wire) =>
        ('only' in wire && wire.only !== undefined ? [wire.only] : [OPENFLOW_13, OPENFLOW_15]).map((version) => `${kind} ${version}`),
      ),
    );
    expect(wanted.filter((each) => !seen.has(each))).toEqual([]);
  });
});

describe('messages without a row', () => {
  it.each([
    ['of another version', '0100000800000001'],
    ['of an unknown type', '06630008000000ff'],
    ['of an unknown vendor', '0604001000000001000012340000000a'],
    ['of a type that the version does not have', '0416000800000001'.replace('0416', '0616')],
    ['of an unknown multipart type', '06130010000000010063000000000000'],
  ])('%s are kept as they are', (_what, hex) => {
    const message = decodeMessage(bytesOf(hex));
    expect(message.kind).toBe('unknown');
    expect(Buffer.from(encodeMessage(message)).toString('hex')).toBe(hex);
  });

  it.each([
    ['a length that is not that of the message', '0615000900000001'],
    ['too few bytes', '06150008'],
    ['too many bytes', '0615000a000000010000'],
    ['a body that ends early', '060b000c0000000100000000'],
  ])('with %s are refused', (_what, hex) => {
    expect(() => decodeMessage(bytesOf(hex))).toThrow(SeineError);
  });
});

it('in a version without them are rejected by name', () => {
  expect(() => encodeMessage({ kind: 'tableDescRequest', version: OPENFLOW_13, xid: 1, body: {} })).toThrow(
    /is not a message of OpenFlow 1.3/,
  );
});
