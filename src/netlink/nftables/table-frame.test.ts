import { expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { firewallBody } from '../../dataplane/compile/compile-firewall.ts';
import { externalFirewall, serviceFirewall } from '../../services/controller/service-firewall.ts';
import { frameOfBody, frameOfListing } from './table-frame.ts';

const options = { families: ['ipv4', 'ipv6'] as const, gateway: 'antrea-gw0' };

it.each([
  ['of the node', firewallBody(exampleNode, { dataPath: 'netdev', noSnat: false }), 'set pods4 ipv4_addr interval'],
  ['of Services', serviceFirewall(options), 'map own-external4 ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service '],
  ['of external addresses', externalFirewall(options), 'set external-ports6 ipv6_addr . inet_proto . inet_service '],
])('reads the declarations of the table %s', (_, body, line) => {
  expect(frameOfBody(body)?.declarations.split('\n')).toContain(line);
});

it('does not know a body that declares something in another form', () => {
  expect(frameOfBody('set a { type ipv4_addr; timeout 5s; }')).toBeUndefined();
  expect(frameOfBody('quota a { 10 bytes }')).toBeUndefined();
});

const table = { table: { family: 'inet', name: 'seine', handle: 1 } };
const set = {
  set: { family: 'inet', name: 'a', table: 'seine', type: ['inet_proto', 'inet_service'], handle: 2, flags: ['interval'], elem: [1] },
};
const map = { map: { family: 'inet', name: 'b', table: 'seine', type: 'ipv4_addr', handle: 3, map: ['ipv4_addr', 'inet_service'] } };
const chain = { chain: { family: 'inet', table: 'seine', name: 'c', handle: 4, type: 'filter', hook: 'input', prio: 0, policy: 'accept' } };
const counter = { counter: { family: 'inet', name: 'd', table: 'seine', handle: 5, packets: 1, bytes: 2 } };

it('is the same by a body and by its listing', () => {
  const lines = [
    'set a { type inet_proto . inet_service; flags interval; }',
    'map b { type ipv4_addr : ipv4_addr . inet_service; }',
    'counter d { }',
    'chain c {\ntype filter hook input priority 0; policy accept;\n}',
  ];
  expect(frameOfListing([table, set, map, chain, counter])).toEqual(frameOfBody(lines.join('\n')));
});

it.each([
  ['is dormant', { table: { ...table.table, flags: ['dormant'] } }],
  ['has a set with a limit', { set: { ...set.set, size: 10 } }],
  ['has a set with timeouts', { set: { ...set.set, timeout: 5 } }],
  ['has a chain whose name is none for nft', { chain: { ...chain.chain, name: 'a b' } }],
  ['has something that no table of Seine has', { quota: { family: 'inet', name: 'q', table: 'seine', handle: 6 } }],
])('is unknown if the table %s', (_, object) => {
  expect(frameOfListing([table, object])).toBeUndefined();
});
