import { describe, expect, it } from 'vitest';
import { benchFlow } from '../../../test/bench/openflow-flows.ts';
import { ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { decodeMatch, decodeOxmFields, encodeMatch, type Match } from '../match/match.ts';
import { OPENFLOW_13, OPENFLOW_15, type Version } from '../protocol.ts';
import { type Flow, writeFlow } from './flow.ts';
import { decodeFlowMod, writeFlowMod } from './flow-mod.ts';
import { decodeInstructions, encodeInstructions } from './instructions.ts';

/** Earlier contents of the buffer must not appear in the result. */
function dirty(): ByteWriter {
  return new ByteWriter(4096).raw(new Uint8Array(4096).fill(0xa5)).truncate(0);
}

function inOneGo(flow: Flow, version: Version): string {
  const w = dirty();
  writeFlow(w, flow, version);
  return Buffer.from(w.finish()).toString('hex');
}

function inParts({ match, does, ...rest }: Flow, version: Version): string {
  const w = dirty();
  writeFlowMod(w, { ...rest, match: encodeMatch(match, version), instructions: encodeInstructions(does, version) }, version);
  return Buffer.from(w.finish()).toString('hex');
}

describe('a flow of values', () => {
  for (const version of [OPENFLOW_13, OPENFLOW_15] as const)
    it(`has the bytes of a flow-mod around its parts, in version ${version}`, () => {
      // One of four shapes loads 128 bits, for which OpenFlow 1.3 has no action.
      for (let n = 0; n < 400; n++)
        if (version === OPENFLOW_15 || n % 4 !== 3) expect(inOneGo(benchFlow(n), version)).toBe(inParts(benchFlow(n), version));
    });

  it('is read back as it was written', () => {
    for (let n = 0; n < 40; n++) {
      const mod = decodeFlowMod(Uint8Array.from(Buffer.from(inOneGo(benchFlow(n), OPENFLOW_15), 'hex')));
      expect(inOneGo({ ...benchFlow(n), match: decodeMatch(mod.match), does: decodeInstructions(mod.instructions) }, OPENFLOW_15)).toBe(
        inOneGo(benchFlow(n), OPENFLOW_15),
      );
    }
  });
});

describe('a match', () => {
  it('is the same in whatever order its fields are named', () => {
    for (let n = 0; n < 40; n++) {
      const { match } = benchFlow(n);
      const reversed = Object.fromEntries(Object.entries(match).toReversed()) as Match;
      expect(encodeMatch(reversed)).toEqual(encodeMatch(match));
    }
  });

  const wrong: readonly (readonly [string, Match, RegExp])[] = [
    ['a port without its protocol', { eth_type: 0x800, tcp_dst: 80 }, /tcp_dst is matched without its prerequisite tcp/],
    ['a number that is too high', { in_port: 2 ** 32 }, /in_port: 4294967296 is not a value/],
    ['a fraction', { in_port: 1.5 }, /in_port: 1.5 is not a value/],
    ['a fraction under a mask', { ct_mark: { value: 1.5, mask: 3 } }, /ct_mark: 1.5 is not a value/],
    ['a fraction in a register', { reg3: { value: 0.5, mask: 1 } }, /reg3: 0.5\/1 does not fit/],
    ['a wide register that is too wide', { xreg1: 2n ** 64n }, /xreg1: .* does not fit in 64 bits/],
    ['bits of a register twice', { reg0: { value: 1, mask: 1 }, xreg0: { value: 2n ** 32n, mask: 2n ** 32n } }, /another register field/],
    ['a mask where none can be', { eth_type: { value: 0x800, mask: 0xff00 } }, /eth_type: 65280 is not a value or mask/],
    ['a name that is none', { no_such: 1 } as Match, /no field is called "no_such"/],
  ];
  for (const [what, match, message] of wrong)
    it(`refuses ${what}, and the next is not affected`, () => {
      const before = encodeMatch({ in_port: 1, reg0: 5 });
      expect(() => encodeMatch(match)).toThrow(SeineError);
      expect(() => encodeMatch(match)).toThrow(message);
      expect(encodeMatch({ in_port: 1, reg0: 5 })).toEqual(before);
    });
});

describe('a register that is matched twice', () => {
  const low = '800101100000000000000005000000000000000f';
  const high = '800101100000000500000000ffffffff00000000';
  const [reg0, reg1] = ['0001000400000005', '0001020400000005'];
  const decoded = (...tlvs: readonly string[]) => decodeOxmFields(Buffer.from(tlvs.join(''), 'hex'));

  // Open vSwitch 3.1 reads them like this: it checks whether any bit of the field is already matched.
  it.each([
    ['two halves of one', high, low],
    ['one half twice', low, low],
    ['a half of what has both', reg0, low],
    ['none of it', reg0, '80010110'.padEnd(40, '0')],
    ['one of four', reg1, `0001df20${'0'.repeat(32)}0000000f${'0'.repeat(24)}`],
  ])('is refused: %s', (_, ...tlvs) => expect(() => decoded(...tlvs)).toThrow(/match has reg[01] twice/));

  it('is accepted if its other half was matched with more bits before', () => {
    expect(decoded(high, reg1)).toEqual({ reg0: 5, reg1: 5 });
    expect(decoded('80010110'.padEnd(40, '0'), low)).toEqual({ reg1: { value: 5, mask: 15 } });
  });
});

describe('bits of a field', () => {
  function loaded(field: 'reg1' | 'ct_label' | 'xxreg0' | 'eth_dst', offset: number, bits: number, value: number | bigint): string {
    return Buffer.from(encodeInstructions({ apply: [{ kind: 'load', to: { field, offset, bits }, value }] })).toString('hex');
  }

  it('are written alike from a number and from a bigint', () => {
    for (const field of ['reg1', 'ct_label', 'xxreg0', 'eth_dst'] as const) {
      const width = { reg1: 32, ct_label: 128, xxreg0: 128, eth_dst: 48 }[field];
      for (let offset = 0; offset < width; offset += 3)
        for (let bits = 1; bits <= Math.min(48, width - offset); bits += 2) {
          const value = 2 ** bits - 1 - (bits % 3 === 0 ? 1 : 0);
          expect(loaded(field, offset, bits, value), `${field}[${offset}..] of ${bits}`).toBe(loaded(field, offset, bits, BigInt(value)));
        }
    }
  });

  it('reject a value that is too large, and are within the field', () => {
    expect(() => loaded('reg1', 0, 4, 16)).toThrow(/16 does not fit in reg1\[0\.\.3\]/);
    expect(() => loaded('reg1', 30, 4, 1)).toThrow(/does not fit in reg1\[30\.\.33\]/);
    expect(() => loaded('ct_label', 127, 2, 1)).toThrow(/does not fit in ct_label/);
    expect(() => loaded('reg1', -1, 4, 1)).toThrow(/does not fit in reg1/);
  });
});
