import { describe, expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { silentLog } from '../../base/log/log.ts';
import { cidrContains, parseCidr, parseIp } from '../../base/net/ip.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { Flow } from '../../dataplane/pipeline/flow.ts';
import { NodeState } from '../../dataplane/targets/node-state.ts';
import { fakeTargets } from '../../dataplane/targets/testing/fake-targets.ts';
import { ReplicaStore } from '../../kubernetes/client/replica/replica.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import { peersFromNodes } from '../../kubernetes/resources/peer-source.ts';
import { Peers } from './peers.ts';
import { reservedRanges } from './reserved-ranges.ts';

function setUp() {
  const nodes = new ReplicaStore<Node>();
  const events = { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} };
  const datapath = new NodeState(fakeTargets(), events);
  let addresses = [
    { address: parseIp('192.168.77.1'), prefixLength: 24 },
    { address: parseIp('fd00:77::1'), prefixLength: 64 },
    { address: parseIp('172.30.0.1'), prefixLength: 16 },
  ];
  let environment = exampleNode;
  const peers = new Peers({
    source: peersFromNodes(nodes, 'n1'),
    nodeState: datapath,
    environment: () => environment,
    reserved: () => reservedRanges(environment, addresses, '203.0.113.6'),
    dataPath: 'system',
    turns: new LoopTurns(1),
    log: silentLog,
  });
  let version = 0;
  const put = (name: string, change: Partial<Node>): void => {
    const since = `2026-01-01T00:00:${String(++version).padStart(2, '0')}Z`;
    const node = { name, uid: name, podCidrs: [], internalIps: [], createdAt: since, deleting: false, ...nodes.get(name), ...change };
    nodes.put(name, String(version), node);
    nodes.flush();
  };
  const flows = flowsWantedOf(datapath);
  const routes = (): string[] =>
    [...datapath.host.keys()]
      .filter((key) => key.startsWith('route/'))
      .map((key) => key.slice('route/'.length))
      .toSorted();
  peers.follow();
  const become = (now: NodeEnvironment): void => {
    environment = now;
    peers.checkAgain();
  };
  const own = addresses;
  const bind = (...texts: readonly string[]): void => {
    addresses = [...own, ...texts.map((text) => ({ address: parseIp(text), prefixLength: text.includes(':') ? 128 : 32 }))];
    peers.reservedChanged();
  };
  return { nodes, datapath, peers, put, bind, reached: () => networksReached(flows()), routes, passes: takes(flows), become };
}

/** Returns the desired flows of the bridge, in order of request. */
function flowsWantedOf(datapath: NodeState): () => readonly Flow[] {
  const flows = new Map<Owner, readonly Flow[]>();
  const { want, forget } = datapath;
  datapath.want = (owner, wanted) => {
    flows.delete(owner);
    flows.set(owner, wanted.flows);
    return want.call(datapath, owner, wanted);
  };
  datapath.forget = (owner) => {
    flows.delete(owner);
    return forget.call(datapath, owner);
  };
  return () => [...flows.values()].flat();
}

/** Returns the networks that tunnels reach. */
function networksReached(flows: readonly Flow[]): string[] {
  const tunnels = flows.filter(({ table }) => table === 'tunnel');
  return [...new Set(tunnels.map(({ match: { ipDst } }) => (ipDst ? ipDst.text : 'everything')))].toSorted();
}

/**
 * Reports whether the bridge accepts a tunnel packet from one address with another inside; of several owners of a flow, the last one wins.
 */
function takes(flows: () => readonly Flow[]): (tunnel: string, inside: string) => boolean {
  return (tunnel, inside) => {
    const classified = flows().findLast(({ table, match }) => table === 'classify' && match.tunSrc?.text === tunnel);
    const loaded = new Set((classified?.steps ?? []).map((step) => JSON.stringify(step.do === 'load' ? step.mark : '')));
    return flows().some(
      ({ table, match: { ipSrc, regs = [] } }) =>
        table === 'spoofGuard' &&
        ipSrc !== undefined &&
        'network' in ipSrc &&
        cidrContains(ipSrc, parseIp(inside)) &&
        regs.every((mark) => loaded.has(JSON.stringify(mark))),
    );
  };
}

const exampleOther: Node = { name: 'n2', uid: 'other', podCidrs: [], internalIps: ['192.168.77.2'], deleting: false };

