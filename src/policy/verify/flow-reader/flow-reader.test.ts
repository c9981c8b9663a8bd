import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cidrOf, parseIp } from '../../../base/net/ip.ts';
import { decodeInstructions } from '../../../openflow/flows/instructions.ts';
import { decodeMatch } from '../../../openflow/match/match.ts';
import { encodeParsedFlow, parseFlow } from '../../../openflow/text/parse-flow.ts';
import { type BridgePacket, PolicyBytes } from './flow-reader.ts';
import type { HeldFlow } from './table-index.ts';

function held(text: string): HeldFlow {
  const { cookie = 0n, table = 0, priority = 0, match, instructions } = encodeParsedFlow(parseFlow(text), 'add');
  return { table, priority, cookie, match, instructions };
}

/** Class, identity and decision in the register layout. */
const cls = (n: number): string => `0x${(n << 11).toString(16)}/0x3ff800`;
const verdict = { allow: 'set_field:0x800/0x1c00->reg0', deny: 'set_field:0xc00/0x1c00->reg0' };

const common = [
  'table=36,priority=200,reg0=0x1/0xf actions=goto_table:56',
  'table=37,priority=210,reg0=0x400/0x1c00 actions=goto_table:56',
  'table=37,priority=200 actions=resubmit(,38),goto_table:42',
  'table=81,priority=210,reg0=0x400/0x1c00 actions=goto_table:100',
  'table=81,priority=200 actions=resubmit(,82),goto_table:86',
  'table=80,priority=230,reg0=0x2/0xf,ip,nw_src=192.168.77.1 actions=goto_table:100',
  `table=42,priority=200,reg13=${cls(1)} actions=${verdict.deny},goto_table:46`,
  `table=86,priority=200,reg13=${cls(1)} actions=${verdict.deny},goto_table:90`,
  'table=46,priority=200,reg0=0x800/0x1c00 actions=set_field:0->reg13,set_field:0/0x1c00->reg0,goto_table:56',
  'table=46,priority=200,ct_state=-new,reg0=0xc00/0x1c00,ip actions=ct(commit,zone=65520,exec(set_field:0x80/0x80->ct_mark))',
  'table=46,priority=190,reg0=0xc00/0x1c00 actions=drop',
  'table=90,priority=200,reg0=0x800/0x1c00 actions=set_field:0->reg13,set_field:0/0x1c00->reg0,goto_table:100',
  'table=90,priority=190,reg0=0xc00/0x1c00 actions=drop',
];

/** Example of the design document: TCP 5432 from one pod, everything from 10.0.0.0/8 except 10.9.0.0/16. */
const database = [
  'table=36,priority=200,in_port=32784 actions=goto_table:56',
  `table=80,priority=200,reg1=32784 actions=set_field:${cls(5)}->reg13,goto_table:81`,
  'table=82,priority=1032,ip,nw_src=192.0.2.6 actions=set_field:0x7->reg8',
  'table=82,priority=1008,ip,nw_src=10.0.0.0/8 actions=set_field:0x200000->reg8',
  'table=82,priority=1016,ip,nw_src=10.9.0.0/16 actions=set_field:0->reg8',
  'table=82,priority=100,reg8=0x200000/0xfff00000 actions=drop',
  `table=86,priority=210,reg13=${cls(5)},reg8=0x200000/0xfff00000 actions=${verdict.allow},goto_table:90`,
  `table=86,priority=220,reg13=${cls(5)},reg8=0x7 actions=set_field:9->reg12,goto_table:87`,
  `table=86,priority=200,reg13=${cls(5)} actions=${verdict.deny},goto_table:90`,
  `table=87,priority=220,reg12=9,tcp,tp_dst=5432 actions=${verdict.allow},goto_table:90`,
  `table=87,priority=220,reg12=9,udp,tp_dst=0x1000/0xff00 actions=${verdict.allow},goto_table:90`,
  `table=87,priority=200,reg12=9 actions=${verdict.deny},goto_table:90`,
];

function said(bytes: PolicyBytes, packet: Partial<BridgePacket> & { readonly peer: BridgePacket['peer'] }): readonly string[] {
  const { outcomes } = bytes.decide({ direction: 'ingress', ofPort: 32784, own: parseIp('10.10.0.5'), ...packet });
  return outcomes.map(({ protocol, first, last, verdict: what }) => `${protocol} ${first}-${last} ${what}`).toSorted();
}

const everything = (what: string): readonly string[] =>
  ['ICMP', 'SCTP', 'TCP', 'UDP', 'other'].map((protocol) => `${protocol} 0-65535 ${what}`);

