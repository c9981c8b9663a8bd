import { expect, it } from 'vitest';
import { parseMegaflows, tracedActions } from './megaflows.ts';

const key =
  'recirc_id(0),in_port(11),packet_type(ns=0,id=0),eth(src=0e:00:00:00:00:01,dst=0e:00:00:00:00:02),eth_type(0x0800),ipv4(src=10.244.0.7,dst=10.244.0.8/255.255.255.248,frag=no)';
const dump = `flow-dump from the main thread:
${key}, packets:137, bytes:11826, used:1.452s, flags:SFP., actions:drop
recirc_id(0),in_port(11),packet_type(ns=0,id=0),eth_type(0x86dd),ipv6(frag=no), packets:0, bytes:0, used:never, actions:ct(zone=65510,nat),recirc(0x5)
recirc_id(0x5),in_port(11),eth_type(0x0800),ipv4(frag=no), packets:0, bytes:0, used:never, actions:drop
recirc_id(0),tunnel(tun_id=0x0,src=192.0.2.2,dst=192.0.2.1),in_port(2),eth_type(0x0800),ipv4(frag=no), packets:0, bytes:0, used:never, actions:drop
recirc_id(0),in_port(4),packet_type(ns=0,id=0),eth_type(0x86dd),ipv6(proto=58,frag=no),icmpv6(type=135,code=0),nd(target=fe80::1), packets:1, bytes:86, used:0.1s, actions:9
recirc_id(0),in_port(11),eth_type(0x0806), packets:1, bytes:42, used:0.1s, actions:12
`;

it('selects megaflows that can be traced alone', () => {
  expect(parseMegaflows(dump)).toEqual([
    { key, actions: 'drop' },
    {
      key: 'recirc_id(0),in_port(11),eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:00),eth_type(0x86dd),ipv6(frag=no)',
      actions: 'ct(zone=65510,nat),recirc(0x5)',
    },
  ]);
});

it('reads the result for packets as they arrive, not of later steps', () => {
  const trace = `Flow: ip\n\nMegaflow: recirc_id=0\nDatapath actions: ct(zone=65520,nat),recirc(0x4)\n\n====\nDatapath actions: drop\n`;
  expect(tracedActions(trace)).toBe('ct(zone=65520,nat),recirc(0x4)');
  expect(tracedActions('Bad openflow flow syntax')).toBeUndefined();
});
