import { describe, expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { parseCidr, parseIp } from '../../base/net/ip.ts';
import { nothing } from '../desired/host-entries.ts';
import { ownerOf } from '../pipeline/cookie.ts';
import { formatFlow } from '../pipeline/format.ts';
import { encodeBridgeEntries } from '../targets/bridge/bridge-entry.ts';
import { compilePeer, compilePeerRoutes, type PeerIntent, reachedNetworks, tunnelledNetworks } from './compile-peer.ts';
import type { NodeEnvironment } from './environment.ts';

const node: NodeEnvironment = { ...exampleNode, serviceCidrs: [] };
const peer: PeerIntent = {
  name: 'worker-2',
  podCidrs: [parseCidr('10.10.4.0/22'), parseCidr('fd00:10:0:1::/64')],
  transport: [parseIp('192.168.77.2'), parseIp('fd00:77::2')],
};
const dump = (of: PeerIntent, from = node) => compilePeer(of, from).flows.map((flow) => formatFlow(flow).replace(/^table=/, ''));

describe('compilePeer', () => {
  it('accepts its pods’ packets from each of its addresses, and sends to the first of a family that this node has', () => {
    expect(dump(peer)).toEqual([
      'classify,priority=200,in_port=32768,tun_src=192.168.77.2 actions=set_field:0x1/0xf->reg0,set_field:0x200/0x200->reg0,set_field:0x86bdc173->reg5,goto_table:spoofGuard',
      'classify,priority=200,in_port=32768,tun_ipv6_src=fd00:77::2 actions=set_field:0x1/0xf->reg0,set_field:0x200/0x200->reg0,set_field:0x86bdc173->reg5,goto_table:spoofGuard',
      'spoofGuard,priority=200,in_port=32768,reg5=0x86bdc173,ip,nw_src=10.10.4.0/22 actions=goto_table:unSnat',
      'errorEnds,priority=200,reg0=0x1/0xf,reg5=0x86bdc173,ip,nw_src=10.10.4.0/22 actions=goto_table:egressEntry',
      'errorEnds,priority=210,reg0=0x1/0xf,reg5=0x86bdc173,ip,nw_dst=10.10.4.0/22 actions=goto_table:egressEntry',
      'spoofGuard,priority=205,in_port=32768,reg5=0x86bdc173,icmp,nw_src=10.10.4.0/31 actions=set_field:0x20000000/0x20000000->reg0,goto_table:unSnat',
      'spoofGuard,priority=200,in_port=32768,reg5=0x86bdc173,ipv6,ipv6_src=fd00:10:0:1::/64 actions=goto_table:unSnat',
      'errorEnds,priority=200,reg0=0x1/0xf,reg5=0x86bdc173,ipv6,ipv6_src=fd00:10:0:1::/64 actions=goto_table:egressEntry',
      'errorEnds,priority=210,reg0=0x1/0xf,reg5=0x86bdc173,ipv6,ipv6_dst=fd00:10:0:1::/64 actions=goto_table:egressEntry',
      'spoofGuard,priority=205,in_port=32768,reg5=0x86bdc173,icmp6,ipv6_src=fd00:10:0:1::/127 actions=set_field:0x20000000/0x20000000->reg0,goto_table:unSnat',
      'route,priority=230,ip,nw_dst=10.10.4.0/22 actions=set_field:aa:bb:cc:dd:ee:ff->eth_dst,set_field:0x10/0xf0->reg0,set_field:0x200/0x200->reg0,goto_table:ttl',
      'tunnel,priority=200,reg0=0x10/0xf0,ip,nw_dst=10.10.4.0/22 actions=set_field:192.168.77.1->tun_src,set_field:192.168.77.2->tun_dst,goto_table:output',
      'neighbour,priority=200,arp,arp_tpa=10.10.4.1,arp_op=1 actions=answer_arp(10.10.4.1 is at aa:bb:cc:dd:ee:ff)',
      'route,priority=230,ipv6,ipv6_dst=fd00:10:0:1::/64 actions=set_field:aa:bb:cc:dd:ee:ff->eth_dst,set_field:0x10/0xf0->reg0,set_field:0x200/0x200->reg0,goto_table:ttl',
      'tunnel,priority=200,reg0=0x10/0xf0,ipv6,ipv6_dst=fd00:10:0:1::/64 actions=set_field:192.168.77.1->tun_src,set_field:192.168.77.2->tun_dst,goto_table:output',
    ]);
  });

  it('carries IPv4 over IPv6 where the peer has only IPv6', () => {
    const tunnel = dump({ ...peer, transport: [parseIp('fd00:77::2')] }).filter(
      (line) => line.startsWith('tunnel') && line.includes('nw_dst'),
    );
    expect(tunnel).toEqual([
      'tunnel,priority=200,reg0=0x10/0xf0,ip,nw_dst=10.10.4.0/22 actions=set_field:fd00:77::1->tun_ipv6_src,set_field:fd00:77::2->tun_ipv6_dst,goto_table:output',
    ]);
  });

  it('routes the node’s packets to pods over the one next hop behind the gateway', () => {
    const { routes, neighbours } = compilePeerRoutes(reachedNetworks(peer, node), node);
    expect(routes.map(({ destination, via, dev }) => `${destination.text} via ${via?.text} dev ${dev}`)).toEqual([
      '10.10.4.0/22 via 169.254.0.253 dev antrea-gw0',
      'fd00:10:0:1::/64 via fc01::aabb:ccdd:eeff dev antrea-gw0',
    ]);
    expect(neighbours).toEqual([]);
  });

  describe('without a tunnel in one family', () => {
    const direct: PeerIntent = { ...peer, direct: { ipv4: { hop: { via: parseIp('192.168.77.2'), dev: 'eth0' } } }, maySendDirectly: true };

    it('sends through the gateway, keeps connections that began in the tunnel there, and drops what returns', () => {
      expect(dump(direct).filter((line) => /^(?:route|tunnel),.*10\.10\.4/.test(line) && !line.includes('reg11'))).toEqual([
        'route,priority=230,ip,nw_dst=10.10.4.0/22 actions=set_field:0e:00:00:00:01:01->eth_dst,set_field:0x20/0xf0->reg0,set_field:0x100/0x100->reg0,set_field:0x200/0x200->reg0,goto_table:ttl',
        'route,priority=235,reg0=0x2/0xf,ct_mark=0x0/0x10,ip,nw_dst=10.10.4.0/22 actions=drop',
        'route,priority=235,reg0=0x1/0xf,ip,nw_dst=10.10.4.0/22 actions=drop',
        'route,priority=235,reg0=0x2/0xf,ct_state=-new-rpl+trk,ct_mark=0x10/0x10,ct_mark=0x0/0x20,ip,nw_dst=10.10.4.0/22 actions=set_field:aa:bb:cc:dd:ee:ff->eth_dst,set_field:0x10/0xf0->reg0,set_field:0x200/0x200->reg0,goto_table:ttl',
        // Pods that came through a node port keep their address, which the kernel accepts from the bridge; it refuses the node's own.
        'route,priority=240,reg0=0x2/0xf,ct_state=-new-rpl+trk,ct_mark=0x10/0x10,ct_mark=0x0/0x20,ct_mark=0x2/0xf,ip,nw_src=10.10.0.0/22,nw_dst=10.10.4.0/22 actions=set_field:0e:00:00:00:01:01->eth_dst,set_field:0x20/0xf0->reg0,set_field:0x100/0x100->reg0,set_field:0x200/0x200->reg0,goto_table:ttl',
        'route,priority=250,reg0=0x2/0xf,ct_state=-new-rpl+trk,ct_mark=0x10/0x10,ct_mark=0x0/0x20,ip,nw_src=10.10.0.1,nw_dst=10.10.4.0/22 actions=set_field:aa:bb:cc:dd:ee:ff->eth_dst,set_field:0x10/0xf0->reg0,set_field:0x200/0x200->reg0,goto_table:ttl',
        'tunnel,priority=200,reg0=0x10/0xf0,ip,nw_dst=10.10.4.0/22 actions=set_field:192.168.77.1->tun_src,set_field:192.168.77.2->tun_dst,goto_table:output',
      ]);
      expect(dump(direct).filter((line) => line.startsWith('route,') && line.includes('fd00'))).toEqual(
        dump(peer).filter((line) => line.startsWith('route,') && line.includes('fd00')),
      );
    });

    it('accepts the same packets from the tunnel', () => {
      const accepted = (of: PeerIntent) => dump(of).filter((line) => /^(?:classify|spoofGuard|errorEnds),/.test(line));
      expect(accepted(direct)).toEqual(accepted(peer));
    });

    it('has a route of its own over the link', () => {
      const routes = compilePeer(direct, node).routes.map(({ destination, via, dev, src, exclusive }) =>
        [destination.text, via?.text, dev, src?.text, exclusive].join(' '),
      );
      expect(routes).toEqual(['10.10.4.0/22 192.168.77.2 eth0 10.10.0.1 true']);
      expect(tunnelledNetworks(direct, node).map(({ text }) => text)).toEqual(['fd00:10:0:1::/64']);
    });

    it('are in flows that Open vSwitch accepts, also where it does not see the ports of SCTP', () => {
      const blind: NodeEnvironment = { ...node, blindToSctp: true, denied: 'reject' };
      const wanted = compilePeer({ ...peer, maySendDirectly: true }, blind);
      expect(encodeBridgeEntries(ownerOf('peer', peer.name), wanted).size).toBeGreaterThan(0);
      expect(wanted.flows.filter(({ table }) => table === 'ingressVerdict').length).toBeGreaterThan(4);
    });

    it('refuses denied connections of a peer’s pods that arrive without a tunnel', () => {
      const common = dump({ ...peer, maySendDirectly: true }).filter((line) => !dump(peer).includes(line));
      expect(common.map((line) => line.split(',')[0])).toEqual(['ingressVerdict', 'ingressVerdict']);
      expect(dump(direct)).toEqual(expect.arrayContaining(common));
    });

    it('accepts no packet of the tunnel from a peer that has to encrypt', () => {
      const flows = dump({ ...peer, maySendDirectly: true, refusesTunnel: true });
      expect(flows.filter((line) => line.startsWith('classify') || line.includes('in_port=2'))).toEqual([]);
      expect(dump(peer).filter((line) => line.startsWith('classify'))).not.toEqual([]);
    });
  });

  it('omits pods of a family that this node lacks', () => {
    const onlyIpv4 = { ...node, podCidrs: node.podCidrs.slice(0, 1) };
    expect(dump(peer, onlyIpv4).filter((line) => line.includes('fd00:10:'))).toEqual([]);
    expect(reachedNetworks(peer, onlyIpv4)).toHaveLength(1);
  });

  it('desires nothing for an unreachable peer', () => {
    expect(compilePeer({ ...peer, transport: [parseIp('fd00:77::2')] }, { ...node, transport: [parseIp('192.168.77.1')] })).toEqual(
      nothing,
    );
    expect(compilePeer({ ...peer, transport: [] }, node)).toEqual(nothing);
    expect(reachedNetworks({ ...peer, transport: [] }, node)).toEqual([]);
  });
});