describe('the flows of policy on a bridge', () => {
  const bytes = new PolicyBytes([...common, ...database].map(held));

  it('admit a block, and not its exceptions', () => {
    expect(said(bytes, { peer: parseIp('10.1.2.3') })).toEqual(everything('allow'));
    expect(said(bytes, { peer: parseIp('10.9.2.3') })).toEqual(everything('deny'));
    expect(said(bytes, { peer: parseIp('203.0.113.1') })).toEqual(everything('deny'));
  });

  it('decide by protocol and port, and name the flow', () => {
    expect(said(bytes, { peer: parseIp('192.0.2.6') })).toEqual([
      'ICMP 0-65535 deny',
      'SCTP 0-65535 deny',
      'TCP 0-5431 deny',
      'TCP 5432-5432 allow',
      'TCP 5433-65535 deny',
      'UDP 0-4095 deny',
      'UDP 4096-4351 allow',
      'UDP 4352-65535 deny',
      'other 0-65535 deny',
    ]);
    const { way, outcomes } = bytes.decide({
      direction: 'ingress',
      ofPort: 32784,
      own: parseIp('10.10.0.5'),
      peer: parseIp('192.0.2.6'),
    });
    expect(way.map(({ table }) => table)).toEqual([80, 81, 82, 86]);
    expect(outcomes.find(({ verdict: what }) => what === 'allow')?.way.map(({ table }) => table)).toEqual([87, 90]);
    expect(bytes.problems).toEqual([]);
  });

  it('admit packets of the node itself, and not external ones with its address', () => {
    const peer = parseIp('192.168.77.1');
    expect(said(bytes, { peer, from: 'gateway' })).toEqual(everything('allow'));
    expect(said(bytes, { peer, from: 'external' })).toEqual(everything('deny'));
  });

  it('block a pod without its flow, and admit everything for a free one', () => {
    expect(said(bytes, { peer: parseIp('10.1.2.3'), ofPort: 32785 })).toEqual(everything('closed'));
    expect(said(bytes, { peer: parseIp('10.9.2.3'), direction: 'egress' })).toEqual(everything('allow'));
  });

  it('block an unknown pod', () => {
    const closed = new PolicyBytes(
      [...common, `table=36,priority=200,in_port=32784 actions=set_field:${cls(1)}->reg13,goto_table:37`].map(held),
    );
    expect(said(closed, { peer: parseIp('10.9.2.3'), direction: 'egress' })).toEqual(everything('closed'));
  });

  it('report in audit mode what would be denied', () => {
    const flows = [...common.filter((text) => !text.startsWith('table=90,priority=190')), ...database];
    const audit = new PolicyBytes(
      [...flows, 'table=90,priority=190,reg0=0xc00/0x1c00 actions=set_field:0/0x1c00->reg0,goto_table:100'].map(held),
    );
    const { outcomes } = audit.decide({ direction: 'ingress', ofPort: 32784, own: parseIp('10.10.0.5'), peer: parseIp('10.9.0.1') });
    expect(outcomes.map(({ verdict: what, decided }) => [what, decided])).toEqual(Array(5).fill(['allow', 'deny']));
  });

  it.each([
    ['an action that is not known', 'table=86,priority=230 actions=output:1,goto_table:90', /cannot be read/],
    ['a way out of policy', 'table=86,priority=230 actions=goto_table:110', /continues at table 110/],
    ['two flows of one priority', `table=86,priority=210,reg13=${cls(5)},ct_state=+new actions=drop`, /another flow of this priority/],
  ])('name %s', (_, text, problem) => {
    const corrupted = new PolicyBytes([...common, ...database, text].map(held));
    said(corrupted, { peer: parseIp('10.1.2.3') });
    expect(corrupted.problems.join('\n')).toMatch(problem);
  });

  it('name an unknown match', () => {
    expect(new PolicyBytes([held('table=86,priority=230,tcp,tp_src=80 actions=drop')]).problems.join()).toMatch(/the match cannot be read/);
  });
});

/** Walks one packet through flows in order of priority, field by field, without an index. */
function walkOne(flows: readonly HeldFlow[], fields: Readonly<Record<string, number>>, table = 80): 'allow' | 'deny' {
  if (table === 100) return 'allow';
  const state: Record<string, number> = { ...fields };
  const find = (at: number): HeldFlow | undefined =>
    flows
      .filter((flow) => flow.table === at && Object.entries(decodeMatch(flow.match)).every(([name, given]) => has(state, name, given)))
      .toSorted((a, b) => b.priority - a.priority)[0];
  let next: number | undefined;
  const run = (flow: HeldFlow | undefined): void => {
    if (!flow) return;
    const { apply = [], gotoTable } = decodeInstructions(flow.instructions);
    for (const action of apply) {
      if (action.kind === 'resubmit') run(find(action.table ?? 0));
      if (action.kind !== 'setField') continue;
      const mask = Number(action.mask ?? 0xffff_ffff);
      state[action.field] = (((state[action.field] ?? 0) & ~mask) | Number(action.value)) >>> 0;
    }
    next = gotoTable;
  };
  run(find(table));
  return next === undefined ? 'deny' : walkOne(flows, state, next);
}

