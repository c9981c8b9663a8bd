import { describe, expect, it } from 'vitest';
import { parseCidr, parseIp } from '../../base/net/ip.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { nodePortAddress } from '../../dataplane/pipeline/well-known.ts';
import type { ServiceIntent } from '../compile/service-intent.ts';
import { VirtualPorts } from '../compile/virtual-ports.ts';
import { portElements } from './service-firewall.ts';

const own = parseIp('192.0.2.1');
const isOwn = ({ text }: { readonly text: string }): boolean => text === own.text;
const owner = ownerOf('service', 'default/a:http/ipv4');

const local: ServiceIntent = {
  name: 'http/ipv4',
  family: 'ipv4',
  transport: 'tcp',
  port: 80,
  addresses: [
    { kind: 'cluster', ip: parseIp('10.96.0.10'), port: 80 },
    { kind: 'loadBalancer', ip: own, port: 80 },
    { kind: 'external', ip: parseIp('198.51.100.1'), port: 80 },
  ],
  internalPolicy: 'Cluster',
  externalPolicy: 'Local',
  translation: 'bucket',
  sourceRanges: [],
  cluster: [],
  local: [],
  anyEndpoint: false,
  objections: [],
};
const withNodePort = [...local.addresses, { kind: 'nodePort', ip: nodePortAddress.ipv4, port: 30_080 } as const];
const ranged = { ...local, sourceRanges: [parseCidr('203.0.113.0/24')] };

function setUp(nodePorts: readonly number[] = []) {
  const taken = new Set(nodePorts);
  const ports = new VirtualPorts({ isOwn, isNodePort: (_, port) => taken.has(port) });
  const added = (intent: ServiceIntent, of = owner) =>
    ports.add(of, intent).addresses.filter(({ kind, ip }) => kind !== 'nodePort' && ip.text === nodePortAddress.ipv4.text);
  return { ports, taken, added };
}

describe('a virtual port', () => {
  it.each([
    ['policy Local and no node port', local, ['loadBalancer']],
    ['policy Local and a node port, which has that policy too', { ...local, addresses: withNodePort }, []],
    ['source ranges and no node port', ranged, ['loadBalancer']],
    ['source ranges and a node port, which has none', { ...ranged, addresses: withNodePort }, ['loadBalancer']],
    ['policy Cluster, like the cluster address', { ...local, externalPolicy: 'Cluster' as const }, []],
    [
      'an internal policy Local, which clients outside do not have',
      { ...local, externalPolicy: 'Cluster', internalPolicy: 'Local' },
      ['loadBalancer'],
    ],
    ['no address of the node', { ...ranged, addresses: local.addresses.filter(({ ip }) => !isOwn(ip)) }, []],
  ] as const)('stands for an own address with %s', (_, intent, kinds) => {
    expect(
      setUp()
        .added(intent)
        .map(({ kind }) => kind),
    ).toEqual(kinds);
  });

  it('is the target of the nftables translation of the own address, and is not opened at the node’s other addresses', () => {
    const intent = setUp().ports.add(owner, { ...ranged, addresses: withNodePort });
    const virtual = intent.addresses.find(({ kind, ip }) => kind === 'loadBalancer' && !isOwn(ip));
    expect([...portElements(intent, isOwn)]).toEqual([
      ['element/seine-services/node-ports4/6 . 30080', ''],
      ['element/seine-services/own-external4/192.0.2.1 . 6 . 80', `169.254.0.252 . ${virtual?.port}`],
    ]);
  });

  it('is the same after a restart, no other Service’s, and no node port', () => {
    const first = setUp();
    const [port] = first.added(local);
    expect(setUp().added(local)).toEqual([port]);
    expect(first.added(local)).toEqual([port]);
    const second = setUp([port?.port ?? 0]);
    expect(second.added(local)[0]?.port).toBe((port?.port ?? 0) + 1);
    first.taken.add(port?.port ?? 0);
    expect(first.added(local)[0]?.port).toBe((port?.port ?? 0) + 1);
  });

  it('is never allocated twice, and is free again once its Service does not need it', () => {
    const { ports, added } = setUp();
    const owners = Array.from({ length: 2_000 }, (_, index) => ownerOf('service', `default/s${index}:http/ipv4`));
    const all = owners.map((each) => added(local, each)[0]?.port);
    expect(new Set(all).size).toBe(2_000);
    expect(Math.min(...all.map(Number))).toBeGreaterThanOrEqual(32_768);
    for (const each of owners.slice(0, 1_000)) ports.release(each);
    for (const each of owners.slice(1_000)) added({ ...local, addresses: withNodePort }, each);
    expect(owners.map((each) => added(local, each)[0]?.port)).toEqual(all);
  });
});
