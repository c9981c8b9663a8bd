import fc from 'fast-check';
import type { Action, LearnSpec, NatAction } from '../../src/openflow/actions/action.ts';
import { encodeInstructions, type Instructions } from '../../src/openflow/flows/instructions.ts';
import type { FieldName } from '../../src/openflow/match/fields.ts';
import { fields, type Subfield } from '../../src/openflow/match/fields.ts';
import { encodeMatch, type Match } from '../../src/openflow/match/match.ts';
import { OPENFLOW_15, ofPort, type Version } from '../../src/openflow/protocol.ts';

/** Random flows that Open vSwitch 3.1 accepts: fields with their prerequisites, actions that fit the match. */

type Protocol = 'any' | 'arp' | 'ip' | 'tcp' | 'udp' | 'sctp' | 'icmp' | 'ipv6' | 'tcp6' | 'udp6' | 'sctp6' | 'solicit' | 'advert';

const protocols: Readonly<Record<Protocol, { readonly match: Match; readonly fields: readonly FieldName[] }>> = {
  any: { match: {}, fields: [] },
  arp: { match: { eth_type: 0x0806 }, fields: ['arp_op', 'arp_spa', 'arp_tpa', 'arp_sha', 'arp_tha'] },
  ip: { match: { eth_type: 0x0800 }, fields: ['ip_src', 'ip_dst', 'ip_frag', 'ip_dscp', 'ip_ecn', 'nw_ttl'] },
  tcp: { match: { eth_type: 0x0800, ip_proto: 6 }, fields: ['ip_src', 'ip_dst', 'tcp_src', 'tcp_dst', 'tcp_flags'] },
  udp: { match: { eth_type: 0x0800, ip_proto: 17 }, fields: ['ip_src', 'ip_dst', 'udp_src', 'udp_dst'] },
  sctp: { match: { eth_type: 0x0800, ip_proto: 132 }, fields: ['ip_src', 'ip_dst', 'sctp_src', 'sctp_dst'] },
  icmp: { match: { eth_type: 0x0800, ip_proto: 1 }, fields: ['ip_src', 'ip_dst', 'icmp_type', 'icmp_code'] },
  ipv6: { match: { eth_type: 0x86dd }, fields: ['ipv6_src', 'ipv6_dst', 'ipv6_label', 'ip_frag', 'ip_dscp', 'ip_ecn', 'nw_ttl'] },
  tcp6: { match: { eth_type: 0x86dd, ip_proto: 6 }, fields: ['ipv6_src', 'ipv6_dst', 'tcp_src', 'tcp_dst', 'tcp_flags'] },
  udp6: { match: { eth_type: 0x86dd, ip_proto: 17 }, fields: ['ipv6_src', 'ipv6_dst', 'udp_src', 'udp_dst'] },
  sctp6: { match: { eth_type: 0x86dd, ip_proto: 132 }, fields: ['ipv6_src', 'sctp_src', 'sctp_dst'] },
  solicit: { match: { eth_type: 0x86dd, ip_proto: 58, icmpv6_type: 135, icmpv6_code: 0 }, fields: ['ipv6_src', 'nd_target', 'nd_sll'] },
  advert: { match: { eth_type: 0x86dd, ip_proto: 58, icmpv6_type: 136, icmpv6_code: 0 }, fields: ['ipv6_dst', 'nd_target', 'nd_tll'] },
};

const always = [
  'conj_id', 'in_port', 'eth_src', 'eth_dst', 'vlan_vid', 'tun_id', 'tun_flags', 'tun_src', 'tun_dst', 'tun_gbp_id', 'tun_gbp_flags',
  'pkt_mark', 'ct_zone', 'ct_mark', 'ct_label', 'metadata', ...Array.from({ length: 16 }, (_, n) => `reg${n}` as FieldName),
] as const satisfies readonly FieldName[]; // biome-ignore format: a list

/** A value or a masked value of a field. */
function fieldValue(name: FieldName): fc.Arbitrary<unknown> {
  const row = fields[name];
  if (name === 'arp_op') return fc.integer({ min: 0, max: 255 });
  if (name === 'in_port') return fc.constantFrom(1, 2, 77, ofPort.local, ofPort.controller);
  if (name === 'vlan_vid') {
    const vid = fc.integer({ min: 0, max: 0xfff }).map((value) => value + 0x1000);
    return fc.oneof(vid, fc.constant(0), fc.constant({ value: 0x1000, mask: 0x1000 }));
  }
  if (name === 'ip_frag') return fc.constantFrom(0, 1, 3, { value: 0, mask: 2 }, { value: 1, mask: 1 });
  const value =
    row.bits <= 48 ? fc.integer({ min: 0, max: 2 ** row.bits - 1 }) : fc.bigInt({ min: 0n, max: (1n << BigInt(row.bits)) - 1n });
  if (!row.maskable) return value;
  return fc.oneof(value, fc.record({ value, mask: row.bits <= 48 ? fc.integer({ min: 1, max: 2 ** row.bits - 1 }) : value }));
}

