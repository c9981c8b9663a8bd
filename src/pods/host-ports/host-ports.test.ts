import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { silentLog } from '../../base/log/log.ts';
import { type Ip, parseIp } from '../../base/net/ip.ts';
import { type HostPort, hostPortText, openHostPort, overlap } from '../../dataplane/compile/host-port.ts';
import { ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { FakeTarget } from '../../dataplane/reconcile/testing/fake-target.ts';
import { neededByFlow } from '../../dataplane/targets/bridge/bridge-entry.ts';
import type { FirewallKey } from '../../dataplane/targets/host/firewall-target.ts';
import { NodeState } from '../../dataplane/targets/node-state.ts';
import { isStale, isUntranslated } from './host-port-connections.ts';
import { hostPortElements } from './host-port-firewall.ts';
import { HostPorts } from './host-ports.ts';

const [own4, own6] = [parseIp('10.10.0.5'), parseIp('fd00:10::5')];
const at = (hostIp?: string): HostPort => ({
  transport: 'tcp',
  hostPort: 8_080,
  containerPort: 80,
  ...(hostIp === undefined ? {} : { hostIp: parseIp(hostIp) }),
});

describe('nftables elements of a host port', () => {
  it.each([
    ['every address of both families', undefined, ['everywhere4/6 . 8080', 'everywhere6/6 . 8080', 'self4', 'self6']],
    ['every address of one family', '0.0.0.0', ['everywhere4/6 . 8080', 'self4']],
    ['every address of the other', '::', ['everywhere6/6 . 8080', 'self6']],
    ['one address', '192.0.2.1', ['addressed4/192.0.2.1 . 6 . 8080', 'self4']],
    ['one of the other', '2001:db8::1', ['addressed6/2001:db8::1 . 6 . 8080', 'self6']],
  ])('are an element for %s', (_, hostIp, wanted) => {
    const elements = hostPortElements([own4, own6], [at(hostIp)]);
    const short = [...elements.keys()].map((key) => key.replace('element/seine-host-ports/', '').replace(/^(self\d)\/.*/, '$1'));
    expect(short.toSorted()).toEqual(wanted);
    for (const [key, value] of elements)
      expect(value).toBe(key.includes('/self') ? '' : key.includes('6/') ? 'fd00:10::5 . 80' : '10.10.0.5 . 80');
  });
});

const someIps = ['192.0.2.1', '192.0.2.2', '127.0.0.1', '0.0.0.0', '2001:db8::1', '::'].map(parseIp);
const hostPorts: fc.Arbitrary<HostPort> = fc
  .record({
    transport: fc.constantFrom('tcp', 'udp', 'sctp'),
    hostPort: fc.integer({ min: 1, max: 3 }),
    containerPort: fc.integer({ min: 1, max: 65_535 }),
    hostIp: fc.option(fc.constantFrom(...someIps), { nil: undefined }),
  })
  .map(({ hostIp, ...rest }) => ({ ...rest, ...(hostIp ? { hostIp } : {}) }));

/**
 * Returns the host ports to which a packet for this address, transport and port may be translated, computed independently of the elements.
 */
function ledBy(all: readonly HostPort[], ip: Ip, transport: string, port: number): readonly HostPort[] {
  return all.filter(({ hostIp, ...each }) => {
    if (each.transport !== transport || each.hostPort !== port) return false;
    return hostIp === undefined || (hostIp.family === ip.family && (hostIp.value === 0n || hostIp.text === ip.text));
  });
}

it('two host ports conflict exactly if one packet could match both', () => {
  const places = someIps.filter(({ value }) => value !== 0n);
  fc.assert(
    fc.property(hostPorts, hostPorts, (one, other) => {
      const both = places.some((ip) => ledBy([one, other], ip, one.transport, one.hostPort).length === 2);
      expect(overlap(one, other), `${hostPortText(one)} and ${hostPortText(other)}`).toBe(both);
      expect(overlap(other, one)).toBe(both);
    }),
  );
});

it('any host ports without conflicts are separate elements, each with its own target', () => {
  fc.assert(
    fc.property(fc.array(hostPorts, { maxLength: 12 }), (drawn) => {
      const kept = drawn.filter((each, index) => !drawn.slice(0, index).some((earlier) => overlap(earlier, each)));
      const elements = hostPortElements([own4, own6], kept);
      for (const ip of someIps.filter(({ value }) => value !== 0n))
        for (const [transport, number] of [
          ['tcp', 6],
          ['udp', 17],
          ['sctp', 132],
        ] as const)
          for (const port of [1, 2, 3]) {
            const version = ip.family === 'ipv4' ? 4 : 6;
            const found =
              elements.get(`element/seine-host-ports/addressed${version}/${ip.text} . ${number} . ${port}`) ??
              elements.get(`element/seine-host-ports/everywhere${version}/${number} . ${port}`);
            const [led] = ledBy(kept, ip, transport, port);
            expect(found).toBe(led && `${version === 4 ? own4.text : own6.text} . ${led.containerPort}`);
          }
    }),
  );
});

function setUp() {
  const events = { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} };
  const firewall = new FakeTarget<FirewallKey, string>();
  const others = { switch: new FakeTarget(), host: new FakeTarget(), settings: new FakeTarget(), links: new FakeTarget() };
  const nodeState = new NodeState({ bridge: new FakeTarget(neededByFlow), firewall, ...others } as never, events);
  const stop = new AbortController();
  const loopback: boolean[] = [];
  const forgotten: string[] = [];
  const hostPortsOfNode = new HostPorts({
    nodeState,
    environment: () => exampleNode,
    connections: {
      forget: async (_, change) => await Promise.resolve(forgotten.push(change)),
      forgetUntranslated: async () => await Promise.resolve(forgotten.push('untranslated')),
    },
    leftovers: { remove: () => [] },
    loopbackChanged: (uses) => loopback.push(uses),
    log: silentLog,
    signal: stop.signal,
  });
  hostPortsOfNode.want();
  nodeState.reconcilers.firewall.allowRemovals();
  const running = nodeState.reconcilers.firewall.run(stop.signal);
  const close = async () => {
    stop.abort();
    await running;
  };
  return { nodeState, firewall, hostPorts: hostPortsOfNode, loopback, forgotten, close };
}

