import { afterAll, afterEach, expect, it } from 'vitest';
import { parseConfig } from '../../src/agent/config/agent-config.ts';
import { silentLog } from '../../src/base/log/log.ts';
import { type Cidr, parseCidr, parseIp } from '../../src/base/net/ip.ts';
import type { NodeEnvironment } from '../../src/dataplane/compile/environment.ts';
import { NodeState } from '../../src/dataplane/targets/node-state.ts';
import { fakeTargets } from '../../src/dataplane/targets/testing/fake-targets.ts';
import { ReplicaStore } from '../../src/kubernetes/client/replica/replica.ts';
import type { Node } from '../../src/kubernetes/resources/node.ts';
import { peersFromNodes } from '../../src/kubernetes/resources/peer-source.ts';
import type { Service } from '../../src/kubernetes/resources/service.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { noSigns } from '../../src/services/controller/kube-proxy.ts';
import { NodeProxy } from '../../src/services/controller/node-proxy.ts';
import { ProxyMode } from '../../src/services/controller/proxy-mode.ts';
import { exampleNode } from '../support/example-node.ts';
import { filledService } from '../support/scene-service.ts';

/** Effect of a change of the node on Services, with a real node's addresses. */
let stop = new AbortController();
const routeSocket = NetlinkSocket.open();
afterEach(() => {
  stop.abort();
  stop = new AbortController();
});
afterAll(() => routeSocket.close());

function setUp() {
  const events = { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} };
  const nodes = new ReplicaStore<Node>();
  const config = { ...parseConfig('', {}), nodeName: 'n1' };
  let environment: NodeEnvironment = exampleNode;
  const changed: (() => void)[] = [];
  const holders: ((networks: readonly Cidr[]) => void)[] = [];
  const proxy = new NodeProxy(
    {
      config,
      sources: {
        nodes,
        peers: peersFromNodes(nodes, 'n1'),
        apiServer: '192.0.2.1',
        apiServerPort: 6443,
      },
      node: {
        state: new NodeState(fakeTargets(), events),
        routeSocket,
        environment: {
          get current() {
            return environment;
          },
          subscribe: (call) => void changed.push(call),
        },
      },
      holders: {
        subscribe: (call) => {
          holders.push(call);
          return () => undefined;
        },
      },
      mode: new ProxyMode({ config: config.proxy, look: () => noSigns, log: silentLog }),
    },
    stop.signal,
  );
  const become = (next: NodeEnvironment): void => {
    environment = next;
    for (const call of changed) call();
  };
  const notify = (network: string): void => {
    for (const call of holders) call([parseCidr(network)]);
  };
  return { proxy, become, nodes, notify };
}

it('compares Services with source ranges again when the gateway has other addresses: they admit the node by those', () => {
  const { proxy, become } = setUp();
  const concerned: ((service: Service) => boolean)[] = [];
  proxy.follow((which = () => true) => concerned.push(which));
  concerned.length = 0;
  become({ ...exampleNode, gateway: { ...exampleNode.gateway, mtu: 1400 } });
  expect(concerned).toEqual([]);
  become({
    ...exampleNode,
    podCidrs: [parseCidr('10.20.0.0/24')],
    gateway: { ...exampleNode.gateway, addresses: [parseIp('10.20.0.1'), parseIp('10.10.0.1')] },
  });
  const plain = filledService({ name: 'plain', clusterIps: ['10.96.0.1'], ports: [] });
  const ranged = { ...plain, name: 'ranged', loadBalancerSourceRanges: ['203.0.113.0/24'] };
  expect(concerned.map((which) => [plain, ranged].filter(which).map(({ name }) => name))).toEqual([['ranged']]);
  expect(proxy.proxying.node.gateway.map(({ text }) => text)).toEqual(['10.20.0.1', '10.10.0.1']);
});

it.each([
  ['192.0.2.7', '192.0.2.0/24'],
  ['2001:db8::7', '2001:db8::/64'],
])(
  'compares the Services that use %s again when it becomes the address of a node, when it no longer is, and when its owner changes',
  async (ip, network) => {
    const { proxy, nodes, notify } = setUp();
    const concerned: ((service: Service) => boolean)[] = [];
    proxy.follow((which = () => true) => concerned.push(which));
    const plain = filledService({ name: 'plain', clusterIps: ['10.96.0.1'], ports: [] });
    const external = { ...plain, name: 'external', externalIps: [ip] };
    const cluster = { ...plain, name: 'cluster', clusterIps: [ip] };
    const seen = () => concerned.splice(0).flatMap((which) => [plain, external, cluster].filter(which).map(({ name }) => name));
    const node: Node = { name: 'n2', uid: 'n2', podCidrs: [], internalIps: [ip], deleting: false };
    nodes.put('n2', '1', node);
    nodes.flush();
    await expect.poll(seen).toEqual(['external', 'cluster']);
    expect(proxy.host.isNodeAddress(parseIp(ip))).toBe(true);
    nodes.remove('n2', '2');
    nodes.flush();
    await expect.poll(seen, { timeout: 3_000 }).toEqual(['external', 'cluster']);
    expect(proxy.host.isNodeAddress(parseIp(ip))).toBe(false);
    notify(network);
    await expect.poll(seen, { timeout: 3_000 }).toEqual(['external', 'cluster']);
  },
);
