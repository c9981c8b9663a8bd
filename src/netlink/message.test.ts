import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseCidr, parseIp } from '../base/net/ip.ts';
import { parseMac } from '../base/net/mac.ts';
import { Attributes, attributesIn } from './attributes.ts';
import { ifIndex } from './interface-name.ts';
import { changeLink, createBridge, createDummy, createVeth, decodeLink, deleteLink } from './links.ts';
import { Batch, messagesIn, type NetlinkMessage } from './message.ts';
import { decodeAddress, replaceAddress } from './routing/addresses.ts';
import { decodeNeighbour, replaceNeighbour } from './routing/neighbours.ts';
import { decodeRoute, deleteRoute, replaceRoute } from './routing/routes.ts';

const link = ifIndex(7);
const mac = parseMac('0a:01:02:03:04:05');

/** Message of a little-endian host, in groups of four bytes. */
function hex(fill: (batch: Batch) => void): string {
  const batch = new Batch();
  fill(batch);
  batch.number(0x1122_3344);
  return groups(batch.bytes);
}

function groups(bytes: Uint8Array): string {
  return (
    Buffer.from(bytes)
      .toString('hex')
      .match(/.{1,8}/g)
      ?.join(' ') ?? ''
  );
}

describe('requests, against bytes written by hand', () => {
  it('creates a veth whose peer has a name and an address', () => {
    expect(hex((batch) => createVeth(batch, { name: 'h0', mtu: 1450, peer: { name: 'eth0', mac } }))).toBe(
      [
        '70000000 10000506 44332211 00000000', // RTM_NEWLINK, REQUEST ACK EXCL CREATE
        '00000000 00000000 00000000 00000000', // ifinfomsg
        '07000300 68300000 08000400 aa050000', // IFLA_IFNAME, IFLA_MTU
        '40001200 09000100 76657468 00000000', // IFLA_LINKINFO { IFLA_INFO_KIND veth,
        '30000200 2c000100', // IFLA_INFO_DATA { VETH_INFO_PEER {
        '00000000 00000000 00000000 00000000', // ifinfomsg
        '09000300 65746830 00000000 0a000100 0a010203 04050000', // IFLA_IFNAME, IFLA_ADDRESS
      ].join(' '),
    );
  });

  it('creates links that have only a kind', () => {
    expect(hex((batch) => createDummy(batch, { name: 'd0', state: 'up' }))).toBe(
      '38000000 10000506 44332211 00000000 00000000 00000000 01000000 01000000 07000300 64300000 10001200 0a000100 64756d6d 79000000',
    );
    expect(hex((batch) => createBridge(batch, { name: 'd0' }))).toBe(
      '38000000 10000506 44332211 00000000 00000000 00000000 00000000 00000000 07000300 64300000 10001200 0b000100 62726964 67650000',
    );
  });

  it('sets a link up without ARP, by name', () => {
    expect(hex((batch) => changeLink(batch, 'h0', { state: 'up', arp: 'off', mtu: 1450 }))).toBe(
      '30000000 10000500 44332211 00000000 00000000 00000000 81000000 81000000 07000300 68300000 08000400 aa050000',
    );
  });

  it('keeps flags that are not mentioned', () => {
    expect(hex((batch) => changeLink(batch, link, { mtu: 1450 }))).toBe(
      '28000000 10000500 44332211 00000000 00000000 07000000 00000000 00000000 08000400 aa050000',
    );
  });

  it('deletes a link by index', () => {
    expect(hex((batch) => deleteLink(batch, link))).toBe('20000000 11000500 44332211 00000000 00000000 07000000 00000000 00000000');
  });

  it('sets an address without duplicate detection', () => {
    expect(hex((batch) => replaceAddress(batch, { link, address: parseIp('10.1.2.3'), prefixLength: 24 }))).toBe(
      '30000000 14000505 44332211 00000000 02180000 07000000 08000200 0a010203 08000100 0a010203 08000800 02000000',
    );
  });

  it('sets a route over a gateway outside of every prefix', () => {
    const route = { destination: parseCidr('10.2.0.0/16'), gateway: parseIp('10.2.0.1'), link, mtu: 1400, onLink: true };
    expect(hex((batch) => replaceRoute(batch, route))).toBe(
      [
        '40000000 18000505 44332211 00000000 02100000 fe5e0001 04000000', // rtmsg: main table, protocol 0x5e, universe, unicast, onlink
        '08000100 0a020000 08000500 0a020001 08000400 07000000', // RTA_DST, RTA_GATEWAY, RTA_OIF
        '0c000800 08000200 78050000', // RTA_METRICS { RTAX_MTU }
      ].join(' '),
    );
  });

  it('names a table above 255 by attribute', () => {
    expect(hex((batch) => deleteRoute(batch, { destination: parseCidr('::/0'), table: 1000 }))).toBe(
      '24000000 19000500 44332211 00000000 0a000000 0000ff00 00000000 08000f00 e8030000',
    );
  });

  it('sets a permanent neighbour and signs it', () => {
    expect(hex((batch) => replaceNeighbour(batch, { link, address: parseIp('10.1.2.3'), mac }))).toBe(
      '38000000 1c000505 44332211 00000000 02000000 07000000 80000000 08000100 0a010203 0a000200 0a010203 04050000 05000c00 5e000000',
    );
  });

  it('numbers the messages of a batch one after another, past the end of 32 bits', () => {
    const batch = new Batch();
    for (let count = 0; count < 3; count++) deleteLink(batch, link);
    batch.number(0xffff_ffff);
    expect(messagesIn(batch.bytes).map(({ sequence }) => sequence)).toEqual([0xffff_ffff, 0, 1]);
  });
});