/** Without `inv`, with which Open vSwitch rejects `ct(commit)`; every other flag needs `trk`. */
const ctState = fc.integer({ min: 0, max: 0xff }).map((bits) => ({ value: (bits & 0xcf) | 0x20, mask: (bits & 0xcf) | 0x20 }));

function partOf(...names: readonly FieldName[]): fc.Arbitrary<Subfield> {
  return fc
    .constantFrom(...names)
    .chain((field) =>
      fc
        .tuple(fc.integer({ min: 0, max: fields[field].bits - 1 }), fc.integer({ min: 1, max: 32 }))
        .map(([offset, bits]) => ({ field, offset, bits: Math.min(bits, fields[field].bits - offset, 32) })),
    );
}

const registers = partOf('reg0', 'reg3', 'reg15', 'ct_mark', 'pkt_mark');
const readable = partOf('reg0', 'reg4', 'xxreg1', 'eth_src', 'tun_id', 'in_port_16');

const load = registers
  .filter((to) => to.field !== 'ct_mark')
  .chain((to) => fc.integer({ min: 0, max: 2 ** to.bits - 1 }).map((value): Action => ({ kind: 'load', to, value })));

const move = fc
  .tuple(readable, registers)
  .filter(([, to]) => to.field !== 'ct_mark')
  .map(([from, to]): Action => {
    const bits = Math.min(from.bits, to.bits);
    return { kind: 'move', from: { ...from, bits }, to: { ...to, bits } };
  });

/** Fields that may be set in any packet. */
const settable: readonly FieldName[] = [
  'eth_src',
  'eth_dst',
  'tun_id',
  'tun_src',
  'tun_ipv6_dst',
  'pkt_mark',
  'metadata',
  'reg1',
  'xreg2',
  'xxreg3',
];

function setAny(names: readonly FieldName[]): fc.Arbitrary<Action> {
  return fc.constantFrom(...names).chain((field) => {
    const row = fields[field];
    const value: fc.Arbitrary<number | bigint> =
      row.bits > 48 ? fc.bigInt({ min: 0n, max: (1n << BigInt(row.bits)) - 1n }) : fc.integer({ min: 0, max: 2 ** row.bits - 1 });
    const mask = row.maskable
      ? fc.option(
          value.filter((bits) => Number(bits) !== 0),
          { nil: undefined },
        )
      : fc.constant(undefined);
    return fc
      .tuple(value, mask)
      .map(([v, m]) => ({ kind: 'setField', field, value: v, ...(m === undefined ? {} : { mask: m }) }) as Action);
  });
}

const port = fc.constantFrom(1, 2, 300, ofPort.inPort, ofPort.normal, ofPort.flood, ofPort.all, ofPort.local);

const nat: fc.Arbitrary<NatAction> = fc.oneof(
  fc.constant({}),
  fc.record({ direction: fc.constantFrom('src' as const, 'dst' as const) }),
  fc
    .record({
      direction: fc.constantFrom('src' as const, 'dst' as const),
      first: fc.integer({ min: 1, max: 0xffff_fff0 }),
      more: fc.integer({ min: 0, max: 9 }),
      ports: fc.option(fc.integer({ min: 1, max: 0xfff0 }), { nil: undefined }),
      mode: fc.constantFrom(
        {},
        { persistent: true as const },
        { hash: true as const },
        { random: true as const, persistent: true as const },
      ),
    })
    .map(({ direction, first, more, ports, mode }) => ({
      direction,
      addresses: { family: 'ipv4' as const, first, ...(more === 0 ? {} : { last: first + more }) },
      ...(ports === undefined ? {} : { ports: { first: ports, ...(more < 5 ? {} : { last: ports + more }) } }),
      ...mode,
    })),
);

const ct = (withAlg: boolean) =>
  fc
    .record({
      commit: fc.boolean(),
      force: fc.boolean(),
      zone: fc.oneof(fc.integer({ min: 0, max: 0xffff }), fc.constant({ field: 'reg8' as const, offset: 0, bits: 16 })),
      table: fc.option(fc.integer({ min: 0, max: 253 }), { nil: undefined }),
      nat: fc.option(nat, { nil: undefined }),
      alg: withAlg ? fc.constantFrom(undefined, 21) : fc.constant(undefined),
      mark: fc.array(setAny(['ct_mark', 'ct_label']), { maxLength: 2 }),
    })
    .map(({ commit, force, zone, table, nat: given, alg, mark }): Action => {
      const committed = commit || mark.length > 0 || alg !== undefined || given?.direction !== undefined;
      return {
        kind: 'ct',
        commit: committed,
        ...(force && committed ? { force: true } : {}),
        zone,
        ...(table === undefined ? {} : { table }),
        ...(given === undefined ? {} : { nat: given }),
        ...(alg === undefined ? {} : { alg }),
        exec: mark,
      };
    });