function at(nodes: ReplicaStore<Node>, name: string): Node {
  const node = nodes.get(name);
  if (!node) throw new Error(`no node ${name}`);
  return node;
}

describe('Peers', () => {
  it('serves permitted addresses of a node', () => {
    const t = setUp();
    t.put('n2', { podCidrs: ['10.10.4.0/22', 'fd00:10:0:1::/64'], internalIps: ['192.168.77.2'] });
    expect(t.reached()).toEqual(['10.10.4.0/22', 'fd00:10:0:1::/64']);
    expect(t.peers.objections.size).toBe(0);
  });

  it('reports unusable addresses of a Node, and serves the rest', () => {
    const t = setUp();
    const refusedPodCidrs = ['spec.podCIDRs: "10.10.4.1/22" has host bits; the network is 10.10.4.0/22'];
    t.put('n2', { podCidrs: ['fd00:10:0:1::/64'], refusedPodCidrs, internalIps: ['192.168.77.2'] });
    expect([t.reached(), t.peers.objections.of('n2')]).toEqual([['fd00:10:0:1::/64'], refusedPodCidrs]);
  });

  it('has the pod networks of each peer, also without a tunnel to it, so that no packet from outside has an address of them', () => {
    const t = setUp();
    const networks = () => [...t.datapath.firewall.keys()].filter((key) => key.includes('/pods')).toSorted();
    t.put('n2', { podCidrs: ['10.10.4.0/22', 'fd00:10:0:1::/64'], internalIps: ['192.168.77.2'] });
    t.put('n3', { podCidrs: ['10.10.8.0/22'] });
    expect(networks()).toEqual([
      'element/seine/pods4/10.10.4.0/22',
      'element/seine/pods4/10.10.8.0/22',
      'element/seine/pods6/fd00:10:0:1::/64',
    ]);
    t.put('n3', { podCidrs: ['10.10.4.0/24'] }); // of n2
    expect(networks()).toEqual([
      'element/seine/pods4/10.10.4.0/22',
      'element/seine/pods4/10.10.8.0/22',
      'element/seine/pods6/fd00:10:0:1::/64',
    ]);
    t.put('n2', { podCidrs: ['10.10.4.0/23', 'fd00:10:0:1::/64'] });
    expect(networks()).toEqual([
      'element/seine/pods4/10.10.4.0/23',
      'element/seine/pods4/10.10.8.0/22',
      'element/seine/pods6/fd00:10:0:1::/64',
    ]);
    t.nodes.remove('n3', '99');
    t.nodes.flush();
    expect(networks()).toEqual(['element/seine/pods4/10.10.4.0/23', 'element/seine/pods6/fd00:10:0:1::/64']);
  });

  it('has the tunnel endpoints of each peer, new ones too, so that no other process of this node sends there', () => {
    const t = setUp();
    const ends = () => [...t.datapath.firewall.keys()].filter((key) => key.includes('tunnel-peers')).toSorted();
    t.put('n2', { podCidrs: ['10.10.4.0/22'], internalIps: ['192.168.77.2', 'fd00:77::2'] });
    expect(ends()).toEqual(['element/seine/tunnel-peers4/192.168.77.2', 'element/seine/tunnel-peers6/fd00:77::2']);
    t.put('n3', { internalIps: ['192.168.77.2', '192.168.77.3'] });
    t.put('n4', { internalIps: ['192.168.77.4'] });
    t.nodes.remove('n2', '90');
    t.nodes.flush();
    expect(ends()).toEqual([
      'element/seine/tunnel-peers4/192.168.77.2',
      'element/seine/tunnel-peers4/192.168.77.3',
      'element/seine/tunnel-peers4/192.168.77.4',
    ]);
  });

  it('has every address at which another node receives tunnel packets, also of a family that this node lacks, and of a node without pods', () => {
    const t = setUp();
    t.become({ ...exampleNode, podCidrs: [parseCidr('10.10.0.0/22')], transport: [parseIp('192.168.77.1')] });
    const [first, ...more] = ['192.168.77.2', '192.168.78.2', 'fd00:77::2', 'fd00:78::2'];
    t.put('n2', { podCidrs: [], internalIps: [first, ...more], externalIps: ['203.0.113.2', '2001:db8::2'] });
    const texts = [...t.datapath.firewall.keys()].map((key) => key.replace(/^.*\//, '')).toSorted();
    expect(texts).toEqual(['192.168.77.2', '192.168.78.2', '2001:db8::2', '203.0.113.2', 'fd00:77::2', 'fd00:78::2'].toSorted());
  });

  it.each([
    ['10.10.4.0/22', '10.10.4.9'],
    ['fd00:10:0:1::/64', 'fd00:10:0:1::9'],
  ])('follows addresses that this node gains and loses: the pod network %s, and the owner of %s', (network, ip) => {
    const t = setUp();
    const held: string[] = [];
    t.peers.subscribe((ranges) => held.push(ranges.map(({ text }) => text).join()));
    const holder = (): string | undefined => t.peers.holderOf(parseIp(ip));
    expect(holder()).toBe(undefined);
    t.put('n2', { podCidrs: [network], internalIps: ['192.168.77.2'] });
    expect([holder(), t.reached(), held.splice(0)]).toEqual(['pods of node n2', [network], [expect.stringContaining(network)]]);
    t.bind(ip);
    expect([holder(), t.reached()]).toEqual(['an address of this node', []]);
    expect(held.splice(0).join()).toContain(ip);
    t.bind();
    expect([holder(), t.reached()]).toEqual(['pods of node n2', [network]]);
    expect(held.splice(0).join()).toContain(ip);
    t.nodes.remove('n2', '90');
    t.nodes.flush();
    expect([holder(), held.splice(0)]).toEqual([undefined, [expect.stringContaining(network)]]);
    t.bind('198.51.100.9');
    t.bind('198.51.100.9');
    expect(held).toEqual(['198.51.100.9/32']);
  });

  it('rejects a Node with the cluster address of an existing Service, and a node outside of the link with any', () => {
    const t = setUp();
    const [older, younger] = [{ createdAt: '2025-01-01T00:00:00Z' }, { createdAt: '2026-02-01T00:00:00Z' }];
    t.become({ ...exampleNode, serviceCidrs: [] });
    t.put('n2', { podCidrs: ['10.96.0.0/16'], internalIps: ['10.97.0.1', 'fd00:97::1'] });
    t.put('n3', { internalIps: ['192.168.77.3', 'fd00:77::3'] });
    const holders = (ip: string) => [undefined, older, younger].map((service) => t.peers.holderOf(parseIp(ip), service));
    expect(holders('10.96.0.10')).toEqual(['pods of node n2', undefined, 'pods of node n2']);
    expect(holders('10.97.0.1')).toEqual(['the tunnel of node n2', undefined, undefined]);
    expect(holders('fd00:97::1')).toEqual(['the tunnel of node n2', undefined, undefined]);
    expect(new Set(holders('192.168.77.3'))).toEqual(new Set(['the tunnel of node n3']));
    expect(new Set(holders('fd00:77::3'))).toEqual(new Set(['the tunnel of node n3']));
  });

  it('routes neighbouring networks by one route, and no unused network', () => {
    const t = setUp();
    for (const [index, cidr] of ['10.20.0.0/24', '10.20.1.0/24', '10.20.2.0/24', '10.20.3.0/24'].entries())
      t.put(`m${index}`, { podCidrs: [cidr], internalIps: [`192.168.77.${100 + index}`] });
    expect(t.routes()).toEqual(['10.20.0.0/22']);
    t.nodes.remove('m1', '90');
    t.nodes.flush();
    expect(t.routes()).toEqual(['10.20.0.0/24', '10.20.2.0/23']);
    t.put('m2', { internalIps: [] });
    expect(t.routes()).toEqual(['10.20.0.0/24', '10.20.3.0/24']);
    t.put('m4', { podCidrs: ['10.20.2.0/24'], internalIps: ['192.168.77.104'] });
    expect(t.routes()).toEqual(['10.20.0.0/24', '10.20.3.0/24']);
    t.nodes.remove('m2', '91');
    t.nodes.flush();
    expect(t.routes()).toEqual(['10.20.0.0/24', '10.20.2.0/23']);
  });

  it("serves peers with this node's present addresses", () => {
    const t = setUp();
    t.put('n2', { podCidrs: ['10.10.4.0/22'], internalIps: ['192.168.77.2'] });
    t.become({ ...exampleNode, podCidrs: [parseCidr('10.10.4.0/22')], formerPodCidrs: exampleNode.podCidrs });
    expect(t.reached()).toEqual([]);
    expect(t.peers.objections.of('n2')).toEqual([expect.stringContaining('pods of this node')]);
    t.become(exampleNode);
    expect(t.reached()).toEqual(['10.10.4.0/22']);
    expect(t.peers.objections.size).toBe(0);
  });

  it('reaches pods in a previous network of a node, until another node has it', () => {
    const t = setUp();
    t.put('n2', { podCidrs: ['10.10.4.0/22'], internalIps: ['192.168.77.2'] });
    t.put('n2', { podCidrs: ['10.10.8.0/22'] });
    expect(t.reached()).toEqual(['10.10.4.0/22', '10.10.8.0/22']);
    expect(t.peers.objections.size).toBe(0);
    t.put('n3', { podCidrs: ['10.10.4.0/23'], internalIps: ['192.168.77.3'] });
    expect(t.reached()).toEqual(['10.10.4.0/23', '10.10.8.0/22']);
    expect(t.peers.objections.size).toBe(0);
    t.put('n3', { podCidrs: ['10.10.12.0/22'] });
    expect(t.reached()).toEqual(['10.10.12.0/22', '10.10.4.0/23', '10.10.8.0/22']);
  });

  it.each([
    ['a-new', 'z-old'],
    ['z-new', 'a-old'],
  ])('accepts packets of a host that has returned as %s while %s is still a Node, after any restart', (now, before) => {
    const t = setUp();
    t.put(before, { podCidrs: ['10.10.4.0/22'], internalIps: ['192.168.77.2', 'fd00:77::2'] });
    t.put(now, { podCidrs: ['10.10.8.0/22'], internalIps: ['192.168.77.2'] });
    for (const restarted of [false, true]) {
      if (restarted) t.peers.checkAgain();
      expect(t.passes('192.168.77.2', '10.10.8.5')).toBe(true);
      expect(t.passes('192.168.77.2', '10.10.4.5')).toBe(true);
      // The other address belongs to one node, and is only valid for that one.
      expect(t.passes('fd00:77::2', '10.10.4.5')).toBe(true);
      expect(t.passes('fd00:77::2', '10.10.8.5')).toBe(false);
    }
    t.nodes.remove(before, '100');
    t.nodes.flush();
    expect(t.passes('192.168.77.2', '10.10.8.5')).toBe(true);
    expect(t.passes('192.168.77.2', '10.10.4.5')).toBe(false);
    expect(t.passes('fd00:77::2', '10.10.4.5')).toBe(false);
  });

  it('treats a node that returns with another network as the same host', () => {
    const t = setUp();
    t.put('n2', { podCidrs: ['10.10.4.0/22'], internalIps: ['192.168.77.2'] });
    t.nodes.remove('n2', '100');
    t.nodes.flush();
    expect(t.reached()).toEqual([]);
    t.nodes.put('n2', '101', { ...exampleOther, podCidrs: ['10.10.8.0/22'] });
    t.nodes.flush();
    expect(t.reached()).toEqual(['10.10.4.0/22', '10.10.8.0/22']);
  });

  it.each([
    ['geneve', ['192.168.77.1', 'fd00:77::1'], ['fd00:77::2'], undefined],
    ['geneve', ['192.168.77.1'], ['fd00:77::2'], "tunnel address fd00:77::2 is of another family than this node's, 192.168.77.1"],
    ['gre', ['192.168.77.1'], ['192.168.77.2', 'fd00:77::2'], undefined],
    ['gre', ['192.168.77.1'], ['fd00:77::2'], 'tunnelType: geneve or vxlan'],
    ['gre', ['fd00:77::1'], ['fd00:77::2'], undefined],
    ['gre', ['fd00:77::1'], ['192.168.77.2', 'fd00:77::2'], 'no ip6gre tunnel'],
    ['geneve', ['192.168.77.1'], [], undefined],
  ] as const)('reports for %s tunnels from %j to %j: %s', (type, own, internalIps, objection) => {
    const t = setUp();
    t.become({ ...exampleNode, tunnel: { ...exampleNode.tunnel, type }, transport: own.map(parseIp) });
    t.put('n2', { podCidrs: ['10.10.4.0/22'], internalIps });
    expect(t.peers.objections.of('n2')).toEqual(objection === undefined ? [] : [expect.stringContaining(objection)]);
  });

  it('yields while thousands join, and ends with the same result as at once', async () => {
    const t = setUp();
    let turns = 0;
    const count = setInterval(() => turns++, 1);
    for (let n = 0; n < 3_000; n++)
      t.nodes.put(`m${n}`, '1', {
        name: `m${n}`,
        uid: String(n),
        podCidrs: [`10.${120 + (n >> 6)}.${(n % 64) * 4}.0/22`],
        internalIps: [`192.168.${100 + (n >> 7)}.${n % 128}`],
        createdAt: '2026-01-02T00:00:00Z',
        deleting: false,
      });
    t.nodes.put('late', '1', { ...at(t.nodes, 'm7'), name: 'late', createdAt: '2026-01-03T00:00:00Z' });
    t.nodes.flush();
    await t.peers.settled();
    clearInterval(count);
    expect(turns).toBeGreaterThan(3);
    expect(t.reached()).toHaveLength(3_000);
    expect(t.routes()).toEqual([
      '10.120.0.0/13',
      '10.128.0.0/11',
      '10.160.0.0/14',
      '10.164.0.0/15',
      '10.166.0.0/17',
      '10.166.128.0/18',
      '10.166.192.0/19',
    ]);
    expect(t.peers.objections.of('late')).toEqual([expect.stringContaining('node m7, which was there before')]);
  });

  it.each([
    ['everything', '0.0.0.0/0', 'larger than the network of any node'],
    ['half of everything', '128.0.0.0/1', 'larger than the network of any node'],
    ['every IPv6 address', '::/0', 'larger than the network of any node'],
    ['our pods', '10.10.0.0/16', 'pods of this node'],
    ['one of our pods', '10.10.0.4/31', 'pods of this node'],
    ['Services', '10.96.0.0/24', 'addresses of Services'],
    ['the underlay', '192.168.77.128/25', 'the network that carries the tunnels'],
    ['another address of ours', '172.30.0.0/24', 'an address of this node'],
    ['the API server', '203.0.113.0/28', 'the API server'],
    ['loopback', '127.1.0.0/16', 'addresses of a host itself or of a link'],
    ['a single address', '10.20.0.1/32', 'no room for a gateway'],
    ['a single IPv6 address', 'fd00:20::1/128', 'no room for a gateway'],
  ])('omits a node’s claim to %s, keeps its other claims, and reports it', (_, cidr, why) => {
    const t = setUp();
    t.put('n3', { podCidrs: ['10.10.8.0/22'], internalIps: ['192.168.77.3'] });
    t.put('evil', { podCidrs: [cidr, '10.10.12.0/22'], internalIps: ['192.168.77.9'] });
    expect(t.reached()).toEqual(['10.10.12.0/22', '10.10.8.0/22']);
    expect(t.peers.objections.of('evil').join()).toContain(why);
    expect(t.peers.objections.size).toBe(1);
  });

  it.each([
    ['in our pods', '10.10.0.7'],
    ['in another node’s pods', '10.10.8.7'],
    ['our own', '192.168.77.1'],
    ['a loopback address', '127.0.0.1'],
  ])('rejects a tunnel endpoint that is %s', (_, end) => {
    const t = setUp();
    t.put('n3', { podCidrs: ['10.10.8.0/22'], internalIps: ['192.168.77.3'] });
    t.put('evil', { podCidrs: ['10.10.12.0/22'], internalIps: [end] });
    expect(t.reached()).toEqual(['10.10.8.0/22']);
    expect(t.peers.objections.of('evil').join()).toContain(`tunnel address ${end}/`);
  });

  it('returns a network to the node that waits for it', () => {
    const t = setUp();
    t.put('n3', { podCidrs: ['10.10.8.0/22'], internalIps: ['192.168.77.3'] });
    t.put('n4', { podCidrs: ['10.10.9.0/24'], internalIps: ['192.168.77.4'] });
    expect(t.reached()).toEqual(['10.10.8.0/22']);
    t.nodes.remove('n3', '90');
    t.nodes.flush();
    expect(t.reached()).toEqual(['10.10.9.0/24']);
    expect(t.peers.objections.size).toBe(0);
  });
});
