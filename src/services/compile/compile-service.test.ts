import { describe, expect, it } from 'vitest';
import { type Cidr, ipFromValue, parseCidr, parseIp } from '../../base/net/ip.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { formatFlow, formatGroup } from '../../dataplane/pipeline/format.ts';
import { compileEndpoint, compileService } from './compile-service.ts';
import type { ServiceEndpoint, ServiceIntent } from './service-intent.ts';
import { compileSourceRanges, rangeSetOf } from './source-ranges.ts';

const endpoints: readonly ServiceEndpoint[] = [
  { ip: parseIp('10.10.0.9'), port: 53 },
  { ip: parseIp('10.10.1.5'), port: 53 },
];
const dns: ServiceIntent = {
  name: 'dns/ipv4',
  family: 'ipv4',
  transport: 'tcp',
  port: 53,
  addresses: [{ kind: 'cluster', ip: parseIp('10.96.0.10'), port: 53 }],
  internalPolicy: 'Cluster',
  externalPolicy: 'Cluster',
  translation: 'bucket',
  sourceRanges: [],
  cluster: endpoints,
  local: [],
  anyEndpoint: true,
  objections: [],
};
const nodePort = { kind: 'nodePort', ip: parseIp('169.254.0.252'), port: 30_053 } as const;
const balancer = { kind: 'loadBalancer', ip: parseIp('198.51.100.7'), port: 53 } as const;

function compile(change: Partial<ServiceIntent> = {}): { readonly flows: string[]; readonly groups: string[] } {
  const names: string[] = [];
  const groupId = (name: string): number => {
    if (!names.includes(name)) names.push(name);
    return names.indexOf(name) + 7;
  };
  const { flows, groups } = compileService({ ...dns, ...change }, { owner: ownerOf('service', 'default/dns:dns/ipv4'), groupId });
  return { flows: flows.map(formatFlow), groups: groups.map(formatGroup) };
}

/** Finds the `ct` that translates to an endpoint. */
function ct(text: string): string {
  const exec = 'exec(set_field:0x10/0x10->ct_mark,move:reg0[0..3]->ct_mark[0..3],move:reg0[20..20]->ct_mark[7..7])';
  return `ct(commit,table=egressEntry,zone=65520,nat(dst=${text}),${exec})`;
}
const tried = 'set_field:0x20000/0x70000->reg4';