const owner = ownerOf('pod', 'demo', 'web', 'eth0@c1');
const pod = { network: 'seine', containerId: 'c1', addresses: [{ ip: own4 }, { ip: own6 }], hostPorts: [at()] };
const patience = () => AbortSignal.timeout(10_000);

describe('a pod that was attached by an earlier agent', () => {
  const running = { ...pod, pod: { namespace: 'demo', name: 'web' }, hostPorts: [at('192.0.2.1'), { ...at(), hostPort: 9_090 }] };
  const translated = (wanted: ReturnType<typeof setUp>): readonly string[] =>
    [...wanted.nodeState.firewall.keysOf(owner)]
      .map((key) => key.replace('element/seine-host-ports/', ''))
      .filter((key) => !/^self/.test(key));

  it('loses a host port that is forbidden, keeps one whose port is in use, and both are reported', async () => {
    const set = setUp();
    const reports: (readonly string[])[] = [];
    set.hostPorts.adopt(owner, running);
    set.hostPorts.report((sentences) => reports.push(sentences));
    set.hostPorts.use(({ hostIp }) =>
      hostIp
        ? { ...openHostPort, forbidden: { field: 'hostIP', reason: 'belongs to node-2' } }
        : { ...openHostPort, occupied: { field: 'hostPort', reason: 'is in use: sshd' }, kept: [parseIp('127.0.0.53')] },
    );
    set.hostPorts.compare();
    expect(translated(set).toSorted()).toEqual(['everywhere4/6 . 9090', 'everywhere6/6 . 9090', 'kept4/127.0.0.53 . 6 . 9090']);
    expect(reports).toEqual([
      [],
      [
        "pod demo/web: host port 192.0.2.1:8080/tcp is not served: 192.0.2.1 belongs to node-2; change the pod's hostIP",
        "pod demo/web: host port 9090/tcp hides a process of the node: 9090/tcp is in use: sshd; change the pod's hostPort",
      ],
    ]);
    set.hostPorts.detach(owner, running);
    expect(reports.at(-1)).toEqual([]);
    await set.close();
  });

  it('keeps a host port that waits for its address, and it is reported until the address appears', async () => {
    const set = setUp();
    let isWaiting = true;
    set.hostPorts.use(({ hostIp }) => ({ ...openHostPort, isWaiting: isWaiting && hostIp !== undefined }));
    set.hostPorts.adopt(owner, running);
    expect(translated(set)).toContain('addressed4/192.0.2.1 . 6 . 8080');
    expect(set.hostPorts.problems()).toEqual([
      'pod demo/web: host port 192.0.2.1:8080/tcp waits for its address, which the node does not have',
    ]);
    isWaiting = false;
    set.hostPorts.compare();
    expect(set.hostPorts.problems()).toEqual([]);
    await set.close();
  });
});

it('connections of lost host ports are looked for once nftables is done, however often host ports were compared meanwhile', async () => {
  const set = setUp();
  set.hostPorts.adopt(owner, pod);
  for (let comparison = 0; comparison < 50; comparison++) set.hostPorts.compare();
  expect(set.forgotten).toEqual([]);
  await set.nodeState.reconcilers.firewall.realized(set.nodeState.firewall.revision, patience());
  await vi.waitFor(() => expect(set.forgotten).toEqual(['untranslated']));
  set.hostPorts.compare();
  await vi.waitFor(() => expect(set.forgotten).toEqual(['untranslated', 'untranslated']));
  await set.close();
});

