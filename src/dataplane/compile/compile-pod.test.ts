import { describe, expect, it } from 'vitest';
import { parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import { formatFlow, formatMeter } from '../pipeline/format.ts';
import { compilePod, type PodIntent } from './compile-pod.ts';

const mac = parseMac('0e:aa:00:00:00:05');
const ipv4: PodIntent = { ofPort: 32784, mac, addresses: [parseIp('10.10.0.5')] };
const ipv6: PodIntent = { ofPort: 32784, mac, addresses: [parseIp('fd00:10::5')] };

const dump = (pod: PodIntent, table = '') =>
  compilePod(pod)
    .flows.map((flow) => formatFlow(flow).replace(/^table=/, ''))
    .filter((line) => line.startsWith(table));

describe('a pod of IPv4', () => {
  it('sends from its own address only, receives ARP for it, and is reachable by address and MAC', () => {
    expect(dump(ipv4)).toEqual([
      'classify,priority=200,in_port=32784 actions=set_field:0x3/0xf->reg0,goto_table:spoofGuard',
      'spoofGuard,priority=200,in_port=32784,arp,dl_src=0e:aa:00:00:00:05,arp_spa=10.10.0.5,arp_sha=0e:aa:00:00:00:05 actions=goto_table:neighbour',
      'spoofGuard,priority=200,in_port=32784,arp,dl_src=0e:aa:00:00:00:05,arp_spa=0.0.0.0,arp_tpa=10.10.0.5,arp_sha=0e:aa:00:00:00:05 actions=goto_table:neighbour',
      'neighbour,priority=210,in_port=32784,arp,arp_tpa=10.10.0.5 actions=goto_table:announcements',
      'neighbour,priority=200,arp,arp_tpa=10.10.0.5 actions=output:32784',
      'spoofGuard,priority=200,in_port=32784,ip,dl_src=0e:aa:00:00:00:05,nw_src=10.10.0.5 actions=goto_table:unSnat',
      'route,priority=230,ip,nw_dst=10.10.0.5 actions=set_field:0e:aa:00:00:00:05->eth_dst,set_field:0x30/0xf0->reg0,goto_table:ttl',
      'errorEnds,priority=200,in_port=32784,ip,nw_src=10.10.0.5 actions=goto_table:egressEntry',
      'errorEnds,priority=210,in_port=32784,ip,nw_dst=10.10.0.5 actions=goto_table:egressEntry',
      'errorEnds,priority=220,in_port=32784,ct_mark=0x10/0x10,ct_mark=0x801000/0xffff00,ip actions=goto_table:egressEntry',
      'snatMark,priority=200,ct_state=+new+trk,ct_mark=0x10/0x10,ct_mark=0x0/0x20,ip,nw_src=10.10.0.5,nw_dst=10.10.0.5 ' +
        'actions=ct(commit,zone=65520,exec(set_field:0x20/0x20->ct_mark,set_field:0x40/0x40->ct_mark,set_field:0x0/0x80->ct_mark,' +
        'set_field:0x1000000/0x1000000->ct_mark)),ct(commit,table=snat,zone=65520,exec(set_field:0x0/0x1000000->ct_mark))',
      'switch,priority=200,dl_dst=0e:aa:00:00:00:05 actions=set_field:0x8010->reg1,set_field:0x30/0xf0->reg0,goto_table:ingressEntry',
    ]);
  });
});

describe('a pod with an egress limit', () => {
  const limited = (rate: number, burst: number) => compilePod({ ...ipv4, egress: { rate, burst } });

  it('has a meter with the number of its port, applied first', () => {
    const { flows, meters } = limited(2_000_000, 500_000);
    expect(meters.map(formatMeter)).toEqual(['meter=32784,kbps,burst,bands=type=drop,rate=2000,burst_size=500']);
    expect(flows.filter(({ steps }) => steps.some((step) => step.do === 'meter')).map(formatFlow)).toEqual([
      'table=classify,priority=200,in_port=32784 actions=meter:32784,set_field:0x3/0xf->reg0,goto_table:spoofGuard',
    ]);
    expect(compilePod(ipv4).meters).toEqual([]);
  });

  it.each([
    ['a rate below a kilobit', 1, 500_000, 'rate=1,burst_size=500'],
    ['a bucket smaller than a frame', 1_000_000, 1, 'rate=1000,burst_size=74'],
    ['more than a meter can hold', 1e15, 1e15, 'rate=4294967295,burst_size=4294967295'],
  ])('gets the nearest for %s', (_, rate, burst, band) => {
    expect(limited(rate, burst).meters.map(formatMeter)).toEqual([`meter=32784,kbps,burst,bands=type=drop,${band}`]);
  });
});

describe('a pod of IPv6', () => {
  const ask = 'spoofGuard,priority=220,in_port=32784,icmp6,dl_src=0e:aa:00:00:00:05';

  it('solicits from its own addresses, with its own MAC or none, and detects duplicates of its own addresses only', () => {
    expect(dump(ipv6, 'spoofGuard').filter((line) => line.includes('icmp_type=135'))).toEqual([
      `${ask},ipv6_src=fd00:10::5,icmp_type=135,icmp_code=0,nd_sll=0e:aa:00:00:00:05 actions=goto_table:neighbour`,
      `${ask},ipv6_src=fd00:10::5,icmp_type=135,icmp_code=0,nd_sll=00:00:00:00:00:00 actions=goto_table:neighbour`,
      `${ask},ipv6_src=::,icmp_type=135,icmp_code=0,nd_target=fd00:10::5,nd_sll=00:00:00:00:00:00 actions=goto_table:neighbour`,
      `${ask},ipv6_src=fe80::caa:ff:fe00:5,icmp_type=135,icmp_code=0,nd_sll=0e:aa:00:00:00:05 actions=goto_table:neighbour`,
      `${ask},ipv6_src=fe80::caa:ff:fe00:5,icmp_type=135,icmp_code=0,nd_sll=00:00:00:00:00:00 actions=goto_table:neighbour`,
      `${ask},ipv6_src=::,icmp_type=135,icmp_code=0,nd_target=fe80::caa:ff:fe00:5,nd_sll=00:00:00:00:00:00 actions=goto_table:neighbour`,
    ]);
  });

  it('answers for its own addresses only, from either of them', () => {
    const answers = dump(ipv6, 'spoofGuard').filter((line) => line.includes('icmp_type=136'));
    const own = ['fd00:10::5', 'fe80::caa:ff:fe00:5'];
    const expected = own.flatMap((target) =>
      own.flatMap((source) =>
        ['0e:aa:00:00:00:05', '00:00:00:00:00:00'].map(
          (tll) => `${ask},ipv6_src=${source},icmp_type=136,icmp_code=0,nd_target=${target},nd_tll=${tll} actions=goto_table:neighbour`,
        ),
      ),
    );
    expect(answers).toEqual(expected);
  });

  it('receives solicitations and advertisements for it, and announces itself to all', () => {
    expect(dump(ipv6, 'neighbour')).toEqual([
      'neighbour,priority=200,icmp6,icmp_type=135,nd_target=fd00:10::5 actions=output:32784',
      'neighbour,priority=200,icmp6,icmp_type=135,nd_target=fe80::caa:ff:fe00:5 actions=output:32784',
      'neighbour,priority=200,icmp6,ipv6_dst=fd00:10::5,icmp_type=136 actions=output:32784',
      'neighbour,priority=200,icmp6,ipv6_dst=fe80::caa:ff:fe00:5,icmp_type=136 actions=output:32784',
      'neighbour,priority=190,in_port=32784,icmp6,ipv6_dst=ff02::1,icmp_type=136 actions=goto_table:announcements',
      'neighbour,priority=210,in_port=32784,icmp6,icmp_type=135,nd_target=fd00:10::5 actions=goto_table:announcements',
      'neighbour,priority=210,in_port=32784,icmp6,icmp_type=135,nd_target=fe80::caa:ff:fe00:5 actions=goto_table:announcements',
    ]);
  });

  it('sends from its global address only: nothing but neighbour discovery is allowed from the link-local one', () => {
    expect(dump(ipv6, 'spoofGuard').filter((line) => !line.includes('icmp_type'))).toEqual([
      'spoofGuard,priority=200,in_port=32784,ipv6,dl_src=0e:aa:00:00:00:05,ipv6_src=fd00:10::5 actions=goto_table:unSnat',
    ]);
  });

  it('is routed and marked like IPv4', () => {
    expect([...dump(ipv6, 'route'), ...dump(ipv6, 'snatMark')]).toEqual([
      'route,priority=230,ipv6,ipv6_dst=fd00:10::5 actions=set_field:0e:aa:00:00:00:05->eth_dst,set_field:0x30/0xf0->reg0,goto_table:ttl',
      'snatMark,priority=200,ct_state=+new+trk,ct_mark=0x10/0x10,ct_mark=0x0/0x20,ipv6,ipv6_src=fd00:10::5,ipv6_dst=fd00:10::5 ' +
        'actions=ct(commit,zone=65510,exec(set_field:0x20/0x20->ct_mark,set_field:0x40/0x40->ct_mark,set_field:0x0/0x80->ct_mark,' +
        'set_field:0x1000000/0x1000000->ct_mark)),ct(commit,table=snat,zone=65510,exec(set_field:0x0/0x1000000->ct_mark))',
    ]);
  });
});

it('with an ingress limit has a meter after those of all pods’ ports, applied last, and not to its own packets', () => {
  const { flows, meters } = compilePod({ ...ipv4, egress: { rate: 1e6, burst: 1e6 }, ingress: { rate: 2e6, burst: 5e5 } });
  expect(meters.map(formatMeter)).toEqual([
    'meter=32784,kbps,burst,bands=type=drop,rate=1000,burst_size=1000',
    'meter=65280,kbps,burst,bands=type=drop,rate=2000,burst_size=500',
  ]);
  expect(flows.map(formatFlow).filter((line) => line.includes('65280'))).toEqual([
    'table=output,priority=205,reg0=0x30/0xf0,reg1=0x8010 actions=meter:65280,output:reg1',
  ]);
});

it('has the flows of both families for a dual-stack pod', () => {
  const both = dump({ ...ipv4, addresses: [...ipv4.addresses, ...ipv6.addresses] });
  expect(new Set(both)).toEqual(new Set([...dump(ipv4), ...dump(ipv6)]));
});
