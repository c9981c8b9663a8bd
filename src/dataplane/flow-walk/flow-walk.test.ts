import { expect, it } from 'vitest';
import type { Action } from '../../openflow/actions/action.ts';
import { encodeInstructions, type Instructions } from '../../openflow/flows/instructions.ts';
import { encodeMatch, type Match } from '../../openflow/match/match.ts';
import { AssumedConnections } from './assumed-tracking.ts';
import { walkPacket } from './flow-walk.ts';
import { FlowsInMemory } from './flows-in-memory.ts';
import type { FlowSource, InstalledFlow } from './installed-flow.ts';

interface Written {
  readonly table?: number;
  readonly priority?: number;
  readonly match?: Match;
  readonly apply?: readonly Action[];
  readonly more?: Instructions;
}

function flow({ table = 0, priority = 100, match = {}, apply = [], more = {} }: Written): InstalledFlow {
  return { table, priority, cookie: 0x1n, match: encodeMatch(match), instructions: encodeInstructions({ apply, ...more }) };
}

const output: Action = { kind: 'output', port: 7 };
const packet = { in_port: 1, eth_type: 0x0800, ip_src: 0x0a0a0005, ip_dst: 0x0a0a0006, ip_proto: 6, tcp_dst: 80, nw_ttl: 64 };

async function walk(flows: readonly InstalledFlow[], groups: ReadonlyMap<number, readonly (readonly Action[])[]> = new Map()) {
  return await walkPacket(new FlowsInMemory(flows, groups), packet, { tracking: new AssumedConnections() });
}

it('takes the matching flow of the highest priority, and ends where none matches', async () => {
  const taken = await walk([flow({ apply: [output] }), flow({ priority: 200, match: { in_port: 1 }, more: { gotoTable: 4 } })]);
  expect(taken.hops.map(({ table }) => table)).toEqual([0, 4]);
  expect(taken).toMatchObject({ outputs: [] });
  expect(taken.hops[1]?.flow).toBeUndefined();
});

it.each<readonly [string, readonly InstalledFlow[]]>([
  ['an action that it does not know', [flow({ apply: [{ kind: 'popVlan' }] })]],
  ['a field that it does not know', [flow({ match: { eth_type: 0x0800, ip_dscp: 3 } })]],
  ['an instruction that it does not know', [flow({ more: { writeMetadata: { value: 1n, mask: 1n } } })]],
  ['another flow of this priority', [flow({ match: { in_port: 1 } }), flow({ match: { eth_type: 0x0800 }, apply: [output] })]],
  ['a group that does not exist', [flow({ apply: [{ kind: 'group', group: 3 }] })]],
  ['an endless path', [flow({ apply: [{ kind: 'resubmit', table: 0 }] })]],
  ['a resubmit by another port', [flow({ apply: [{ kind: 'resubmit', port: 5, table: 0 }] })]],
  [
    'a write to a field that it does not know',
    [flow({ apply: [{ kind: 'setField', field: 'ip_dscp', value: 1 }], match: { eth_type: 0x0800 } })],
  ],
])('reports %s instead of a guess', async (_, flows) => {
  expect((await walk(flows)).unreadable).toBeDefined();
});

it('accepts two equal flows of one priority', async () => {
  const walked = await walk([flow({ match: { in_port: 1 }, apply: [output] }), flow({ match: { eth_type: 0x0800 }, apply: [output] })]);
  expect(walked).toMatchObject({ outputs: [{ to: 7 }] });
  expect(walked.unreadable).toBeUndefined();
});

it('reads flows whose bytes are valid only during the visit', async () => {
  const written = [flow({ apply: [output], match: { in_port: 1 } }), flow({ priority: 1 })];
  const source: FlowSource = {
    visit: (table, visitor) => {
      for (const each of written.filter((one) => one.table === table)) {
        const view = { ...each, match: each.match.slice(), instructions: each.instructions.slice() };
        visitor(view);
        view.match.fill(0xff);
        view.instructions.fill(0xff);
      }
      return Promise.resolve();
    },
    buckets: () => Promise.resolve(undefined),
  };
  expect(await walkPacket(source, packet, { tracking: new AssumedConnections() })).toMatchObject({ outputs: [{ to: 7 }] });
});

it('a bucket changes the packet for itself only, and executes the last of its actions', async () => {
  const bucket: Action[] = [{ kind: 'setField', field: 'reg3', value: 9 }, { kind: 'output', port: 8 }, output];
  const walked = await walk(
    [
      flow({
        apply: [
          { kind: 'group', group: 3 },
          { kind: 'output', port: 9 },
        ],
      }),
    ],
    new Map([[3, [bucket]]]),
  );
  expect(walked.outputs.map(({ to, packet: left }) => [to, left.get('reg3')])).toEqual([
    [7, 9n],
    [9, 0n],
  ]);
  expect(walked.choice?.buckets).toBe(1);
});

