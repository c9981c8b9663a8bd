import { expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { compileFirewall } from './compile-firewall.ts';
import type { NodeEnvironment } from './environment.ts';

const node: NodeEnvironment = { ...exampleNode, transport: exampleNode.transport.slice(0, 1), serviceCidrs: [] };
const dump = (environment: NodeEnvironment, noSnat = false, dataPath: 'system' | 'netdev' = 'system') =>
  compileFirewall(environment, { dataPath, noSnat }).flatMap(({ name, rules }) => rules.map((rule) => `${name}: ${rule}`));

it('masquerades pods, and drops tunnel packets that come from pods', () => {
  expect(dump(node).filter((rule) => !rule.startsWith('postrouting-external'))).toEqual([
    'postrouting: oifname != "antrea-gw0" ip saddr 10.10.0.0/22 masquerade fully-random',
    'postrouting: oifname != "antrea-gw0" ip6 saddr fd00:10::/64 masquerade fully-random',
    'postrouting: oifname != "antrea-gw0" ip saddr 169.254.0.253 masquerade',
    'postrouting: oifname != "antrea-gw0" ip6 saddr fc01::aabb:ccdd:eeff masquerade',
    'postrouting: oifname "antrea-gw0" ip saddr != 10.10.0.1 fib saddr type local masquerade fully-random',
    'postrouting: oifname "antrea-gw0" ip6 saddr != fd00:10::1 fib saddr type local masquerade fully-random',
    'prerouting-raw: udp dport 6081 notrack',
    'prerouting-raw: iifname != { "antrea-gw0", "lo" } ip saddr 10.10.0.0/22 counter name "pods-without-tunnel4" drop',
    'prerouting-raw: iifname != { "antrea-gw0", "lo" } ip saddr @pods4 counter name "pods-without-tunnel4" drop',
    'prerouting-raw: iifname != { "antrea-gw0", "lo" } ip6 saddr fd00:10::/64 counter name "pods-without-tunnel6" drop',
    'prerouting-raw: iifname != { "antrea-gw0", "lo" } ip6 saddr @pods6 counter name "pods-without-tunnel6" drop',
    'output-raw: udp dport 6081 notrack',
    'output: udp dport 6081 ip daddr @tunnel-peers4 meta skuid >= 0 meta mark & 0x20 == 0 counter drop',
    'output: udp dport 6081 ip6 daddr @tunnel-peers6 meta skuid >= 0 meta mark & 0x20 == 0 counter drop',
    'output: udp dport 6081 fib daddr type local fib saddr type != local meta skuid >= 0 counter drop',
    'postrouting-mark: oifname "antrea-gw0" meta skuid >= 0 meta mark set meta mark | 0x20',
    'input: iifname "antrea-gw0" udp dport 6081 drop',
    'forward: iifname "antrea-gw0" udp dport 6081 drop',
    'forward: oifname != "antrea-gw0" ip saddr 10.10.0.0/22 ct state invalid drop',
    'forward: oifname != "antrea-gw0" ip6 saddr fd00:10::/64 ct state invalid drop',
    'forward: oifname != "antrea-gw0" ip saddr 169.254.0.253 ct state invalid drop',
    'forward: oifname != "antrea-gw0" ip6 saddr fc01::aabb:ccdd:eeff ct state invalid drop',
    'forward: iifname "antrea-gw0" accept',
    'forward: oifname "antrea-gw0" accept',
  ]);
});

it('keeps pods’ addresses where configured, but never an address that only this node knows', () => {
  const masquerades = dump(node, true).filter((rule) => rule.includes('oifname !='));
  expect(masquerades).toEqual([
    'postrouting: oifname != "antrea-gw0" ip saddr 169.254.0.253 masquerade',
    'postrouting: oifname != "antrea-gw0" ip6 saddr fc01::aabb:ccdd:eeff masquerade',
    'forward: oifname != "antrea-gw0" ip saddr 169.254.0.253 ct state invalid drop',
    'forward: oifname != "antrea-gw0" ip6 saddr fc01::aabb:ccdd:eeff ct state invalid drop',
  ]);
});

it('admits packets of other nodes’ pods to addresses of this node itself where pods keep their addresses', () => {
  const guards = dump(node, true).filter((rule) => rule.includes('pods-without-tunnel4'));
  expect(guards.map((rule) => rule.replace('prerouting-raw: iifname != { "antrea-gw0", "lo" } ', ''))).toEqual([
    'ip saddr 10.10.0.0/22 counter name "pods-without-tunnel4" drop',
    'ip saddr @pods4 fib daddr type != local counter name "pods-without-tunnel4" drop',
    'ip saddr @pods4 ip daddr 10.10.0.0/22 counter name "pods-without-tunnel4" drop',
  ]);
});

it('accepts packets without a tunnel from peers that announce them, and leaves those between pods as they are', () => {
  const more = dump({ ...node, directPackets: true }).filter((rule) => !dump(node).includes(rule) && !rule.includes('ip6'));
  const arriving = 'prerouting-raw: iifname != { "antrea-gw0", "lo" }';
  expect(more).toEqual([
    'postrouting: oifname != "antrea-gw0" ip saddr 10.10.0.0/22 ip daddr != @pods4 masquerade fully-random',
    'postrouting: oifname != "antrea-gw0" ip daddr @pods4 ip saddr != 10.10.0.1 fib saddr type local snat ip to 10.10.0.1 fully-random',
    `${arriving} ip saddr @pods4 ip saddr != @plain4 counter name "pods-without-tunnel4" drop`,
    'prerouting-raw: ip saddr 10.10.0.0/22 ip daddr @pods4 notrack',
    'prerouting-raw: ip saddr @pods4 ip daddr 10.10.0.0/22 fib daddr type != local notrack',
  ]);
  expect(dump({ ...node, directPackets: true })).toContain(`${arriving} ip saddr 10.10.0.0/22 counter name "pods-without-tunnel4" drop`);
  const noSnat = dump({ ...node, directPackets: true }, true).filter((rule) => rule.startsWith(arriving) && rule.includes('@pods4'));
  expect(noSnat.every((rule) => rule.includes('ip saddr != @plain4'))).toBe(true);
});

it('marks no packet if Open vSwitch sends tunnel packets past the node’s IP stack', () => {
  const rules = dump(node, false, 'netdev');
  expect(rules.filter((rule) => rule.startsWith('output: '))).toHaveLength(3);
  expect(rules.filter((rule) => rule.startsWith('output: ') && rule.includes('mark'))).toEqual([]);
  expect(rules.filter((rule) => rule.startsWith('postrouting-mark'))).toEqual([]);
});

it('matches GRE by its protocol', () => {
  const rules = dump({ ...node, tunnel: { ofPort: 32768, type: 'gre', port: 0 } });
  expect(rules).toContain('input: iifname "antrea-gw0" meta l4proto 47 drop');
  expect(rules).toContain('prerouting-raw: meta l4proto 47 notrack');
});

it('translates the source of packets that a kube-proxy masquerades on the way to a local pod to an address that is not the node’s', () => {
  const rules = dump(node).filter((rule) => rule.startsWith('postrouting-external: '));
  expect(rules.map((rule) => rule.split(' snat ')[1])).toEqual([
    'ip to 169.254.0.251 fully-random',
    'ip6 to fc01::aabb:ccdd:eefd fully-random',
  ]);
  for (const rule of rules)
    expect(rule).toContain(' meta mark & 0x4000 == 0x4000 fib saddr type != local meta mark set meta mark & 0xffffbfff ');
});
