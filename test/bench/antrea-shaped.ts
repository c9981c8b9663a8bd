/** A port of the bridge and its peer. */
export interface ShapedPort {
  readonly ofPort: number;
  readonly mac: string;
  readonly ip: string;
}

export interface ShapedNode {
  readonly gateway: ShapedPort;
  readonly podCidr: string;
  readonly pods: readonly ShapedPort[];
}

/**
 * A pipeline of the shape that Antrea gives its bridge on Linux, for IPv4 in encap mode with its proxy and its policies and none of them in
 * force: as many tables, the same conntrack passes, the same decisions for each packet. Written from a description of it, for comparison
 * only; it forwards between pods of one node only.
 *
 * @returns flows for `ovs-ofctl replace-flows`
 */
export function antreaShaped({ gateway, podCidr, pods }: ShapedNode): string {
  return [...fixed(gateway, podCidr), ...pods.flatMap(podFlows)].join('\n');
}

const toPod = 3;

function fixed(gateway: ShapedPort, podCidr: string): string[] {
  const through = (table: number) => `table=${table},priority=0,actions=goto_table:${table + 1}`;
  return [
    // 0 root, 1 ARP spoof guard, 2 ARP responder, 3 classifier, 4 spoof guard
    'table=0,priority=200,arp,actions=goto_table:1',
    'table=0,priority=200,ip,actions=goto_table:3',
    `table=1,priority=200,arp,in_port=${gateway.ofPort},arp_spa=${gateway.ip},arp_sha=${gateway.mac},actions=goto_table:2`,
    'table=2,priority=190,arp,actions=NORMAL',
    `table=3,priority=210,ip,in_port=${gateway.ofPort},nw_src=${gateway.ip},actions=set_field:2/0xf->reg0,set_field:0x10000000/0x10000000->reg4,goto_table:4`,
    `table=3,priority=200,in_port=${gateway.ofPort},actions=set_field:2/0xf->reg0,set_field:0x8000000/0x8000000->reg4,goto_table:4`,
    'table=3,priority=200,in_port=32768,actions=set_field:0x201/0x20f->reg0,goto_table:5',
    `table=4,priority=200,ip,in_port=${gateway.ofPort},actions=goto_table:5`,
    // 5 unSNAT, 6 conntrack zone, 7 conntrack state
    'table=5,priority=200,ip,nw_dst=169.254.0.253,actions=ct(table=6,zone=65521,nat)',
    `table=5,priority=200,ip,nw_dst=${gateway.ip},actions=ct(table=6,zone=65521,nat)`,
    through(5),
    'table=6,priority=200,ip,actions=ct(table=7,zone=65520,nat)',
    through(6),
    'table=7,priority=200,ct_state=+inv+trk,ip,actions=drop',
    'table=7,priority=190,ct_state=-new+trk,ct_mark=0/0x10,ip,actions=goto_table:12',
    'table=7,priority=190,ct_state=-new+trk,ct_mark=0x10/0x10,ip,actions=set_field:0x200/0x200->reg0,goto_table:12',
    through(7),
    // 8 pre-routing, 9 affinity, 10 Service LB, 11 endpoint DNAT
    'table=8,priority=200,ip,actions=resubmit(,9),resubmit(,10)',
    through(8),
    'table=9,priority=0,actions=set_field:0x10000/0x70000->reg4',
    'table=10,priority=0,actions=goto_table:11',
    'table=11,priority=190,reg4=0x20000/0x70000,actions=set_field:0x10000/0x70000->reg4,resubmit(,10)',
    through(11),
    // 12 to 15 egress policy
    'table=12,priority=64990,ct_state=-new+est,ip,actions=goto_table:15',
    'table=12,priority=64990,ct_state=-new+rel,ip,actions=goto_table:15',
    ...[12, 13, 14, 15].map(through),
    // 16 L3 forwarding, 17 Egress, 18 TTL
    `table=16,priority=210,ip,nw_dst=${gateway.ip},actions=set_field:${gateway.mac}->eth_dst,set_field:0x20/0xf0->reg0,goto_table:18`,
    `table=16,priority=210,ct_state=+rpl+trk,ct_mark=0x2/0xf,ip,actions=set_field:${gateway.mac}->eth_dst,set_field:0x20/0xf0->reg0,goto_table:18`,
    `table=16,priority=200,ip,reg0=0/0x200,nw_dst=${podCidr},actions=goto_table:21`,
    `table=16,priority=190,ct_state=-rpl+trk,ip,reg0=${toPod}/0xf,actions=goto_table:17`,
    'table=16,priority=0,actions=set_field:0x20/0xf0->reg0,goto_table:21',
    'table=17,priority=0,actions=set_field:0x20/0xf0->reg0,goto_table:21',
    'table=18,priority=210,ip,reg0=0x2/0xf,actions=goto_table:19',
    'table=18,priority=200,ip,actions=dec_ttl,goto_table:19',
    // 19 SNAT mark, 20 SNAT, 21 L2
    'table=19,priority=200,ct_state=+new+trk,ip,reg0=0x22/0xff,actions=ct(commit,table=20,zone=65520,exec(set_field:0x60/0x60->ct_mark,move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))',
    through(19),
    'table=20,priority=200,ct_state=-new-rpl+trk,ct_mark=0x20/0x20,ip,actions=ct(table=21,zone=65521,nat)',
    through(20),
    `table=21,priority=200,dl_dst=${gateway.mac},actions=set_field:${gateway.ofPort}->reg1,set_field:0x200000/0x600000->reg0,goto_table:22`,
    through(21),
    // 22 to 26 ingress policy
    'table=22,priority=210,pkt_mark=0x80000000/0x80000000,ct_state=-rpl+trk,ip,actions=goto_table:27',
    'table=22,priority=200,reg0=0x20/0xf0,actions=goto_table:26',
    'table=22,priority=200,reg0=0x10/0xf0,actions=goto_table:26',
    'table=22,priority=200,ct_mark=0x40/0x40,actions=goto_table:27',
    'table=23,priority=64990,ct_state=-new+est,ip,actions=goto_table:26',
    'table=23,priority=64990,ct_state=-new+rel,ip,actions=goto_table:26',
    ...[22, 23, 24, 25, 26].map(through),
    // 27 commit, 28 output
    'table=27,priority=200,ct_state=+new+trk,ct_mark=0/0x20,ip,actions=ct(commit,table=28,zone=65520,exec(move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))',
    through(27),
    'table=28,priority=210,ct_mark=0x40/0x40,reg0=0x200000/0x600000,actions=IN_PORT',
    'table=28,priority=200,reg0=0x200000/0x600000,actions=output:NXM_NX_REG1[]',
  ];
}

function podFlows({ ofPort, mac, ip }: ShapedPort): string[] {
  return [
    `table=1,priority=200,arp,in_port=${ofPort},arp_spa=${ip},arp_sha=${mac},actions=goto_table:2`,
    `table=3,priority=190,in_port=${ofPort},actions=set_field:${toPod}/0xf->reg0,set_field:0x10000000/0x10000000->reg4,goto_table:4`,
    `table=4,priority=200,ip,in_port=${ofPort},dl_src=${mac},nw_src=${ip},actions=goto_table:5`,
    `table=16,priority=200,ip,reg0=0x200/0x200,nw_dst=${ip},actions=set_field:${mac}->eth_dst,goto_table:18`,
    `table=19,priority=190,ct_state=+new+trk,ip,nw_src=${ip},nw_dst=${ip},actions=ct(commit,table=20,zone=65520,exec(set_field:0x60/0x60->ct_mark))`,
    `table=21,priority=200,dl_dst=${mac},actions=set_field:${ofPort}->reg1,set_field:0x200000/0x600000->reg0,goto_table:22`,
  ];
}
