import { describe, expect, it } from 'vitest';
import type { TraceOnward } from '../../src/api/trace.ts';
import type { WalkedFields } from '../../src/dataplane/flow-walk/packet-state.ts';
import type { Flow } from '../../src/dataplane/pipeline/flow.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import type { HopNames } from '../../src/operations/trace/hop-text.ts';
import type { KernelPacket } from '../../src/operations/trace/kernel-paths.ts';
import { tracePaths } from '../../src/operations/trace/trace-paths.ts';
import { installedFlows, walkFieldsOf } from '../support/walk-fields.ts';
import { compileScene, exampleScene } from './scene.ts';

const { node, pods, services } = exampleScene;
const compiled = compileScene(exampleScene);
const names: HopNames = {
  port: (number) => `port ${number}`,
  peerAt: (address) => exampleScene.peers.find(({ transport }) => transport.some(({ text }) => text === address))?.name,
  podAt: () => undefined,
  owner: () => undefined,
  tunnelType: 'Geneve',
};

const onward = ({ destination: { text } }: KernelPacket): TraceOnward | undefined =>
  text === '203.0.113.9' ? { node: 'n2', mode: 'direct' } : undefined;

async function trace(packet: WalkedFields, isInstalled: (flow: Flow) => boolean = () => true, established?: WalkedFields) {
  const bridge = installedFlows({ ...compiled, flows: compiled.flows.filter(isInstalled) });
  const source = {
    bridge,
    desired: installedFlows(compiled),
    names,
    gateway: node.gateway.ofPort,
    tunnel: node.tunnel.ofPort,
    onward,
  };
  const flowText = ({ table, priority }: { table: number; priority: number }) => `${table} ${priority}`;
  return await tracePaths({ ...source, flowText }, packet, established ? { established } : {});
}

function opening(to: string, more: Partial<Packet> = {}): WalkedFields {
  const [sender] = pods;
  const source = sender?.addresses.find(({ family }) => family === 'ipv4');
  if (!sender || !source) throw new Error('the scene has no pod');
  const receiver = pods.find(({ addresses }) => addresses.some(({ text }) => text === to));
  const ends = {
    ethSrc: sender.mac,
    ethDst: receiver?.mac ?? node.gateway.mac,
    ipSrc: source,
    ipDst: { ...source, text: to, value: addressNumber(to) },
  };
  const packet: Packet = { ...ends, payload: 'ipv4', protocol: 'tcp', portSrc: 5000, portDst: 80, tcpFlags: 'syn', ttl: 64, ...more };
  return walkFieldsOf(sender.ofPort, packet);
}

function addressNumber(text: string): bigint {
  return text.split('.').reduce((sum, part) => sum * 256n + BigInt(part), 0n);
}

const neighbour = pods[1]?.addresses.find(({ family }) => family === 'ipv4')?.text ?? '';
const isEntryOf = (port: number | undefined) => (flow: Flow) =>
  flow.table === 'ingressEntry' && flow.match.regs?.some(({ value }) => value === port);

describe('a trace', () => {
  it('follows a packet to a pod of the node, a sentence for each hop that matters', async () => {
    const { paths } = await trace(opening(neighbour));
    expect(paths).toHaveLength(1);
    expect(paths[0]).toMatchObject({ bridge: { what: 'pod', to: `port ${pods[1]?.ofPort}` }, desired: { what: 'pod' }, endpoints: [] });
    expect(paths[0]?.difference).toBeUndefined();
    expect(paths[0]?.hops.filter(({ text }) => text !== '').map(({ table }) => table)).toEqual(
      expect.arrayContaining(['classify', 'spoofGuard', 'state', 'route', 'commit', 'output']),
    );
  });

  it('names the node, and the outer addresses, of a packet for another node', async () => {
    const { paths } = await trace(opening('10.10.4.9'));
    expect(paths[0]?.bridge).toMatchObject({ what: 'tunnel', to: 'n2', packet: { ttl: 63, tunnel: { destination: '192.168.77.2' } } });
  });

  it('names the node to which the kernel sends a packet from the gateway', async () => {
    const [there, elsewhere] = [await trace(opening('203.0.113.9')), await trace(opening('203.0.113.8'))];
    expect(there.paths[0]?.bridge).toMatchObject({ what: 'node', onward: { node: 'n2', mode: 'direct' } });
    expect(elsewhere.paths[0]?.bridge.onward).toBeUndefined();
  });

  it('has a path for each kind of endpoint of a Service', async () => {
    const { service } = services.find(({ service: { name, clusterIps } }) => name === 'web' && clusterIps.length > 0) ?? {};
    const address = service?.clusterIps.find((ip) => !ip.includes(':')) ?? '';
    const { paths } = await trace(opening(address, { portDst: service?.ports[0]?.port ?? 0 }));
    expect(paths.every(({ endpoints, bridge }) => bridge.what === 'answered' || endpoints.length > 0)).toBe(true);
  });

  it('names the drop, its cause and its remedy', async () => {
    const forged = await trace({ ...opening(neighbour), ip_src: addressNumber('10.10.0.99') });
    expect(forged.paths[0]?.bridge).toMatchObject({ what: 'dropped', to: 'spoofed.address', drop: { table: 'spoofGuard' } });
    const multicast = await trace(opening('224.0.0.251'));
    expect(multicast.paths[0]?.bridge).toMatchObject({ what: 'dropped', to: 'multicast' });
  });

  it('names the first flow that the bridge lacks, with the result of both', async () => {
    const { paths } = await trace(opening(neighbour), (flow) => !isEntryOf(pods[1]?.ofPort)(flow));
    expect(paths[0]).toMatchObject({
      bridge: { what: 'dropped', to: 'pod.ingressBlocked' },
      desired: { what: 'pod' },
      difference: { table: 'ingressEntry' },
    });
  });

  it('assumes for an established connection what its first packet would leave', async () => {
    const first = opening(neighbour);
    const { paths } = await trace({ ...first, tcp_flags: 0x10 }, () => true, first);
    expect(paths[0]?.bridge.what).toBe('pod');
    expect(paths[0]?.hops.find(({ table }) => table === 'state')?.text).toBe('belongs to a known connection');
    expect(paths[0]?.hops.find(({ table }) => table === 'commit')?.text).toBe('');
  });
});
