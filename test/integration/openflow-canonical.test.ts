import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { bytesOf } from '../../src/base/bytes/bytes.ts';
import type { OpenFlowConnection } from '../../src/openflow/connection/connection.ts';
import { decodeFlowMod, writeFlowMod } from '../../src/openflow/flows/flow-mod.ts';
import { decodeInstructions, encodeInstructions } from '../../src/openflow/flows/instructions.ts';
import { writeGroupMod } from '../../src/openflow/groups/group.ts';
import { decodeMatch, encodeMatch } from '../../src/openflow/match/match.ts';
import { meterFlag, writeMeterMod } from '../../src/openflow/meter.ts';
import { OPENFLOW_15 } from '../../src/openflow/protocol.ts';
import { printFlow } from '../../src/openflow/text/flow-text.ts';
import { encodeParsedFlow, parseFlow } from '../../src/openflow/text/parse-flow.ts';
import { parseGroup } from '../../src/openflow/text/parse-group.ts';
import { deleteAllFlows, flowsOf, OpenFlowBridge } from '../support/openflow-bridge.ts';
import { modOf, randomFlow } from '../support/openflow-flows.ts';

let bridge: OpenFlowBridge;
let connection: OpenFlowConnection;

beforeAll(async () => {
  bridge = new OpenFlowBridge();
  bridge.mapTunnelOption();
  connection = await bridge.connect();
});
afterAll(() => bridge.stop());
beforeEach(() => bridge.empty(connection));

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

const meter = { command: 'add', id: 256, flags: meterFlag.packets, bands: [{ kind: 'drop', rate: 100, burst: 0 }] } as const;

const writtenFlows = [
  'ct_state=+trk+est,ip,actions=resubmit(,30,ct)',
  'ct_state=+trk+inv,ip,actions=drop',
  'ct_state=+trk+rpl,ct_nw_src=10.0.0.0/8,ct_nw_proto=6,ct_tp_dst=80/0xfff0,ip,actions=drop',
  'xreg1=0x1122334455667788/0xffff00000000ffff,xxreg1=0xff,actions=set_field:0x5/0xf->xreg3,move:NXM_NX_XXREG0[0..63]->OXM_OF_PKT_REG2[]',
  'reg0=1,reg1=2/2,reg3=0/7,actions=load:0x1->OXM_OF_PKT_REG3[63],push:NXM_OF_ETH_SRC[],pop:NXM_NX_REG2[0..15]',
  'tcp,actions=push:NXM_OF_TCP_SRC[],output:NXM_OF_TCP_DST[],check_pkt_larger(1000)->OXM_OF_PKT_REG1[33]',
  'sctp,actions=learn(table=30,eth_type=0x800,nw_proto=132,sctp_src=7,OXM_OF_SCTP_DST[],load:OXM_OF_SCTP_SRC[]->NXM_NX_REG0[0..15])',
  'ipv6,actions=ct(commit,zone=NXM_NX_REG4[16..31],nat(src=[fd00::1]-[fd00::f]:1000-2000,hash),exec(move:NXM_NX_REG0[]->NXM_NX_CT_LABEL[96..127]))',
  'ipv6,actions=ct(commit,nat(dst=fd00::5))',
  'udp,actions=ct(commit,alg=tftp,table=40)',
  'ip,actions=ct(commit,zone=7,nat(src),exec(set_field:0x1->ct_mark,load:0x5->NXM_NX_CT_LABEL[64..71]))',
  'actions=group:1',
  'actions=write_actions(group:1),goto_table:200',
  'actions=meter:256,controller(userdata=01,meter_id=256,reason=packet_out,max_len=50)',
  'tun_id=5/7,tun_src=10.0.0.0/24,tun_ipv6_dst=fd00::/9,tun_flags=+oam,tun_gbp_id=5,tun_gbp_flags=0x8,actions=set_field:0x9->tun_metadata0',
  'dl_vlan=5,dl_vlan_pcp=3,actions=pop_vlan',
  'dl_vlan_pcp=3,actions=drop',
  'vlan_tci=0x1005/0x1fff,actions=set_field:3->vlan_pcp',
  'vlan_tci=0,actions=drop',
  'vlan_tci=0xf005,actions=drop',
  'icmp6,icmp_type=135,nd_target=fd00::/16,actions=move:NXM_NX_ND_TARGET[]->NXM_NX_XXREG0[]',
  'arp,arp_op=1,arp_sha=02:00:00:00:00:00/ff:00:00:00:00:00,actions=move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],set_field:2->arp_op',
  'ip,nw_tos=32,nw_ecn=3,nw_ttl=64,nw_frag=later,actions=mod_nw_tos:16,mod_nw_ecn:2,mod_nw_src:10.0.0.1,mod_dl_dst:02:00:00:00:00:01',
  'udp6,tp_dst=53,actions=mod_tp_src:99,mod_tp_dst:98',
  'metadata=0x1/0xff00000000000001,actions=write_metadata:0xf/0xf0f,goto_table:100',
  'pkt_mark=7/15,conj_id=9,in_port=LOCAL,eth_type=0x88cc,actions=conjunction(9,64/64)',
  'actset_output=5,actions=drop',
  'actions=clone(ct_clear,clone(output:5,group:1),learn(table=9,limit=3,output:NXM_OF_IN_PORT[])),exit',
  'actions=controller(id=7,pause,userdata=00.11.22.33.44.55.66.77.88.99.aa)',
  'actions=sample(probability=1,collector_set_id=2,obs_domain_id=3,obs_point_id=4,sampling_port=LOCAL,ingress)',
];