describe('compileService', () => {
  it('balances over a group whose buckets translate', () => {
    expect(compile()).toEqual({
      flows: [
        `balance,priority=200,reg4=0x10000/0x70000,tcp,nw_dst=10.96.0.10,tp_dst=53 actions=set_field:0x200/0x200->reg0,set_field:0x7->reg7,${tried},group:7`,
      ].map((line) => `table=${line}`),
      groups: [
        'group_id=7,type=select,selection_method=dp_hash,' +
          `bucket=weight:387,actions=${ct('10.10.0.9:53')},bucket=weight:400,actions=${ct('10.10.1.5:53')},bucket=weight:13,actions=${ct('10.10.0.9:53')}`,
      ],
    });
  });

  it('balances over a group whose buckets resubmit to the translation, if endpoints have their own', () => {
    expect(compile({ translation: 'endpoint' })).toEqual({
      flows: [
        'balance,priority=200,reg4=0x10000/0x70000,tcp,nw_dst=10.96.0.10,tp_dst=53 actions=set_field:0x200/0x200->reg0,set_field:0x7->reg7,group:7',
      ].map((line) => `table=${line}`),
      groups: [
        'group_id=7,type=select,selection_method=dp_hash,' +
          'bucket=weight:387,actions=set_field:0xa0a0009->reg3,set_field:0x35/0xffff->reg4,set_field:0x20000/0x70000->reg4,resubmit(,dnat),' +
          'bucket=weight:400,actions=set_field:0xa0a0105->reg3,set_field:0x35/0xffff->reg4,set_field:0x20000/0x70000->reg4,resubmit(,dnat),' +
          'bucket=weight:13,actions=set_field:0xa0a0009->reg3,set_field:0x35/0xffff->reg4,set_field:0x20000/0x70000->reg4,resubmit(,dnat)',
      ],
    });
  });

  it('selects among the groups of many endpoints by source ports', () => {
    const cluster = Array.from({ length: 600 }, (_, at) => ({ ip: ipFromValue('ipv4', 0x0a0a_0000n + BigInt(at)), port: 53 }));
    const { flows, groups } = compile({ cluster });
    const asked = 'table=balance,priority=200,reg4=0x10000/0x70000,tcp,nw_dst=10.96.0.10';
    expect(flows.map((flow) => flow.split(' actions=')[0])).toEqual([0, 2, 4, 6].map((from) => `${asked},tp_src=0x${from}/0x6,tp_dst=53`));
    // 7 identifies the Service itself, by the name of its first group.
    expect(flows.map((flow) => flow.slice(flow.lastIndexOf(',') + 1))).toEqual([7, 8, 9, 10].map((id) => `group:${id}`));
    expect(groups).toHaveLength(4);
  });

  it('needs no group for one endpoint', () => {
    const balance =
      'table=balance,priority=200,reg4=0x10000/0x70000,tcp,nw_dst=10.96.0.10,tp_dst=53 actions=set_field:0x200/0x200->reg0,set_field:0x7->reg7,';
    const only = { cluster: endpoints.slice(0, 1) };
    expect(compile(only)).toEqual({ flows: [`${balance}${tried},${ct('10.10.0.9:53')}`], groups: [] });
    expect(compile({ ...only, translation: 'endpoint' })).toEqual({
      flows: [`${balance}set_field:0xa0a0009->reg3,set_field:0x35/0xffff->reg4,set_field:0x20000/0x70000->reg4,goto_table:dnat`],
      groups: [],
    });
  });

  describe('for an address that is an endpoint’s as well', () => {
    const own = { kind: 'loadBalancer', ip: parseIp('10.10.1.5'), port: 53 } as const;
    const asked = 'tcp,nw_dst=10.10.1.5,tp_dst=53';
    const fromItself =
      'table=sourceRanges,priority=230,tcp,nw_src=10.10.1.5,nw_dst=10.10.1.5,tp_src=0x35/0xffff,tp_dst=53 actions=goto_table:egressEntry';
    /** Flow of a pod's connection to an opened address, with the pod's own meter. */
    const opened = `table=serviceEntry,priority=210,reg0=0x3/0xf,${asked} actions=set_field:0x400000/0x1c00000->reg4,goto_table:openings`;

    it('has its own group, in which that endpoint’s bucket does not translate', () => {
      const [, , ...flows] = compile({ addresses: [...dns.addresses, own] }).flows;
      expect(flows).toEqual([opened, `table=balance,priority=200,reg4=0x10000/0x70000,${asked} actions=group:8`]);
      const { groups } = compile({ addresses: [own] });
      const marked = `set_field:0x200/0x200->reg0,set_field:0x7->reg7,${tried},`;
      expect(groups).toEqual([
        'group_id=8,type=select,selection_method=dp_hash,' +
          `bucket=weight:387,actions=${marked}${ct('10.10.0.9:53')},bucket=weight:400,actions=resubmit(,egressEntry),bucket=weight:13,actions=${marked}${ct('10.10.0.9:53')}`,
      ]);
    });

    it('forwards packets unchanged that can only go there, and packets from there', () => {
      expect(compile({ addresses: [own], cluster: endpoints.slice(1) }).flows).toEqual([
        fromItself,
        opened,
        `table=balance,priority=200,reg4=0x10000/0x70000,${asked} actions=goto_table:egressEntry`,
      ]);
    });

    it('does not translate for clients remembered before, nor fragmented datagrams', () => {
      const { flows } = compile({
        addresses: [own],
        cluster: endpoints.slice(1),
        transport: 'udp',
        translation: 'endpoint',
        affinitySeconds: 60,
      });
      expect(flows.filter((flow) => /table=dnat|table=balance.*ip_frag/.test(flow))).toEqual([
        'table=dnat,priority=220,reg3=0xa0a0105,reg4=0x35/0xffff,reg4=0x20000/0x70000,udp,nw_dst=10.10.1.5,tp_dst=53 ' +
          'actions=set_field:0x10000/0x70000->reg4,goto_table:egressEntry',
      ]);
      expect(flows.join('\n')).not.toMatch(/table=balance.*learn.*goto_table:dnat\n/);
    });
  });

  it('refuses immediately without an endpoint', () => {
    expect(compile({ cluster: [], anyEndpoint: false })).toEqual({
      flows: ['table=balance,priority=200,reg4=0x10000/0x70000,tcp,nw_dst=10.96.0.10,tp_dst=53 actions=controller(userdata=04)'],
      groups: [],
    });
  });

  it('recognises fragmented opening datagrams by the packet that conntrack reassembled', () => {
    expect(compile({ transport: 'udp', cluster: endpoints.slice(0, 1) }).flows.map((flow) => flow.split(' ')[0])).toEqual([
      'table=balance,priority=200,reg4=0x10000/0x70000,udp,nw_dst=10.96.0.10,tp_dst=53',
      'table=balance,priority=200,reg4=0x10000/0x70000,ct_state=+new+trk,udp,nw_dst=10.96.0.10,ip_frag=yes,ct_nw_proto=17,ct_tp_dst=53',
    ]);
  });

  it('accepts node ports from the node’s nftables rules only', () =>
    expect(compile({ addresses: [nodePort] }).flows).toEqual([
      'table=balance,priority=200,reg0=0x2/0xf,reg4=0x10000/0x70000,tcp,nw_dst=169.254.0.252,tp_dst=30053 actions=set_field:0x200/0x200->reg0,set_field:0x7->reg7,set_field:0x20000/0x70000->reg4,group:7',
    ]));

  it('gives external clients local endpoints, and pods all, if the policy is Local', () => {
    const { flows, groups } = compile({ addresses: [nodePort], externalPolicy: 'Local', local: endpoints.slice(1) });
    expect(flows).toEqual([
      'table=balance,priority=200,reg0=0x2/0xf,reg4=0x10000/0x70000,tcp,nw_dst=169.254.0.252,tp_dst=30053 actions=set_field:0x200/0x200->reg0,set_field:0x7->reg7,set_field:0x20000/0x70000->reg4,group:7',
      'table=balance,priority=210,reg0=0x2/0xf,reg4=0x10000/0x70000,reg4=0xc00000/0x1c00000,tcp,nw_dst=169.254.0.252,tp_dst=30053 ' +
        `actions=set_field:0x200/0x200->reg0,set_field:0x7->reg7,${tried},${ct('10.10.1.5:53')}`,
    ]);
    expect(groups).toHaveLength(1);
  });

  it('drops packets that only this node may serve and cannot', () =>
    expect(compile({ addresses: [nodePort], externalPolicy: 'Local' }).flows[1]).toBe(
      'table=balance,priority=210,reg0=0x2/0xf,reg4=0x10000/0x70000,reg4=0xc00000/0x1c00000,tcp,nw_dst=169.254.0.252,tp_dst=30053 actions=drop',
    ));

  it('matches source ranges for clients of a load balancer, in one flow for each address', () => {
    const sourceRanges = ['203.0.113.0/24', '192.168.0.0/16'].map(parseCidr);
    expect(compile({ addresses: [balancer], sourceRanges, cluster: endpoints.slice(0, 1) }).flows.slice(0, 2)).toEqual([
      'table=sourceRanges,priority=230,tcp,nw_src=198.51.100.7,nw_dst=198.51.100.7,tp_src=0x35/0xffff,tp_dst=53 actions=goto_table:egressEntry',
      'table=sourceRanges,priority=190,tcp,nw_dst=198.51.100.7,tp_dst=53 ' +
        'actions=set_field:0xcd25c861->reg2,set_field:0xbf0e74ef->reg5,goto_table:sourceRangeSets',
    ]);
  });

  it('admits clients in the source ranges, and the node if one of its addresses is in them', () => {
    const node = { addresses: [parseIp('192.168.77.1')], gateway: [parseIp('10.10.0.1')] };
    const sourceRanges = ['203.0.113.0/24', '192.168.0.0/16'].map(parseCidr);
    const allow = (source: string) =>
      `table=sourceRangeSets,priority=200,reg2=0xcd25c861,reg5=0xbf0e74ef,ip,nw_src=${source} actions=resubmit(,affinity),resubmit(,balance)`;
    const flowsOf = (ranges: readonly Cidr[]) => compileSourceRanges(ranges, node).flows.map(formatFlow);
    expect(flowsOf(sourceRanges)).toEqual(['203.0.113.0/24', '192.168.0.0/16', '10.10.0.1/32'].map(allow));
    expect(flowsOf(sourceRanges.slice(0, 1))).toHaveLength(1);
    expect(rangeSetOf(sourceRanges.toReversed()).owner).toBe(rangeSetOf(sourceRanges).owner);
  });

  it('remembers the endpoint of a client', () => {
    const { flows, groups } = compile({ translation: 'endpoint', affinitySeconds: 600 });
    expect(flows[1]).toBe(
      'table=balance,priority=200,reg4=0x30000/0x70000,reg7=0x7,tcp actions=learn(table=affinity,idle_timeout=600,tcp,nw_src,nw_dst,tp_dst,load:endpoint),' +
        'set_field:0x20000/0x70000->reg4,goto_table:dnat',
    );
    expect(groups[0]).toMatch(
      /^group_id=7,type=select,selection_method=dp_hash,bucket=weight:\d+,actions=.*0x30000\/0x70000->reg4,resubmit\(,sourceRanges\),bucket=/,
    );
  });

  it('remembers the client of a single endpoint, which may not stay alone', () =>
    expect(compile({ translation: 'endpoint', affinitySeconds: 600, cluster: endpoints.slice(0, 1) }).flows[0]).toMatch(
      /learn\(table=affinity,.*\),goto_table:dnat$/,
    ));

  it("leaves timeouts that exceed OpenFlow's maximum to the agent", () =>
    expect(compile({ translation: 'endpoint', affinitySeconds: 65_536 }).flows[1]).toContain('learn(table=affinity,tcp,'));
});

describe('compileEndpoint', () => {
  it('translates and remembers the origin of the connection', () => {
    expect(compileEndpoint('tcp', { ip: parseIp('10.10.1.5'), port: 8080 }).flows.map(formatFlow)).toEqual([
      'table=dnat,priority=200,reg3=0xa0a0105,reg4=0x1f90/0xffff,reg4=0x20000/0x70000,tcp ' +
        'actions=ct(commit,table=egressEntry,zone=65520,nat(dst=10.10.1.5:8080),exec(set_field:0x10/0x10->ct_mark,move:reg0[0..3]->ct_mark[0..3],move:reg0[20..20]->ct_mark[7..7]))',
    ]);
  });
  it('names IPv6 endpoints in four registers', () => {
    const [flow = ''] = compileEndpoint('udp', { ip: parseIp('fd00:10::5'), port: 53 }).flows.map(formatFlow);
    expect(flow).toContain('reg12=0xfd000010,reg13=0x0,reg14=0x0,reg15=0x5,');
    expect(flow).toContain('nat(dst=[fd00:10::5]:53)');
  });
});
