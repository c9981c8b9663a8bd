import { describe, expect, it } from 'vitest';
import { parseCidr, parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import { priority } from '../pipeline/flow.ts';
import { formatFlow } from '../pipeline/format.ts';
import type { PipelineTableName } from '../pipeline/tables.ts';
import { compileNode } from './compile-node.ts';
import type { NodeEnvironment } from './environment.ts';

const ipv4: NodeEnvironment = {
  gateway: { name: 'antrea-gw0', ofPort: 32769, mac: parseMac('0e:00:00:00:01:01'), mtu: 1450, addresses: [parseIp('10.10.0.1')] },
  tunnel: { ofPort: 32768, type: 'geneve', port: 6081 },
  podCidrs: [parseCidr('10.10.0.0/22')],
  transport: [parseIp('192.168.77.1')],
  serviceCidrs: [parseCidr('10.96.0.0/16')],
};
const ipv6: NodeEnvironment = {
  ...ipv4,
  gateway: { ...ipv4.gateway, addresses: [parseIp('fd00:10::1')] },
  podCidrs: [parseCidr('fd00:10::/64')],
  serviceCidrs: [parseCidr('fd00:96::/112')],
};

/** Flows of these tables without their misses, highest priority first. */
function dump(environment: NodeEnvironment, ...names: readonly PipelineTableName[]): string[] {
  return compileNode(environment)
    .flows.filter((flow) => names.includes(flow.table) && flow.priority > priority.miss)
    .toSorted((a, b) => names.indexOf(a.table) - names.indexOf(b.table) || b.priority - a.priority)
    .map((flow) => formatFlow(flow).replace(/^table=/, ''));
}

/** Two actions of `shownCommit`, which write these marks. */
const shown = (table: string, zone: number, marks = ''): string =>
  `ct(commit,zone=${zone},exec(${marks === '' ? '' : `${marks},`}set_field:0x1000000/0x1000000->ct_mark)),` +
  `ct(commit,table=${table},zone=${zone},exec(set_field:0x0/0x1000000->ct_mark))`;

describe('a node of IPv4', () => {
  it('classifies packets by source, and counts tunnel packets of unknown peers', () => {
    expect(dump(ipv4, 'classify')).toEqual([
      'classify,priority=250,vlan_tci=0x1000/0x1000 actions=drop',
      'classify,priority=210,in_port=32769,arp actions=set_field:0x2/0xf->reg0,goto_table:neighbour',
      'classify,priority=200,in_port=32769,ip actions=set_field:0x2/0xf->reg0,goto_table:unSnat',
      'classify,priority=190,in_port=32768,tun_src=0.0.0.0 actions=learn(table=unknownTunnelPeers,tun_ipv6_src),resubmit(,unknownTunnelPeers)',
      'classify,priority=100,in_port=32768 actions=learn(table=unknownTunnelPeers,tun_src),resubmit(,unknownTunnelPeers)',
    ]);
  });

  it('sends ARP requests for the gateway to the gateway', () => {
    expect(dump(ipv4, 'neighbour')).toEqual(['neighbour,priority=200,arp,arp_tpa=10.10.0.1 actions=output:32769']);
  });

  it('tracks connections, and chooses an endpoint only for new ones that do not come from a peer', () => {
    expect(dump(ipv4, 'unSnat', 'track', 'state', 'serviceEntry')).toEqual([
      'unSnat,priority=200,ip,nw_dst=169.254.0.253 actions=set_field:0x200/0x200->reg0,ct(table=track,zone=65521,nat)',
      'unSnat,priority=200,reg0=0x1/0xf,ip,nw_dst=10.10.0.0 actions=ct(table=track,zone=65521,nat)',
      'unSnat,priority=200,reg0=0x1/0xf,ip,nw_dst=10.10.0.1 actions=ct(table=track,zone=65521,nat)',
      'unSnat,priority=190,reg0=0x3/0xf,ip,dl_dst=0e:00:00:00:01:01 actions=set_field:0x200/0x200->reg0,goto_table:track',
      'track,priority=210,icmp,icmp_type=3 actions=ct(table=errorTranslation,zone=65520)',
      'track,priority=210,icmp,icmp_type=11 actions=ct(table=errorTranslation,zone=65520)',
      'track,priority=210,icmp,icmp_type=12 actions=ct(table=errorTranslation,zone=65520)',
      'track,priority=200,ip actions=ct(table=state,zone=65520,nat)',
      'state,priority=250,reg0=0x40000/0xc0000,tcp actions=controller(userdata=05)',
      'state,priority=240,ct_state=+inv+trk,ct_mark=0x0/0xf,tcp actions=drop',
      'state,priority=240,ct_state=+inv+trk,ct_mark=0x80/0x80,tcp actions=drop',
      'state,priority=230,reg0=0x3/0xf,reg0=0x0/0xc0000,ct_state=+inv+trk,tcp,tcp_flags=-fin+syn-rst-psh-ack-urg actions=controller(userdata=05)',
      'state,priority=230,reg0=0x3/0xf,ct_state=+inv+trk,ct_mark=0x0/0x10,tcp,tcp_flags=-fin-syn+rst-psh-ack-urg actions=controller(userdata=05),goto_table:egressEntry',
      'state,priority=230,reg0=0x3/0xf,ct_state=+inv+trk,ct_mark=0x10/0x10,tcp,tcp_flags=-fin-syn+rst-psh-ack-urg actions=controller(userdata=05),set_field:0x200/0x200->reg0,goto_table:egressEntry',
      'state,priority=230,reg0=0x1/0xf,reg0=0x0/0xc0000,ct_state=+inv+trk,tcp,tcp_flags=-fin+syn-rst-psh-ack-urg actions=controller(userdata=05)',
      'state,priority=230,reg0=0x1/0xf,ct_state=+inv+trk,ct_mark=0x0/0x10,tcp,tcp_flags=-fin-syn+rst-psh-ack-urg actions=controller(userdata=05),goto_table:egressEntry',
      'state,priority=230,reg0=0x1/0xf,ct_state=+inv+trk,ct_mark=0x10/0x10,tcp,tcp_flags=-fin-syn+rst-psh-ack-urg actions=controller(userdata=05),set_field:0x200/0x200->reg0,goto_table:egressEntry',
      'state,priority=220,ct_state=-new+rpl+trk,ct_mark=0x80/0x80,ip actions=drop',
      'state,priority=220,ct_state=-new+rel+trk,ct_mark=0x80/0x80,ip actions=drop',
      'state,priority=220,ct_state=-new-inv-rel+rpl+trk,ct_mark=0x10/0x10,ct_mark=0x0/0x80,ct_mark=0x0/0x40,udp actions=set_field:0x200/0x200->reg0,set_field:0x400/0x1c00->reg0,set_field:0x200000/0x600000->reg0,goto_table:egressEntry',
      'state,priority=220,ct_state=-new-inv-rel+rpl+trk,ct_mark=0x10/0x10,ct_mark=0x0/0x80,ct_mark=0x0/0x40,icmp actions=set_field:0x200/0x200->reg0,set_field:0x400/0x1c00->reg0,set_field:0x200000/0x600000->reg0,goto_table:egressEntry',
      'state,priority=220,ct_state=-new-inv-rel+rpl+trk,ct_mark=0x0/0x10,ct_mark=0x0/0x80,ct_mark=0x0/0x40,udp actions=set_field:0x800000/0x1800000->reg0,set_field:0x400/0x1c00->reg0,set_field:0x200000/0x600000->reg0,goto_table:egressEntry',
      'state,priority=220,ct_state=-new-inv-rel+rpl+trk,ct_mark=0x0/0x10,ct_mark=0x0/0x80,ct_mark=0x0/0x40,icmp actions=set_field:0x800000/0x1800000->reg0,set_field:0x400/0x1c00->reg0,set_field:0x200000/0x600000->reg0,goto_table:egressEntry',
      'state,priority=220,ct_state=+inv+trk,ct_mark=0x0/0x10,tcp actions=goto_table:egressEntry',
      'state,priority=220,ct_state=+inv+trk,ct_mark=0x10/0x10,tcp actions=set_field:0x200/0x200->reg0,goto_table:egressEntry',
      'state,priority=210,ct_state=+inv+trk,ip actions=drop',
      'state,priority=210,ct_state=-new-rel+rpl+trk-inv,ct_mark=0x10/0x10,ip actions=set_field:0x200/0x200->reg0,set_field:0x400/0x1c00->reg0,goto_table:egressEntry',
      'state,priority=210,reg0=0x2/0xf,reg0=0x0/0x80000000,ct_state=-new+rel+trk-inv,ct_mark=0x10/0x10,ip actions=set_field:0x200/0x200->reg0,set_field:0x400/0x1c00->reg0,goto_table:egressEntry',
      'state,priority=210,reg0=0x2/0xf,reg0=0x80000000/0x80000000,ct_state=-new+rel+trk-inv,ct_mark=0x10/0x10,ip actions=move:reg3->ip_src,set_field:0x200/0x200->reg0,set_field:0x400/0x1c00->reg0,goto_table:egressEntry',
      'state,priority=210,reg0=0x1/0xf,reg0=0x20000000/0x20000000,reg0=0x0/0x80000000,ct_state=-new+rel+trk-inv,ct_mark=0x10/0x10,ip actions=set_field:0x200/0x200->reg0,set_field:0x400/0x1c00->reg0,goto_table:egressEntry',
      'state,priority=210,reg0=0x1/0xf,reg0=0x20000000/0x20000000,reg0=0x80000000/0x80000000,ct_state=-new+rel+trk-inv,ct_mark=0x10/0x10,ip actions=move:reg3->ip_src,set_field:0x200/0x200->reg0,set_field:0x400/0x1c00->reg0,goto_table:egressEntry',
      'state,priority=210,ct_state=-new-rpl-rel+trk-inv,ct_mark=0x10/0x10,ip actions=set_field:0x200/0x200->reg0,goto_table:egressEntry',
      'state,priority=210,ct_state=+new+trk-inv,ct_mark=0x10/0x10,ct_mark=0x0/0x80,ip actions=set_field:0x200/0x200->reg0,set_field:0x0/0x100000->reg0,goto_table:serviceEntry',
      'state,priority=210,ct_state=+new+trk-inv,ct_mark=0x10/0x10,ct_mark=0x80/0x80,ip actions=set_field:0x200/0x200->reg0,set_field:0x100000/0x100000->reg0,goto_table:serviceEntry',
      'state,priority=210,ct_state=-new-rel+rpl+trk-inv,ct_mark=0x0/0x10,ip actions=set_field:0x400/0x1c00->reg0,goto_table:egressEntry',
      'state,priority=210,reg0=0x2/0xf,ct_state=-new+rel+trk-inv,ct_mark=0x0/0x10,ip actions=set_field:0x400/0x1c00->reg0,goto_table:egressEntry',
      'state,priority=210,reg0=0x1/0xf,reg0=0x20000000/0x20000000,ct_state=-new+rel+trk-inv,ct_mark=0x0/0x10,ip actions=set_field:0x400/0x1c00->reg0,goto_table:egressEntry',
      'state,priority=210,ct_state=-new-rpl-rel+trk-inv,ct_mark=0x0/0x10,ip actions=goto_table:egressEntry',
      'state,priority=205,ct_state=-new+rel+trk-inv,ct_mark=0x10/0x10,ip actions=set_field:0x200/0x200->reg0,set_field:0x400/0x1c00->reg0,resubmit(,errorEnds,ct)',
      'state,priority=205,ct_state=-new+rel+trk-inv,ct_mark=0x0/0x10,ip actions=set_field:0x400/0x1c00->reg0,resubmit(,errorEnds,ct)',
      'state,priority=100,ct_state=+new+trk,ip actions=set_field:0x100000/0x100000->reg0,goto_table:serviceEntry',
      'serviceEntry,priority=220,reg0=0x2/0xf,ip,nw_src=169.254.0.252/31 actions=drop',
      'serviceEntry,priority=220,reg0=0x2/0xf,ip,nw_src=10.96.0.0/16 actions=drop',
      'serviceEntry,priority=220,reg0=0x2/0xf,ip,nw_src=10.10.0.0/32 actions=drop',
      'serviceEntry,priority=210,reg0=0x3/0xf,ip,nw_dst=10.96.0.0/16 actions=set_field:0x400000/0x1c00000->reg4,goto_table:openings',
      'serviceEntry,priority=210,reg0=0x2/0xf,ip,nw_src=10.10.0.1 actions=set_field:0x800000/0x1c00000->reg4,goto_table:sourceRanges',
      'serviceEntry,priority=200,reg0=0x1/0xf,ip actions=goto_table:egressEntry',
      'serviceEntry,priority=200,reg0=0x3/0xf,ip actions=set_field:0x400000/0x1c00000->reg4,goto_table:sourceRanges',
      'serviceEntry,priority=200,reg0=0x2/0xf,ip,nw_src=10.10.0.0/22 actions=set_field:0x400000/0x1c00000->reg4,goto_table:sourceRanges',
      'serviceEntry,priority=190,reg0=0x2/0xf,ip actions=set_field:0xc00000/0x1c00000->reg4,goto_table:sourceRanges',
    ]);
  });

  it('drops multicast, forged tunnel packets and packets that would return to the node, and sends the rest to the gateway', () => {
    expect(dump(ipv4, 'route')).toEqual([
      'route,priority=250,ip,nw_dst=224.0.0.0/4 actions=drop',
      'route,priority=250,ip,nw_dst=255.255.255.255/32 actions=drop',
      'route,priority=250,ip,nw_dst=169.254.0.253 actions=drop',
      'route,priority=250,reg0=0x3/0xf,ct_state=+rpl+trk,ct_mark=0x0/0x10,ct_mark=0x2/0xf,udp,tp_dst=6081 actions=drop',
      'route,priority=250,reg0=0x3/0xf,ct_state=+rpl+trk,ct_mark=0x10/0x10,ct_mark=0x2/0xf,udp,tp_dst=6081 actions=drop',
      'route,priority=250,reg0=0x1/0xf,ct_state=+rpl+trk,ct_mark=0x10/0x10,ct_mark=0x2/0xf,udp,tp_dst=6081 actions=drop',
      'route,priority=250,reg0=0x3/0xf,ct_state=+inv+snat+trk,ct_mark=0x10/0x10,ct_mark=0x2/0xf,udp,tp_dst=6081 actions=drop',
      'route,priority=250,reg0=0x1/0xf,ct_state=+inv+snat+trk,ct_mark=0x10/0x10,ct_mark=0x2/0xf,udp,tp_dst=6081 actions=drop',
      'route,priority=240,reg0=0x3/0xf,ct_state=+rpl+trk,ct_mark=0x0/0x10,ct_mark=0x2/0xf,ip actions=set_field:0e:00:00:00:01:01->eth_dst,set_field:0x20/0xf0->reg0,goto_table:ttl',
      'route,priority=240,ct_state=+rpl+trk,ct_mark=0x10/0x10,ct_mark=0x2/0xf,ip actions=set_field:0e:00:00:00:01:01->eth_dst,set_field:0x20/0xf0->reg0,goto_table:ttl',
      'route,priority=240,ct_state=+inv+snat+trk,ct_mark=0x10/0x10,ct_mark=0x2/0xf,ip actions=set_field:0e:00:00:00:01:01->eth_dst,set_field:0x20/0xf0->reg0,goto_table:ttl',
      'route,priority=220,reg0=0x3/0xf,udp,tp_dst=6081 actions=drop',
      'route,priority=220,reg0=0x1/0xf,udp,tp_dst=6081 actions=drop',
      'route,priority=210,ip,nw_dst=10.10.0.1 actions=set_field:0e:00:00:00:01:01->eth_dst,set_field:0x20/0xf0->reg0,goto_table:ttl',
      'route,priority=200,reg0=0x1/0xf,ip actions=drop',
      'route,priority=190,reg0=0x2/0xf,ip,nw_dst=10.10.0.0/22 actions=drop',
      'route,priority=190,ip,nw_dst=10.96.0.0/16 actions=drop',
      'route,priority=190,reg0=0x2/0xf,ct_mark=0x0/0x10,ip actions=drop',
      'route,priority=100,ip actions=set_field:0e:00:00:00:01:01->eth_dst,set_field:0x20/0xf0->reg0,goto_table:ttl',
    ]);
  });

  it("delivers to the node's further addresses, a Service’s address that is left to it included", () => {
    const bound = { ...ipv4, localAddresses: ['169.254.20.10', '10.96.0.10', '192.168.77.1', 'fd00:96::a'].map(parseIp) };
    const more = dump(bound, 'route', 'ingressEntry', 'egressNetworkPolicy').filter(
      (line) => !dump(ipv4, 'route', 'ingressEntry', 'egressNetworkPolicy').includes(line),
    );
    const allow = 'actions=set_field:0x800/0x1c00->reg0,goto_table:egressVerdict';
    expect(more).toEqual([
      'route,priority=200,reg0=0x3/0xf,ip,nw_dst=10.96.0.10 actions=set_field:0e:00:00:00:01:01->eth_dst,set_field:0x20/0xf0->reg0,goto_table:ttl',
      'ingressEntry,priority=220,reg0=0x2/0xf,reg0=0x30/0xf0,ip,nw_src=169.254.20.10 actions=goto_table:commit',
      'ingressEntry,priority=220,reg0=0x2/0xf,reg0=0x30/0xf0,ip,nw_src=10.96.0.10 actions=goto_table:commit',
      `egressNetworkPolicy,priority=190,reg13=0x800/0x3ff800,ip,nw_dst=169.254.20.10 ${allow}`,
      `egressNetworkPolicy,priority=190,reg13=0x800/0x3ff800,ip,nw_dst=10.96.0.10 ${allow}`,
    ]);
  });

  it('decrements TTL where the bridge routes, and not where the node does', () => {
    expect(dump(ipv4, 'ttl')).toEqual([
      'ttl,priority=210,reg0=0x200/0x200,reg0=0x2/0xf,ip actions=set_field:0e:00:00:00:01:01->eth_src,goto_table:snatMark',
      'ttl,priority=210,reg0=0x200/0x200,reg0=0x20/0xf0,ip actions=set_field:0e:00:00:00:01:01->eth_src,goto_table:snatMark',
      ...[0, 1].map(
        (ttl) =>
          `ttl,priority=205,reg0=0x200/0x200,ip,nw_ttl=${ttl} actions=set_field:0e:00:00:00:01:01->eth_src,set_field:0x40000000/0x40000000->reg0,goto_table:snatMark`,
      ),
      'ttl,priority=200,reg0=0x200/0x200,ip actions=set_field:0e:00:00:00:01:01->eth_src,dec_ttl,goto_table:snatMark',
    ]);
  });

  it('translates the source of a node that is client and endpoint at once, and of external clients to another node’s endpoint', () => {
    expect(dump(ipv4, 'snatMark', 'snat')).toEqual([
      'snatMark,priority=200,ct_state=-inv+trk,ct_mark=0x20/0x20,ct_mark=0x80/0x80,ip ' +
        'actions=ct(commit,table=snat,zone=65520,exec(set_field:0x0/0x80->ct_mark))',
      'snatMark,priority=200,reg0=0x2/0xf,reg0=0x20/0xf0,ct_state=+new+trk,ct_mark=0x10/0x10,ct_mark=0x0/0x20,ip ' +
        `actions=${shown('snat', 65520, 'set_field:0x20/0x20->ct_mark,set_field:0x40/0x40->ct_mark,set_field:0x0/0x80->ct_mark')}`,
      'snatMark,priority=200,reg4=0xc00000/0x1c00000,reg0=0x10/0xf0,ct_state=+new+trk,ct_mark=0x10/0x10,ct_mark=0x0/0x20,ip ' +
        `actions=${shown('snat', 65520, 'set_field:0x20/0x20->ct_mark,set_field:0x800000/0xffff00->ct_mark,set_field:0x0/0x80->ct_mark')}`,
      'snat,priority=200,ct_state=+new+trk,ct_mark=0x20/0x20,ct_mark=0x40/0x40,ip actions=ct(commit,table=switch,zone=65521,nat(src=169.254.0.253),' +
        'exec(set_field:0x10/0x10->ct_mark,set_field:0x20/0x20->ct_mark,set_field:0x40/0x40->ct_mark))',
      'snat,priority=200,ct_state=-new-rpl-inv+trk,ct_mark=0x20/0x20,ct_mark=0x40/0x40,ip actions=ct(commit,table=switch,zone=65521,nat(src=169.254.0.253),' +
        'exec(set_field:0x10/0x10->ct_mark,set_field:0x20/0x20->ct_mark,set_field:0x40/0x40->ct_mark))',
      'snat,priority=200,ct_state=+new+trk,ct_mark=0x20/0x20,ct_mark=0x0/0x40,ip actions=ct(commit,table=switch,zone=65521,nat(src=10.10.0.0),' +
        'exec(set_field:0x10/0x10->ct_mark,set_field:0x20/0x20->ct_mark,set_field:0x0/0x40->ct_mark))',
      'snat,priority=200,ct_state=-new-rpl-inv+trk,ct_mark=0x20/0x20,ct_mark=0x0/0x40,ip actions=ct(commit,table=switch,zone=65521,nat(src=10.10.0.0),' +
        'exec(set_field:0x10/0x10->ct_mark,set_field:0x20/0x20->ct_mark,set_field:0x0/0x40->ct_mark))',
      'snat,priority=190,ct_state=+inv-snat+trk,ct_mark=0x20/0x20,ip actions=ct(table=switch,zone=65521,nat)',
    ]);
  });

  it('retries a translation without a free tuple twice, and then drops', () => {
    const failed = (tries: string) =>
      `egressEntry,priority=250,reg4=0x20000/0x70000,reg4=${tries}/0xc000000,ct_state=+new-dnat+trk,ct_mark=0x0/0x10,ip`;
    expect(dump(ipv4, 'egressEntry').filter((flow) => flow.includes('-dnat'))).toEqual([
      `${failed('0x0')} actions=set_field:0x4000000/0xc000000->reg4,resubmit(,sourceRanges)`,
      `${failed('0x4000000')} actions=set_field:0x8000000/0xc000000->reg4,resubmit(,sourceRanges)`,
      `${failed('0x8000000').replace(',ct_state', ',reg0=0x0/0xc0000,ct_state')} actions=controller(userdata=06)`,
      `${failed('0x8000000').replace('250', '240')} actions=drop`,
    ]);
  });

  it('commits a translated packet without a mark again, once', () => {
    expect(dump(ipv4, 'egressEntry').filter((flow) => flow.includes('+dnat'))).toEqual([
      'egressEntry,priority=250,reg4=0x20000/0x70000,reg4=0x0/0xc000000,ct_state=+new+dnat+trk,ct_mark=0x0/0x10,ip ' +
        `actions=set_field:0x4000000/0xc000000->reg4,${shown('egressEntry', 65520)}`,
    ]);
  });

  it('lets other parties than pods send and receive; pods have flows of their own', () => {
    expect(dump(ipv4, 'egressEntry', 'ingressEntry').filter((flow) => !flow.includes('ct_state'))).toEqual([
      'egressEntry,priority=200,reg0=0x2/0xf actions=goto_table:route',
      'egressEntry,priority=200,reg0=0x1/0xf actions=goto_table:route',
      'ingressEntry,priority=220,reg0=0x2/0xf,reg0=0x30/0xf0,ip,nw_src=10.10.0.1 actions=goto_table:commit',
      'ingressEntry,priority=220,reg0=0x2/0xf,reg0=0x30/0xf0,ip,nw_src=192.168.77.1 actions=goto_table:commit',
      'ingressEntry,priority=220,reg0=0x30/0xf0,ct_mark=0x40/0x40 actions=goto_table:commit',
      'ingressEntry,priority=200,reg0=0x20/0xf0 actions=goto_table:commit',
      'ingressEntry,priority=200,reg0=0x10/0xf0 actions=goto_table:commit',
    ]);
  });

  it('commits connections that no earlier table committed, admits those that one did, and outputs', () => {
    expect(dump(ipv4, 'switch', 'commit', 'output')).toEqual([
      'switch,priority=200,dl_dst=0e:00:00:00:01:01 actions=set_field:0x8001->reg1,set_field:0x20/0xf0->reg0,goto_table:ingressEntry',
      'switch,priority=200,dl_dst=aa:bb:cc:dd:ee:ff actions=set_field:0x8000->reg1,set_field:0x10/0xf0->reg0,goto_table:ingressEntry',
      'commit,priority=210,ct_state=+trk,ct_mark=0x80/0x80,ip actions=ct(commit,zone=65520,exec(set_field:0x0/0x80->ct_mark,move:reg1[0..15]->ct_mark[8..23])),goto_table:tunnel',
      'commit,priority=205,ct_state=+new+trk,ct_mark=0x0/0x10,tcp,tcp_flags=-fin-syn+rst-psh-ack-urg actions=goto_table:tunnel',
      'commit,priority=200,ct_state=+new+trk,ct_mark=0x0/0x10,ip actions=ct(commit,zone=65520,exec(move:reg0[0..3]->ct_mark[0..3])),goto_table:tunnel',
      'output,priority=250,reg0=0x40000000/0x40000000 actions=goto_table:timeExceeded',
      'output,priority=210,reg0=0x3/0xf,reg0=0x30/0xf0,ct_mark=0x40/0x40 actions=IN_PORT',
      'output,priority=210,reg0=0x2/0xf,reg0=0x20/0xf0,ct_mark=0x40/0x40 actions=IN_PORT',
      'output,priority=200,reg0=0x30/0xf0 actions=output:reg1',
      'output,priority=200,reg0=0x20/0xf0 actions=output:reg1',
      'output,priority=200,reg0=0x10/0xf0 actions=output:reg1',
    ]);
  });

  it('routes Services and hairpin replies into the bridge', () => {
    const { routes, neighbours, addresses, links } = compileNode(ipv4);
    expect(routes.map(({ destination, via, dev }) => `${destination.text} ${via ? `via ${via.text} ` : ''}dev ${dev}`)).toEqual([
      '169.254.0.253/32 dev antrea-gw0',
      '10.10.0.0/22 dev antrea-gw0',
      '10.96.0.0/16 via 169.254.0.253 dev antrea-gw0',
    ]);
    expect(neighbours.map(({ ip, mac, dev }) => `${ip.text} lladdr ${mac} dev ${dev}`)).toEqual([
      '169.254.0.253 lladdr aa:bb:cc:dd:ee:ff dev antrea-gw0',
    ]);
    expect(addresses.map(({ ip, prefixLength, dev }) => `${ip.text}/${prefixLength} dev ${dev}`)).toEqual(['10.10.0.1/22 dev antrea-gw0']);
    expect(links).toEqual([{ name: 'antrea-gw0', mtu: 1450, mac: ipv4.gateway.mac }]);
  });
});

describe('a node of IPv6', () => {
  it('separates neighbour discovery from all else, and drops messages that only routers send', () => {
    expect(dump(ipv6, 'classify', 'spoofGuard', 'neighbour')).toEqual([
      'classify,priority=250,vlan_tci=0x1000/0x1000 actions=drop',
      'classify,priority=210,in_port=32769,icmp6,icmp_type=135,icmp_code=0 actions=set_field:0x2/0xf->reg0,goto_table:neighbour',
      'classify,priority=210,in_port=32769,icmp6,icmp_type=136,icmp_code=0 actions=set_field:0x2/0xf->reg0,goto_table:neighbour',
      'classify,priority=200,in_port=32769,ipv6 actions=set_field:0x2/0xf->reg0,goto_table:unSnat',
      'classify,priority=190,in_port=32768,tun_src=0.0.0.0 actions=learn(table=unknownTunnelPeers,tun_ipv6_src),resubmit(,unknownTunnelPeers)',
      'classify,priority=100,in_port=32768 actions=learn(table=unknownTunnelPeers,tun_src),resubmit(,unknownTunnelPeers)',
      'spoofGuard,priority=250,icmp6,icmp_type=133 actions=drop',
      'spoofGuard,priority=250,icmp6,icmp_type=134 actions=drop',
      'spoofGuard,priority=250,icmp6,icmp_type=137 actions=drop',
      'spoofGuard,priority=210,icmp6,icmp_type=135 actions=drop',
      'spoofGuard,priority=210,icmp6,icmp_type=136 actions=drop',
      'spoofGuard,priority=100,in_port=32768 actions=drop',
      'neighbour,priority=200,icmp6,icmp_type=135,nd_target=fd00:10::1 actions=output:32769',
      'neighbour,priority=200,icmp6,dl_dst=0e:00:00:00:01:01,ipv6_dst=fd00:10::1,icmp_type=136 actions=output:32769',
      'neighbour,priority=200,icmp6,icmp_type=135,nd_target=fe80::c00:ff:fe00:101 actions=output:32769',
      'neighbour,priority=200,icmp6,dl_dst=0e:00:00:00:01:01,ipv6_dst=fe80::c00:ff:fe00:101,icmp_type=136 actions=output:32769',
    ]);
  });

  it('drops neighbour discovery that comes from conntrack, from any source', () => {
    expect(dump(ipv6, 'state').filter((line) => line.includes('icmp_type'))).toEqual(
      [133, 134, 135, 136, 137].map((type) => `state,priority=250,icmp6,icmp_type=${type} actions=drop`),
    );
  });

  it('gives ICMPv6 errors the source that conntrack will give them, before it translates them', () => {
    const ofTrack = dump(ipv6, 'track').filter((line) => line.includes('icmp_type'));
    expect(ofTrack).toEqual(
      [1, 2, 3, 4].map((type) => `track,priority=210,icmp6,icmp_type=${type} actions=ct(table=errorTranslation,zone=65510)`),
    );
    const ofHop = (regs: string) =>
      `errorTranslation,priority=210,${regs},ct_state=+rel+rpl-inv+trk,ct_mark=0x10/0x10,icmp6,icmp_type=3 actions=move:ipv6_src->xxreg3,set_field:0x80000000/0x80000000->reg0,move:ct_ipv6_dst->ipv6_src,ct(table=state,zone=65510,nat)`;
    expect(dump(ipv6, 'errorTranslation')).toEqual([
      ofHop('reg0=0x2/0xf'),
      ofHop('reg0=0x1/0xf,reg0=0x20000000/0x20000000'),
      'errorTranslation,priority=200,ct_state=+rel-rpl-inv+trk,ct_mark=0x10/0x10,ipv6 actions=ct(commit,table=state,zone=65510,nat)',
      'errorTranslation,priority=200,ct_state=+rel+rpl-inv+trk,ct_mark=0x10/0x10,ipv6 actions=move:ct_ipv6_dst->ipv6_src,ct(table=state,zone=65510,nat)',
      'errorTranslation,priority=190,ipv6 actions=ct(table=state,zone=65510,nat)',
    ]);
    expect(dump(ipv6, 'snat').filter((line) => line.includes('+rel'))).toEqual([
      'snat,priority=210,ct_state=-new+rel-rpl-inv+trk,ct_mark=0x20/0x20,ct_mark=0x40/0x40,ipv6 actions=set_field:fc01::aabb:ccdd:eeff->ipv6_src,ct(commit,table=switch,zone=65511,nat(src=fc01::aabb:ccdd:eeff),exec(set_field:0x10/0x10->ct_mark,set_field:0x20/0x20->ct_mark,set_field:0x40/0x40->ct_mark))',
      'snat,priority=210,ct_state=-new+rel-rpl-inv+trk,ct_mark=0x20/0x20,ct_mark=0x0/0x40,ipv6 actions=set_field:fd00:10::->ipv6_src,ct(commit,table=switch,zone=65511,nat(src=fd00:10::),exec(set_field:0x10/0x10->ct_mark,set_field:0x20/0x20->ct_mark,set_field:0x0/0x40->ct_mark))',
    ]);
  });

  it('treats everything else as IPv4', () => {
    const tables = ['unSnat', 'track', 'serviceEntry', 'route', 'ttl', 'snatMark', 'snat', 'switch', 'commit', 'output'] as const;
    const asIpv4 = dump(ipv6, ...tables)
      .filter((line) => !line.includes('ff00::/8') && !line.includes('errorTranslation') && !line.includes('->ipv6_src'))
      .map((line) =>
        line
          .replaceAll('fd00:10::1', '10.10.0.1')
          .replaceAll('fd00:10::/64', '10.10.0.0/22')
          .replaceAll('fd00:10::/128', '10.10.0.0/32')
          .replaceAll('fd00:10::', '10.10.0.0')
          .replaceAll('fc01::aabb:ccdd:eefe/127', '169.254.0.252/31')
          .replaceAll('fd00:96::/112', '10.96.0.0/16')
          .replaceAll('fc01::aabb:ccdd:eeff', '169.254.0.253')
          .replaceAll('ipv6_dst', 'nw_dst')
          .replaceAll('ipv6_src', 'nw_src')
          .replaceAll('ipv6,', 'ip,')
          .replaceAll('ipv6 ', 'ip ')
          .replaceAll('udp6', 'udp')
          .replaceAll('tcp6', 'tcp')
          .replaceAll('6551', '6552'),
      );
    const ownLines = /224\.0\.0\.0|255\.255\.255\.255|errorTranslation/;
    expect(asIpv4).toEqual(dump(ipv4, ...tables).filter((line) => !ownLines.test(line)));
  });
});

describe('a node of both', () => {
  const both: NodeEnvironment = {
    ...ipv4,
    gateway: { ...ipv4.gateway, addresses: [...ipv4.gateway.addresses, ...ipv6.gateway.addresses] },
    podCidrs: [...ipv4.podCidrs, ...ipv6.podCidrs],
    serviceCidrs: [...ipv4.serviceCidrs, ...ipv6.serviceCidrs],
  };
  const lines = (environment: NodeEnvironment) => new Set(compileNode(environment).flows.map(formatFlow));

  it('has the flows of a node of each family, and no others', () => {
    expect(lines(both)).toEqual(new Set([...lines(ipv4), ...lines(ipv6)]));
  });
});

it('matches forged GRE by its protocol, and VXLAN by its port', () => {
  const forged = (tunnel: NodeEnvironment['tunnel']) => dump({ ...ipv4, tunnel }, 'route').filter((line) => line.includes('priority=220'));
  expect(forged({ ofPort: 32768, type: 'gre', port: 0 })).toEqual([
    'route,priority=220,reg0=0x3/0xf,ip,nw_proto=47 actions=drop',
    'route,priority=220,reg0=0x1/0xf,ip,nw_proto=47 actions=drop',
  ]);
  expect(forged({ ofPort: 32768, type: 'vxlan', port: 4790 })).toEqual([
    'route,priority=220,reg0=0x3/0xf,udp,tp_dst=4790 actions=drop',
    'route,priority=220,reg0=0x1/0xf,udp,tp_dst=4790 actions=drop',
  ]);
});

it('serves no Service range that is left to another proxy', () => {
  const { flows, routes } = compileNode({ ...ipv4, serviceCidrs: [] });
  expect(flows.map(formatFlow).join('\n')).not.toContain('10.96');
  expect(routes.map(({ destination }) => destination.text)).toEqual(['169.254.0.253/32', '10.10.0.0/22']);
});