function has(state: Readonly<Record<string, number>>, name: string, given: unknown): boolean {
  const { value, mask } = typeof given === 'number' ? { value: given, mask: 0xffff_ffff } : (given as { value: number; mask: number });
  return ((state[name] ?? 0) & mask) >>> 0 === (value & mask) >>> 0;
}

const rowOf = {
  identity: fc.record({
    length: fc.constantFrom(8, 16, 24, 30, 32),
    host: fc.integer({ min: 0, max: 7 }),
    coarse: fc.nat(2),
    fine: fc.nat(2),
  }),
  relation: fc.record({ coarse: fc.nat(2), fine: fc.option(fc.nat(2)), to: fc.constantFrom('allow', 'deny', '7', '8') }),
  port: fc.record({
    decision: fc.constantFrom(7, 8),
    protocol: fc.constantFrom('tcp', 'udp', 'sctp', 'icmp'),
    port: fc.option(fc.nat(31)),
    mask: fc.constantFrom(0xffff, 0xfffe, 0xfff8),
  }),
};

function randomFlows(rows: {
  readonly identities: readonly (typeof rowOf.identity extends fc.Arbitrary<infer T> ? T : never)[];
  readonly relations: readonly (typeof rowOf.relation extends fc.Arbitrary<infer T> ? T : never)[];
  readonly ports: readonly (typeof rowOf.port extends fc.Arbitrary<infer T> ? T : never)[];
}): readonly HeldFlow[] {
  const wordOf = (coarse: number, fine: number): number => coarse * 2 ** 20 + fine;
  const texts = [
    ...rows.identities.map(
      ({ length, host, coarse, fine }) =>
        `table=82,priority=${1000 + length},ip,nw_src=${cidrOf(parseIp(`10.1.0.${host}`), length).text} actions=set_field:${wordOf(coarse, fine)}->reg8`,
    ),
    ...rows.relations.map(({ coarse, fine, to }) => {
      const [priority, peer] = fine === null ? [210, `${wordOf(coarse, 0)}/0xfff00000`] : [220, `${wordOf(coarse, fine)}`];
      const [does, table] = to === 'allow' || to === 'deny' ? [verdict[to], 90] : [`set_field:${to}->reg12`, 87];
      return `table=86,priority=${priority},reg13=${cls(5)},reg8=${peer} actions=${does},goto_table:${table}`;
    }),
    ...rows.ports.map(({ decision, protocol, port, mask }, at) => {
      const asked = port === null || protocol === 'icmp' ? '' : `,tp_dst=${port & mask}/${mask}`;
      return `table=87,priority=${300 + at},reg12=${decision},${protocol}${asked} actions=${at % 2 === 0 ? verdict.allow : verdict.deny},goto_table:90`;
    }),
  ];
  // One flow for each match and priority, as in OVS.
  const unique = new Map([...common, ...database.slice(0, 2), ...texts].map((text) => [text.split(' actions')[0], text]));
  return [...unique.values()].map(held);
}

it('an index finds the same as a walk from flow to flow', () => {
  const rows = fc.record({
    identities: fc.array(rowOf.identity, { maxLength: 8 }),
    relations: fc.array(rowOf.relation, { maxLength: 8 }),
    ports: fc.array(rowOf.port, { maxLength: 8 }),
  });
  const protocols = { TCP: 6, UDP: 17, SCTP: 132, ICMP: 1, other: 47 } as const;
  const fields = { TCP: 'tcp_dst', UDP: 'udp_dst', SCTP: 'sctp_dst' } as const;
  let allowed = 0;
  fc.assert(
    fc.property(rows, fc.nat(7), (given, host) => {
      const flows = randomFlows(given);
      const peer = parseIp(`10.1.0.${host}`);
      const { outcomes } = new PolicyBytes(flows).decide({ direction: 'ingress', ofPort: 32784, own: parseIp('10.10.0.5'), peer });
      for (const { protocol, first, last, verdict: what } of outcomes)
        for (const port of new Set([first, last])) {
          const packet = {
            eth_type: 0x800,
            reg0: 0x31,
            reg1: 32784,
            ct_state: 0x21,
            ip_src: Number(peer.value),
            ip_proto: protocols[protocol],
          };
          const ports = protocol in fields ? { [fields[protocol as 'TCP']]: port } : {};
          expect(walkOne(flows, { ...packet, ...ports })).toBe(what);
          if (what === 'allow') allowed++;
        }
    }),
    { numRuns: 300 },
  );
  expect(allowed).toBeGreaterThan(100);
});