describe('dumps of Open vSwitch equal our encoding, byte for byte', () => {
  /** Flows of the corpus that name groups, meters or fields that this switch does not have or does not match. */
  const impossible = /group:|meter:|write_actions\(output:1,group|delete_field|dp_hash|recirc_id/;
  const corpus = readFileSync(new URL('../fixtures/openflow-corpus.jsonl', import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line): { kind: string; hex: string; canonical: string } => JSON.parse(line))
    .filter((line) => line.kind === 'flow_mod' && line.canonical.includes(': ADD') && !impossible.test(line.canonical));

  it('for every flow of the corpus', async () => {
    const wanted = corpus.map((line, index) => {
      const mod = decodeFlowMod(Buffer.from(line.hex, 'hex'));
      const match = encodeMatch(decodeMatch(mod.match));
      return {
        line,
        match: line.canonical.includes('tun_metadata0=') ? tunMetadataMatch : match,
        instructions: encodeInstructions(decodeInstructions(mod.instructions)),
        table: mod.table,
        priority: index,
      };
    });
    await connection.bundle(
      wanted.map((flow) => bytesOf((w) => writeFlowMod(w, { command: 'add', ...flow }))),
      bridge.signal,
    );
    const held = new Map((await flowsOf(connection, bridge.signal)).map((entry) => [entry.priority, entry]));
    expect(held.size).toBe(wanted.length);
    for (const { line, match, instructions, priority, table } of wanted) {
      const entry = held.get(priority);
      expect(entry && { table: entry.table, match: hex(entry.match), instructions: hex(entry.instructions) }, line.canonical).toEqual({
        table,
        match: hex(match),
        instructions: hex(instructions),
      });
    }
  });

  /** Value with the length of the option that OVS maps to the field. */
  const tunMetadataMatch = encodeMatch({
    tun_metadata0: { value: Uint8Array.of(0, 0, 0xab, 0xcd), mask: Uint8Array.of(0, 0, 0xff, 0xff) },
  });

  it('for flows with every action and field that the corpus lacks', async () => {
    const group = parseGroup('group_id=1,type=select,selection_method=dp_hash,bucket=bucket_id:0,weight:100,actions=output:1');
    const written = writtenFlows.map((text, priority) => ({ text, ...encodeParsedFlow(parseFlow(text), 'add'), priority }));
    const messages = [
      bytesOf((w) => writeGroupMod(w, { command: 'add', ...group })),
      ...written.map((mod) => bytesOf((w) => writeFlowMod(w, mod))),
    ];
    await connection.send([bytesOf((w) => writeMeterMod(w, meter))], bridge.signal);
    await connection.bundle(messages, bridge.signal).catch((cause) => {
      throw new Error(`${cause.message}: ${writtenFlows[cause.context.index - 1]}`);
    });
    const held = new Map((await flowsOf(connection, bridge.signal)).map((entry) => [entry.priority, entry]));
    for (const { text, match, instructions, priority } of written) {
      const entry = held.get(priority);
      expect(entry && { match: hex(entry.match), instructions: hex(entry.instructions) }, text).toEqual({
        match: hex(match),
        instructions: hex(instructions),
      });
    }
    expect([...held.values()].map((entry) => printFlow(entry)).toSorted()).toEqual(theirText().toSorted());
  });

  it('for random flows, and our text is that of ovs-ofctl', async () => {
    const runs = Number(process.env['SEINE_FC_RUNS'] ?? 20);
    await fc.assert(
      fc.asyncProperty(fc.array(randomFlow, { minLength: 30, maxLength: 30 }), async (flows) => {
        await connection
          .bundle([deleteAllFlows, ...flows.map((flow, priority) => bytesOf((w) => writeFlowMod(w, modOf(flow, priority))))], bridge.signal)
          .catch((cause) => {
            throw new Error(
              `${cause.message} ${JSON.stringify(flows[cause.context.index - 1], (_key, value) => (typeof value === 'bigint' ? `0x${value.toString(16)}` : value))}`,
            );
          });
        const held = new Map((await flowsOf(connection, bridge.signal)).map((entry) => [entry.priority, entry]));
        for (const [priority, flow] of flows.entries()) {
          const entry = held.get(priority);
          expect(entry && hex(entry.match)).toBe(hex(encodeMatch(flow.match)));
          expect(entry && hex(entry.instructions)).toBe(hex(encodeInstructions(flow.instructions)));
          expect(entry && decodeInstructions(entry.instructions)).not.toHaveProperty('unknown');
        }
        expect([...held.values()].map((entry) => printFlow(entry)).toSorted()).toEqual(theirText().toSorted());
      }),
      { numRuns: runs },
    );
  });
});

function theirText(): string[] {
  return bridge.ofctlLines(OPENFLOW_15, '--no-stats', 'dump-flows', 'br-int');
}
