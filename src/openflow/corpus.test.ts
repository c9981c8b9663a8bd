import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ByteWriter } from '../wire/bytes.ts';
import { decodeFlowMod, writeFlowMod } from './flow-mod.ts';
import { decodeGroupMod, writeGroupMod } from './group.ts';
import { decodeInstructions, encodeInstructions } from './instructions.ts';
import { decodeMatch, encodeMatch } from './match.ts';
import { readHeader } from './protocol.ts';
import { printInstructions } from './text/action-text.ts';
import { printGroup } from './text/group-text.ts';
import { printMatch } from './text/match-text.ts';

interface Line {
  readonly kind: string;
  readonly hex: string;
  readonly text: string;
  readonly canonical: string;
}

/** OpenFlow 1.5 messages that ovs-ofctl 3.1 sent, with the text it prints for them. */
const lines = readFileSync(new URL('../../test/fixtures/openflow-corpus.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line): Line => JSON.parse(line));

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

function written(message: Uint8Array, write: (w: ByteWriter) => void): string {
  const w = new ByteWriter();
  write(w);
  w.patchU32(4, readHeader(message).xid);
  return hex(w.finish());
}

/** What we keep as `unknown`. */
const unmodelled = /push_mpls|pop_mpls|mpls_ttl|multipath|bundle|delete_field|encap|decap/;

describe('flow-mods of ovs-ofctl', () => {
  const flowMods = lines.filter((line) => line.kind === 'flow_mod');

  it('come back from decoding and encoding byte for byte', () => {
    for (const line of flowMods) {
      const message = Buffer.from(line.hex, 'hex');
      const mod = decodeFlowMod(message);
      expect(hex(encodeMatch(decodeMatch(mod.match))), line.canonical).toBe(hex(mod.match));
      expect(hex(encodeInstructions(decodeInstructions(mod.instructions))), line.canonical).toBe(hex(mod.instructions));
      expect(
        written(message, (w) => writeFlowMod(w, mod)),
        line.canonical,
      ).toBe(line.hex);
    }
  });

  it('print as the tool prints them', () => {
    for (const line of flowMods.filter((each) => !unmodelled.test(each.canonical))) {
      const mod = decodeFlowMod(Buffer.from(line.hex, 'hex'));
      const matched = printMatch(decodeMatch(mod.match)).join(',');
      const done = printInstructions(decodeInstructions(mod.instructions));
      const head = mod.priority !== 0x8000 && matched !== '' ? ',' : ' ';
      expect(line.canonical, line.text).toContain(`${matched === '' ? '' : head}${matched} actions=${done}`);
    }
  });

  it('hold no action or field that is unknown, but for those we say we do not model', () => {
    const unknown = flowMods.filter((line) => {
      const mod = decodeFlowMod(Buffer.from(line.hex, 'hex'));
      const parts = [decodeMatch(mod.match), decodeInstructions(mod.instructions)];
      return JSON.stringify(parts, (_key, value) => (typeof value === 'bigint' ? String(value) : value)).includes('unknown');
    });
    expect(unknown.map((line) => line.canonical).filter((text) => !unmodelled.test(text))).toEqual([]);
  });
});

it('group-mods of ovs-ofctl come back from decoding and encoding byte for byte', () => {
  for (const line of lines.filter((each) => each.kind === 'group_mod')) {
    const message = Buffer.from(line.hex, 'hex');
    expect(
      written(message, (w) => writeGroupMod(w, decodeGroupMod(message))),
      line.canonical,
    ).toBe(line.hex);
  }
});

it('group-mods of ovs-ofctl print as the tool prints them', () => {
  const whole = lines.filter((line) => line.kind === 'group_mod' && /: *\n (ADD|MOD)/.test(line.canonical));
  for (const line of whole) expect(line.canonical).toContain(` ${printGroup(decodeGroupMod(Buffer.from(line.hex, 'hex')))}`);
  expect(whole.length).toBeGreaterThan(10);
});