describe('attributes', () => {
  interface Tree {
    readonly type: number;
    readonly value: Uint8Array | readonly Tree[];
  }
  const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
    tree: fc.record({
      type: fc.integer({ min: 0, max: 0x3fff }),
      value: fc.oneof({ maxDepth: 3 }, fc.uint8Array({ maxLength: 20 }), fc.array(tie('tree'), { minLength: 1, maxLength: 4 })),
    }),
  }));

  function write(batch: Batch, { type, value }: Tree): void {
    if (value instanceof Uint8Array) batch.attribute(type, value);
    else
      batch.nested(type, () => {
        for (const child of value) write(batch, child);
      });
  }

  /** Second encoder: builds strings from the inside out, with no offsets to patch. */
  function slow({ type, value }: Tree): string {
    const body = value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value.map(slow).join('');
    const le16 = (number: number) => `0000${number.toString(16)}`.slice(-4).replace(/(..)(..)/, '$2$1');
    return (le16(4 + body.length / 2) + le16(type) + body).padEnd(Math.ceil((8 + body.length) / 8) * 8, '0');
  }

  it('are written as a second, slow encoder writes them', () => {
    fc.assert(
      fc.property(fc.array(tree, { maxLength: 4 }), (trees) => {
        const batch = new Batch().message(1, 0, 'test', (body) => {
          for (const one of trees) write(body, one);
        });
        expect(Buffer.from(batch.bytes.subarray(16)).toString('hex')).toBe(trees.map(slow).join(''));
      }),
    );
  });

  it('are read back in order', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.integer({ min: 0, max: 0x3fff }), fc.uint8Array({ maxLength: 9 }))), (list) => {
        const batch = new Batch().message(1, 0, 'test', (body) => {
          for (const [type, value] of list) body.attribute(type, value);
        });
        const read = attributesIn(batch.bytes.subarray(16), 'test').map(({ type, value }) => [type, Uint8Array.from(value)]);
        expect(read).toEqual(list);
      }),
    );
  });

  it('report where they are truncated', () => {
    expect(() => new Attributes(Uint8Array.of(8, 0, 1, 0, 1, 2), 'link')).toThrow(
      '[PROTOCOL] link: attribute at 0 declares 8 bytes, 6 left',
    );
    expect(() => new Attributes(Uint8Array.of(3, 0, 1, 0), 'link')).toThrow('declares 3 bytes');
    expect(() => new Attributes(Uint8Array.of(6, 0, 1, 0, 1, 2), 'link').u32(1)).toThrow('attribute 1 has 2 bytes, 4 expected');
  });
});

describe('messages of the kernel', () => {
  const decoders = { decodeLink, decodeAddress, decodeRoute, decodeNeighbour };
  const message = (payload: Uint8Array): NetlinkMessage => ({ type: 16, flags: 0, sequence: 0, port: 0, payload });

  it('are rejected or decoded, never worse, for any bytes', () => {
    fc.assert(
      fc.property(fc.constantFrom(...Object.values(decoders)), fc.uint8Array({ maxLength: 80 }), (decode, payload) => {
        expectRefusalAtWorst(() => decode(message(payload)));
      }),
      { numRuns: 3000 },
    );
  });

  it('are rejected when truncated anywhere', () => {
    const batch = new Batch();
    replaceRoute(batch, { destination: parseCidr('fd00::/64'), gateway: parseIp('fd00::1'), link, mtu: 1400 });
    for (let length = 0; length < batch.bytes.length; length++)
      expectRefusalAtWorst(() => messagesIn(batch.bytes.slice(0, length)).map(({ payload }) => decodeRoute(message(payload))));
    expect(messagesIn(new Uint8Array(0))).toEqual([]);
    expect(() => messagesIn(batch.bytes.slice(0, -1))).toThrow('PROTOCOL');
  });

  it('decode to the requested route', () => {
    const batch = new Batch();
    const asked = { destination: parseCidr('fd00:1::/64'), gateway: parseIp('fd00::1'), link, mtu: 1400, metric: 7, table: 300 };
    replaceRoute(batch, asked);
    const [sent] = messagesIn(batch.bytes);
    const route = sent && decodeRoute(sent);
    expect(route).toMatchObject({ ...asked, kind: 'unicast', protocol: 0x5e, onLink: false, nextHops: [], unmodelled: [] });
  });

  it('keep attributes of a route that the model lacks', () => {
    const payload = new Batch().message(24, 0, 'route', (batch) => {
      batch.u8(2).u8(0).u8(0).u8(0).u8(254).u8(3).u8(0).u8(1).u32(0).attributeU32(30, 5); // RTA_NH_ID
      batch.nested(8, () => batch.attributeU32(7, 10)); // RTAX_CWND
    });
    const [sent] = messagesIn(payload.bytes);
    expect(sent && decodeRoute(sent)?.unmodelled).toEqual([30, 8]);
  });
});

function expectRefusalAtWorst(action: () => unknown): void {
  try {
    action();
  } catch (error) {
    expect(error).toMatchObject({ name: 'SeineError', code: 'PROTOCOL' });
  }
}
