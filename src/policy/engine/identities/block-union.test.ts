import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cidrContains, cidrOf, parseCidr, parseIp } from '../../../base/net/ip.ts';
import { blockUnion, type PeerBlock, unionText } from './block-union.ts';

const addresses = Array.from({ length: 32 }, (_, at) => parseIp(`10.0.0.${at}`));
const cidrs = fc
  .tuple(fc.nat({ max: 31 }), fc.integer({ min: 27, max: 32 }))
  .map(([at, length]) => cidrOf(parseIp(`10.0.0.${at}`), length));
const anyBlocks = fc.array(fc.record({ cidr: cidrs, except: fc.array(cidrs, { maxLength: 4 }) }), { maxLength: 6 });

function holds(blocks: readonly PeerBlock[], at: number): number {
  const ip = addresses[at] ?? parseIp('10.0.0.0');
  return blocks.filter(({ cidr, except }) => cidrContains(cidr, ip) && !except.some((each) => cidrContains(each, ip))).length;
}

it('a union contains the addresses of its blocks, each in one block of it', () => {
  fc.assert(
    fc.property(anyBlocks, (blocks) => {
      const union = blockUnion(blocks);
      for (const at of addresses.keys()) expect(holds(union, at)).toBe(holds(blocks, at) > 0 ? 1 : 0);
      for (const { cidr, except } of union) for (const each of except) expect(each.prefixLength).toBeGreaterThan(cidr.prefixLength);
    }),
    { numRuns: 2_000 },
  );
});

it('a union has one text for any order and repetition of its blocks', () => {
  fc.assert(
    fc.property(anyBlocks, (blocks) => {
      expect(unionText(blockUnion([...blocks.toReversed(), ...blocks]))).toBe(unionText(blockUnion(blocks)));
    }),
  );
});

it('a rule of one block keeps the text that names its numbers in 0.22.0', () => {
  const block = { cidr: parseCidr('10.0.0.0/8'), except: ['10.9.0.0/16', '10.1.0.0/16', '10.1.2.0/24', '192.0.2.0/24'].map(parseCidr) };
  expect(unionText(blockUnion([block]))).toBe('block 10.0.0.0/8 -10.1.0.0/16 -10.9.0.0/16');
});

it('blocks of both families are one union', () => {
  const union = blockUnion([
    { cidr: parseCidr('fd00::/8'), except: [] },
    { cidr: parseCidr('10.0.0.0/8'), except: [] },
  ]);
  expect(union.map(({ cidr }) => cidr.text)).toEqual(['10.0.0.0/8', 'fd00::/8']);
});