it.each([
  ['at an address of the node', '192.0.2.1', { isOwn: true, isLost: false }, false],
  ['at an address that the node lost', '192.0.2.1', { isOwn: false, isLost: false }, true],
  ['to a port that the pod lost', '192.0.2.1', { isOwn: true, isLost: true }, true],
  ['to the pod itself', '10.10.0.5', { isOwn: false, isLost: false }, false],
])('a connection %s is deleted if it would not be translated now', (_, dst, { isOwn, isLost }, isForgotten) => {
  const client = { text: '198.51.100.9' };
  const tracked = {
    zone: 0,
    original: { src: client, dst: parseIp(dst), srcPort: 5, dstPort: 8_080 },
    reply: { src: own4, dst: client, srcPort: 80, dstPort: 5 },
  };
  const context = { each: at('192.0.2.1'), ip: own4, isOwn: () => isOwn, isLost };
  expect(isUntranslated(tracked as never, context)).toBe(isForgotten);
});

describe('host ports of pods', () => {
  it('are in nftables when the pod is attached, and removed with it; stale connections are deleted both times', async () => {
    const { firewall, hostPorts: node, forgotten, nodeState, loopback, close } = setUp();
    await node.attach(owner, pod, patience());
    expect([...firewall.held.keys()].filter((key) => key.includes('everywhere'))).toHaveLength(2);
    expect(nodeState.firewall.ownersOf('element/seine-host-ports/everywhere4/6 . 8080')).toEqual([owner]);
    expect([forgotten, loopback, node.usesLoopback, node.differences(owner)]).toEqual([['came'], [true], true, []]);
    node.detach(owner, pod);
    await nodeState.reconcilers.firewall.realized(nodeState.firewall.revision, patience());
    await Promise.resolve();
    expect([...firewall.held.keys()]).toEqual(['table/seine-host-ports']);
    expect([forgotten, loopback, node.isClear]).toEqual([['came', 'went'], [true, false], true]);
    await close();
  });

  it('reserve addresses of deleted pods while something is mapped there', async () => {
    const { firewall, hostPorts: node, nodeState, close } = setUp();
    await node.attach(owner, pod, patience());
    firewall.die();
    node.detach(owner, pod);
    expect(node.isClear).toBe(false);
    firewall.revive();
    await nodeState.reconcilers.firewall.realized(nodeState.firewall.revision, patience());
    expect(node.isClear).toBe(true);
    await close();
  });

  it('that are rejected fail the attachment', async () => {
    const { firewall, hostPorts: node, close } = setUp();
    firewall.poison.add('element/seine-host-ports/everywhere4/6 . 8080');
    await expect(node.attach(owner, pod, patience())).rejects.toMatchObject({ code: 'REFUSED' });
    await close();
  });
});

describe('a connection that the kernel tracks is stale', () => {
  const connection = (dst: string, to: string, port = 80) => ({
    family: 'ipv4' as const,
    ipProtocol: 17,
    zone: 0,
    id: 1,
    original: { src: parseIp('192.0.2.9'), dst: parseIp(dst), srcPort: 4_000, dstPort: 8_080 },
    reply: { src: parseIp(to), dst: parseIp('192.0.2.9'), srcPort: port, dstPort: 4_000 },
  });
  const each: HostPort = { transport: 'udp', hostPort: 8_080, containerPort: 80 };
  const isOwn = ({ text }: Ip) => text === '192.0.2.1' || text === '192.0.2.2';
  it.each([
    ['to the node, not translated, after a pod has come', connection('192.0.2.1', '192.0.2.1', 8_080), 'came', each, true],
    ['to another pod, once a pod has come', connection('192.0.2.1', '10.10.0.9'), 'came', each, true],
    ['to the pod, once it has gone', connection('192.0.2.1', '10.10.0.5'), 'went', each, true],
    ['to the pod, but not while it is there', connection('192.0.2.1', '10.10.0.5'), 'came', each, false],
    ['to another pod, but not when this one goes', connection('192.0.2.1', '10.10.0.9'), 'went', each, false],
    ['but not that of somebody else’s address', connection('198.51.100.1', '198.51.100.1', 8_080), 'came', each, false],
    [
      'but not at another address than the host port’s',
      connection('192.0.2.2', '192.0.2.2', 8_080),
      'came',
      { ...each, hostIp: parseIp('192.0.2.1') },
      false,
    ],
  ] as const)('%s', (_, tracked, change, hostPort, wanted) => {
    expect(isStale(tracked, { each: hostPort, ip: own4, change, isOwn })).toBe(wanted);
  });
});