const learnSpec: fc.Arbitrary<LearnSpec> = fc.oneof(
  fc.constantFrom<LearnSpec>(
    { do: 'match', to: { field: 'eth_dst', offset: 0, bits: 48 }, from: { field: 'eth_src', offset: 0, bits: 48 } },
    { do: 'match', to: { field: 'reg3', offset: 0, bits: 32 }, from: { field: 'reg3', offset: 0, bits: 32 } },
    { do: 'match', to: { field: 'reg5', offset: 4, bits: 4 }, from: 7 },
    { do: 'output', from: { field: 'reg1', offset: 0, bits: 16 } },
    { do: 'load', to: { field: 'xxreg1', offset: 0, bits: 128 }, from: 0x1122_3344_5566_7788_99aa_bbccn << 16n },
  ),
  registers
    .filter((to) => to.field !== 'ct_mark')
    .chain((to) => fc.integer({ min: 0, max: 2 ** to.bits - 1 }).map((from): LearnSpec => ({ do: 'load', to, from }))),
);

const learn = fc
  .record({
    table: fc.integer({ min: 0, max: 253 }),
    hardTimeout: fc.constantFrom(undefined, 30),
    finIdleTimeout: fc.constantFrom(undefined, 5),
    priority: fc.integer({ min: 0, max: 0xffff }),
    cookie: fc.bigInt({ min: 0n, max: 0xffff_ffff_ffff_ffffn }),
    deleteLearned: fc.constantFrom(undefined, true as const),
    sendFlowRemoved: fc.constantFrom(undefined, true as const),
    limit: fc.constantFrom(undefined, 20),
    result: fc.constantFrom(undefined, { field: 'reg0' as const, offset: 31, bits: 1 }),
    specs: fc.array(learnSpec, { maxLength: 4 }),
  })
  .map((given) => ({ kind: 'learn', ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) }) as Action);

const controller = fc
  .record({
    maxLength: fc.constantFrom(undefined, 128),
    controller: fc.constantFrom(undefined, 1, 62373),
    reason: fc.constantFrom(undefined, 'noMatch' as const, 'invalidTtl' as const),
    userdata: fc.option(fc.uint8Array({ minLength: 1, maxLength: 20 }), { nil: undefined }),
    pause: fc.constantFrom(undefined, true as const),
  })
  .map(
    (given) => ({ kind: 'controller', ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) }) as Action,
  );

const simple: fc.Arbitrary<Action> = fc.oneof(
  { weight: 4, arbitrary: load },
  { weight: 4, arbitrary: setAny(settable) },
  move,
  port.map((each): Action => ({ kind: 'output', port: each })),
  fc.record({ kind: fc.constant('output' as const), port: fc.constant(ofPort.controller), maxLength: fc.constantFrom(64, 0xffff) }),
  fc.record({
    kind: fc.constant('outputRegister' as const),
    from: fc.constantFrom<Subfield>({ field: 'reg1', offset: 0, bits: 32 }, { field: 'metadata', offset: 3, bits: 16 }),
    maxLength: fc.constant(0xffff),
  }),
  fc.record({
    kind: fc.constant('outputTruncated' as const),
    port: fc.constantFrom(1, ofPort.inPort),
    maxLength: fc.integer({ min: 14, max: 1500 }),
  }),
  fc
    .tuple(fc.constantFrom(undefined, 3), fc.integer({ min: 0, max: 254 }))
    .map(([from, table]): Action => ({ kind: 'resubmit', ...(from === undefined ? {} : { port: from }), table })),
  fc.constantFrom<Action>(
    { kind: 'ctClear' },
    { kind: 'exit' },
    { kind: 'setQueue', queue: 5 },
    { kind: 'popQueue' },
    { kind: 'push', from: { field: 'reg0', offset: 3, bits: 7 } },
    { kind: 'pop', to: { field: 'reg1', offset: 0, bits: 32 } },
  ),
  fc.uint8Array({ minLength: 1, maxLength: 14 }).map((bytes): Action => ({ kind: 'note', bytes })),
  fc
    .tuple(fc.integer({ min: 1, max: 9000 }), fc.integer({ min: 0, max: 31 }))
    .map(([bytes, offset]): Action => ({ kind: 'checkPacketLarger', bytes, to: { field: 'reg0', offset, bits: 1 } })),
  fc.constantFrom<Action>(
    { kind: 'sample', probability: 9, collectorSet: 1, domain: 2, point: 3 },
    { kind: 'sample', probability: 9, collectorSet: 1, domain: 2, point: 3, samplingPort: 4, direction: 'ingress' },
  ),
  learn,
  controller,
);

