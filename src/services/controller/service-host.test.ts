import { describe, expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { parseCidr, parseIp } from '../../base/net/ip.ts';
import { nodePortAddress } from '../../dataplane/pipeline/well-known.ts';
import { NodeState } from '../../dataplane/targets/node-state.ts';
import { fakeTargets } from '../../dataplane/targets/testing/fake-targets.ts';
import type { ServiceIntent } from '../compile/service-intent.ts';
import { ServiceHost } from './service-host.ts';

function setUp() {
  const events = { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} };
  const datapath = new NodeState(fakeTargets(), events);
  const state = { proxyAll: true, addresses: [parseIp('192.0.2.1')] };
  const host = new ServiceHost({
    nodeState: datapath,
    environment: () => ({ ...exampleNode, serviceCidrs: [parseCidr('10.96.0.0/16')] }),
    own: { has: ({ text }) => state.addresses.some((ip) => ip.text === text) },
    nodePortAddresses: () => state.addresses,
    proxyAll: () => state.proxyAll,
    isElsewhere: ({ text }) => text === '192.0.2.2',
    apiServer: { host: '192.0.2.2', port: 6443 },
  });
  return { datapath, host, state };
}

const balancer: ServiceIntent = {
  name: 'http/ipv4',
  family: 'ipv4',
  transport: 'tcp',
  port: 80,
  addresses: [
    { kind: 'cluster', ip: parseIp('10.96.0.10'), port: 80 },
    { kind: 'nodePort', ip: nodePortAddress.ipv4, port: 30_080 },
    { kind: 'loadBalancer', ip: parseIp('192.0.2.1'), port: 80 },
    { kind: 'loadBalancer', ip: parseIp('192.0.2.2'), port: 80 },
    { kind: 'external', ip: parseIp('198.51.100.1'), port: 80 },
  ],
  internalPolicy: 'Cluster',
  externalPolicy: 'Cluster',
  translation: 'bucket',
  sourceRanges: [],
  cluster: [],
  local: [],
  anyEndpoint: false,
  objections: [],
};

describe('the node’s part of a Service', () => {
  it('is a route to addresses that exist nowhere else, and neither a range’s nor a node’s', () => {
    const { host } = setUp();
    expect(host.routes(balancer).map(({ destination, table }) => [destination.text, table])).toEqual([['198.51.100.1/32', 24_158]]);
    const outside = { addresses: [{ kind: 'cluster', ip: parseIp('10.97.0.1'), port: 80 } as const] };
    expect(host.routes(outside)).toMatchObject([{ destination: { text: '10.97.0.1/32' }, via: { text: '169.254.0.253' } }]);
    expect(host.routes(outside)[0]).not.toHaveProperty('table');
  });
  it('translates its node port, and an own address of the node like that, or like the cluster address', () => {
    const { host } = setUp();
    expect([...host.elements(balancer)]).toEqual([
      ['element/seine-services/node-ports4/6 . 30080', ''],
      ['element/seine-services/own-external4/192.0.2.1 . 6 . 80', '169.254.0.252 . 30080'],
      ['element/seine-external/external-addresses4/198.51.100.1', ''],
      ['element/seine-external/external-ports4/198.51.100.1 . 6 . 80', ''],
    ]);
    const plain = { ...balancer, addresses: balancer.addresses.filter(({ kind }) => kind !== 'nodePort' && kind !== 'external') };
    expect([...host.elements(plain).values()]).toEqual(['10.96.0.10 . 80']);
  });
  it('does not open a load balancer’s own address to excluded clients', () => {
    const { host } = setUp();
    const elements = [...host.elements({ ...balancer, sourceRanges: [parseCidr('198.51.100.0/24')] }).keys()];
    expect(elements.filter((key) => key.startsWith('element/seine-services/'))).toHaveLength(1);
  });
  it('is the route of established connections, and nothing else, while another proxy serves all but pods, as it starts and stops', () => {
    const { host, state, datapath } = setUp();
    host.want();
    expect([...datapath.firewall.keys()]).toContain('element/seine-services/node-addresses4/192.0.2.1');
    expect([...datapath.host.keys()]).toContain('route/169.254.0.252/32');
    expect([...datapath.host.keys()].filter((key) => key.startsWith('rule/'))).toEqual([
      'rule/ipv4/94/24158/4096',
      'rule/ipv4/32800/24158/0',
      'rule/ipv6/94/24158/4096',
      'rule/ipv6/32800/24158/0',
    ]);
    state.proxyAll = false;
    host.want();
    expect([datapath.firewall.size, [...datapath.host.keys()]]).toEqual([0, ['route/169.254.0.252/32', 'route/fc01::aabb:ccdd:eefe/128']]);
    expect([host.routes(balancer), host.elements(balancer).size]).toEqual([[], 0]);
  });
});