it('counts buckets that do the same once', async () => {
  const bucket = (port: number): Action[] => [
    { kind: 'setField', field: 'xxreg0', value: 1n << 100n },
    { kind: 'output', port },
  ];
  const walked = await walk([flow({ apply: [{ kind: 'group', group: 3 }] })], new Map([[3, [bucket(7), bucket(8), bucket(7)]]]));
  expect(walked.choice?.buckets).toBe(2);
});

it('names the groups of other source ports, whose flows match all else of the packet', async () => {
  const bucket = (port: number): readonly Action[] => [{ kind: 'output', port }];
  const ofPorts = (value: number, group: number, more: Partial<Written> = {}, match: Match = {}) =>
    flow({ match: { eth_type: 0x0800, ip_proto: 6, tcp_src: { value, mask: 6 }, ...match }, apply: [{ kind: 'group', group }], ...more });
  const flows = [ofPorts(0, 1), ofPorts(2, 2), ofPorts(4, 3), ofPorts(6, 4, {}, { ip_dst: 0x0a0a0007 }), ofPorts(6, 4, { priority: 90 })];
  const groups = new Map([
    [1, [bucket(7)]],
    [2, [bucket(7), bucket(8), bucket(7)]],
    [3, [bucket(9)]],
    [4, [bucket(9)]],
  ]);
  const sent = { ...packet, tcp_src: 40_001 };
  const source = new FlowsInMemory(flows, groups);
  const walked = await walkPacket(source, sent, { tracking: new AssumedConnections(), hasOthers: true });
  expect(walked.choice).toMatchObject({
    buckets: 1,
    others: [
      { sourcePort: 40_003, buckets: 2 },
      { sourcePort: 40_005, buckets: 1 },
    ],
  });
  // A table may be large, and OVS reads it for each visit.
  const visited: number[] = [];
  const counting: FlowSource = {
    visit: (table, visitor) => {
      visited.push(table);
      return source.visit(table, visitor);
    },
    buckets: (group) => source.buckets(group),
  };
  expect((await walkPacket(counting, sent, { tracking: new AssumedConnections() })).choice?.others).toEqual([]);
  expect(visited).toEqual([0]);
});

it('knows a connection that the packet itself commits, and its translation', async () => {
  const ct = (table: number, dst?: number): Action => ({
    kind: 'ct',
    commit: true,
    zone: 5,
    table,
    exec: [{ kind: 'setField', field: 'ct_mark', value: 0x10, mask: 0x10 }],
    ...(dst !== undefined && { nat: { direction: 'dst', addresses: { family: 'ipv4', first: dst }, ports: { first: 8080 } } }),
  });
  const walked = await walk([
    flow({ apply: [ct(4, 0x0a0a0009)] }),
    flow({ table: 4, match: { ct_mark: { value: 0x10, mask: 0x10 }, ct_state: { value: 0x21, mask: 0x21 } }, apply: [ct(8)] }),
    flow({ table: 8, match: { eth_type: 0x0800, ip_dst: 0x0a0a0009, ct_nw_dst: 0x0a0a0006 }, apply: [output] }),
  ]);
  expect(walked.outputs[0]?.packet.get('tcp_dst')).toBe(8080n);
});

/** Tracks the packet in zone 5, and translates its destination. */
const translate = {
  kind: 'ct',
  commit: true,
  zone: 5,
  exec: [],
  nat: { direction: 'dst', addresses: { family: 'ipv4', first: 0x0a0a0009 } },
} as const;

it('a lookup by the original tuple sees the addresses of the first packet, and its actions those of this one', async () => {
  const walked = await walk([
    flow({ apply: [{ ...translate, table: 4 }] }),
    flow({ table: 4, apply: [{ kind: 'resubmit', table: 8, withTracked: true }] }),
    flow({ table: 8, match: { eth_type: 0x0800, ip_dst: 0x0a0a0006 }, apply: [output] }),
  ]);
  expect(walked.outputs[0]?.packet.get('ip_dst')).toBe(0x0a0a0009n);
});

it('after ct() without a table, and in the actions after ct() with one, the packet is untracked', async () => {
  const tracked = { ct_state: { value: 0x20, mask: 0x20 } };
  const walked = await walk([
    flow({ apply: [{ ...translate, table: 2 }] }),
    flow({ table: 2, match: tracked, apply: [translate], more: { gotoTable: 4 } }),
    flow({ table: 4, match: tracked, apply: [output] }),
    flow({
      table: 4,
      priority: 1,
      apply: [
        { ...translate, table: 8 },
        { kind: 'resubmit', table: 12 },
      ],
    }),
    flow({ table: 12, match: tracked, apply: [{ kind: 'output', port: 9 }] }),
    flow({ table: 12, priority: 1, apply: [{ kind: 'output', port: 8 }] }),
  ]);
  expect(walked.outputs.map(({ to }) => to)).toEqual([8]);
});
