import { expect, it } from 'vitest';
import { parseCidr, parseIp } from '../../base/net/ip.ts';
import type { PeerIntent } from '../../dataplane/compile/compile-peer.ts';
import type { InstalledFlow } from '../../dataplane/flow-walk/installed-flow.ts';
import { PacketState, type WalkedFields } from '../../dataplane/flow-walk/packet-state.ts';
import { cookieOf, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { tables } from '../../dataplane/pipeline/tables.ts';
import { AddressedFlows } from './addressed-flows.ts';
import { ClusterPeers } from './cluster-peers.ts';
import { partsOf, usualSettings } from './node-compiler.ts';

const peer = (name: string, networks: readonly string[], transport: readonly string[]): PeerIntent => ({
  name,
  podCidrs: networks.map(parseCidr),
  transport: transport.map(parseIp),
});

// The last two have a network in common, as after a node was replaced.
const peers = new ClusterPeers([
  peer('n1', ['10.10.0.0/24', 'fd00:10::/64'], ['192.168.77.1', 'fd00:77::1']),
  peer('n2', ['10.10.1.0/24', 'fd00:10:0:1::/64'], ['192.168.77.2', 'fd00:77::2']),
  peer('n3', ['10.10.2.0/24'], ['192.168.77.3']),
  peer('n4', ['10.10.2.0/24'], ['192.168.77.4']),
]);

function flowsOfN1(): AddressedFlows {
  const status = { addresses: [{ type: 'InternalIP', address: '192.168.77.1' }] };
  const spec = { podCIDRs: ['10.10.0.0/24', 'fd00:10::/64'] };
  const { environment } = partsOf({ metadata: { name: 'n1' }, spec, status }, [], usualSettings([]));
  return new AddressedFlows(peers.flowsFor('n1', environment));
}

async function ownersAt(
  flows: AddressedFlows,
  table: keyof typeof tables,
  fields?: WalkedFields,
): Promise<readonly (string | undefined)[]> {
  const cookies: bigint[] = [];
  await flows.visit(tables[table].id, ({ cookie }: InstalledFlow) => cookies.push(cookie), fields && PacketState.of(fields));
  return [...new Set(cookies)].map((cookie) => flows.ownerOf(cookie));
}

const number = (address: string): bigint => parseIp(address).value;

it('compiles the peers whose pods or addresses a packet has', async () => {
  const flows = flowsOfN1();
  expect(await ownersAt(flows, 'route', { ip_dst: number('10.10.1.7') })).toEqual(['peer/n2']);
  expect(await ownersAt(flows, 'route', { ipv6_dst: number('fd00:10:0:1::7') })).toEqual(['peer/n2']);
  expect(await ownersAt(flows, 'spoofGuard', { ip_src: number('10.10.1.7') })).toEqual(['peer/n2']);
  expect(await ownersAt(flows, 'classify', { tun_src: number('192.168.77.3') })).toEqual(['peer/n3']);
  expect(await ownersAt(flows, 'neighbour', { arp_tpa: number('10.10.1.1') })).toEqual(['peer/n2']);
  expect(await ownersAt(flows, 'route', { ip_src: number('10.10.0.7'), ip_dst: number('198.51.100.1') })).toEqual([]);
  expect(flows.ownerOf(cookieOf(ownerOf('peer', 'n4')))).toBeUndefined();
});

it('visits the flows of all peers without a packet', async () => {
  expect(await ownersAt(flowsOfN1(), 'classify')).toEqual(['peer/n2', 'peer/n3', 'peer/n4']);
});

it('a network that two peers have belongs to the later one, whichever was compiled first', async () => {
  const flows = flowsOfN1();
  await ownersAt(flows, 'classify', { tun_src: number('192.168.77.4') });
  expect(await ownersAt(flows, 'route', { ip_dst: number('10.10.2.9') })).toEqual(['peer/n4']);
  expect(await ownersAt(flows, 'route')).toEqual(['peer/n2', 'peer/n4']);
});

it('names the first node with a transport address', () => {
  expect(peers.nameAt('192.168.77.2')).toBe('n2');
  expect(peers.nameAt('192.168.77.9')).toBeUndefined();
  expect(peers.of('n2').map(({ name }) => name)).toEqual(['n1', 'n3', 'n4']);
});