const vlan = fc.constantFrom<readonly Action[]>([
  { kind: 'pushVlan', etherType: 0x8100 },
  { kind: 'setField', field: 'vlan_vid', value: 0x1064 },
  { kind: 'popVlan' },
]);

/** Actions beyond `simple` for packets of a protocol. */
function actionsFor(protocol: Protocol): fc.Arbitrary<readonly Action[]> {
  const isIpv4 = ['ip', 'tcp', 'udp', 'sctp', 'icmp'].includes(protocol);
  const isIpv6 = ['ipv6', 'tcp6', 'udp6', 'sctp6', 'solicit', 'advert'].includes(protocol);
  const own: fc.Arbitrary<Action>[] = [simple];
  if (isIpv4) own.push(setAny(['ip_src', 'ip_dst', 'ip_dscp', 'nw_ttl']), ct(protocol === 'tcp'));
  if (isIpv6) own.push(setAny(['ipv6_src', 'ipv6_dst', 'ipv6_label', 'ip_ecn']));
  if (isIpv4 || isIpv6)
    own.push(fc.constantFrom<Action>({ kind: 'decTtl' }, { kind: 'decTtlControllers', controllers: [1, 2] }, { kind: 'setTtl', ttl: 9 }));
  if (protocol === 'tcp')
    own.push(setAny(['tcp_src', 'tcp_dst']), fc.constant<Action>({ kind: 'finTimeout', idleTimeout: 10, hardTimeout: 20 }));
  if (protocol === 'udp') own.push(setAny(['udp_src', 'udp_dst']));
  if (protocol === 'arp') own.push(setAny(['arp_spa', 'arp_tpa', 'arp_sha', 'arp_tha']));
  const flat = fc.array(fc.oneof(...own), { maxLength: 6 });
  const cloned = fc.array(simple, { minLength: 1, maxLength: 3 }).map((actions): Action => ({ kind: 'clone', actions }));
  return fc
    .tuple(flat, fc.option(cloned, { nil: undefined }), fc.option(vlan, { nil: undefined }))
    .map(([list, clone, tag]) => [...(tag ?? []), ...list, ...(clone === undefined ? [] : [clone])]);
}

export interface RandomFlow {
  readonly match: Match;
  readonly instructions: Instructions;
}

/** A flow for a table from which `gotoTable` may go to any table above 20. */
export const randomFlow: fc.Arbitrary<RandomFlow> = fc.constantFrom(...(Object.keys(protocols) as Protocol[])).chain((protocol) => {
  const { match: base, fields: own } = protocols[protocol];
  const names = fc.tuple(fc.subarray([...own]), fc.subarray([...always], { maxLength: 6 })).map(([a, b]) => [...a, ...b]);
  const match = names
    .chain((chosen) => fc.record(Object.fromEntries(chosen.map((name) => [name, fieldValue(name)]))))
    .chain((values) =>
      fc
        .tuple(fc.option(ctState, { nil: undefined }), fc.option(fc.integer({ min: 0, max: 7 }), { nil: undefined }))
        .map(([state, pcp]) => {
          const tagged = typeof values['vlan_vid'] === 'number' && values['vlan_vid'] >= 0x1000;
          return {
            ...base,
            ...values,
            ...(state === undefined ? {} : { ct_state: state }),
            ...(pcp === undefined || !tagged ? {} : { vlan_pcp: pcp }),
          } as Match;
        }),
    );
  const instructions = fc
    .record({
      apply: actionsFor(protocol),
      clearActions: fc.constantFrom(undefined, undefined, true as const),
      write: fc.option(
        fc.constantFrom<readonly Action[]>(
          [{ kind: 'output', port: 1 }],
          [
            { kind: 'setField', field: 'reg2', value: 7 },
            { kind: 'output', port: 2 },
          ],
        ),
        { nil: undefined },
      ),
      writeMetadata: fc.option(fc.record({ value: fc.bigInt({ min: 0n, max: 0xffffn }), mask: fc.bigInt({ min: 1n, max: 0xffffn }) }), {
        nil: undefined,
      }),
      gotoTable: fc.option(fc.integer({ min: 20, max: 253 }), { nil: undefined }),
    })
    .map((given) => Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Instructions);
  return fc.record({ match, instructions });
});

/** The body of a flow-mod that adds it; its priority distinguishes it from others. */
export function modOf({ match, instructions }: RandomFlow, priority: number, version: Version = OPENFLOW_15) {
  return {
    command: 'add',
    table: 10,
    priority,
    match: encodeMatch(match, version),
    instructions: encodeInstructions(instructions, version),
  } as const;
}
