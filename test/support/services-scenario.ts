import { LoopTurns } from '../../src/base/async/loop-turns.ts';
import { silentLog } from '../../src/base/log/log.ts';
import type { Owner } from '../../src/dataplane/pipeline/cookie.ts';
import { FakeTarget } from '../../src/dataplane/reconcile/testing/fake-target.ts';
import { neededByFlow } from '../../src/dataplane/targets/bridge/bridge-entry.ts';
import { NodeState } from '../../src/dataplane/targets/node-state.ts';
import { ReplicaStore } from '../../src/kubernetes/client/replica/replica.ts';
import type { EndpointSlice } from '../../src/kubernetes/resources/endpoint-slice.ts';
import type { Service } from '../../src/kubernetes/resources/service.ts';
import type { ProxyConfig, ProxyNode } from '../../src/services/compile/proxy-config.ts';
import { ProgrammingTimes } from '../../src/services/controller/effects/programming-times.ts';
import type { ServiceChange } from '../../src/services/controller/service-changes.ts';
import type { ServiceHost } from '../../src/services/controller/service-host.ts';
import { Services } from '../../src/services/controller/services.ts';

interface ScenarioOptions {
  readonly turns?: LoopTurns;
  readonly config?: Partial<ProxyConfig>;
  /** Entries of the node's own stack; none if omitted. */
  readonly host?: Pick<ServiceHost, 'routes' | 'elements'>;
}

/** Services of a node with replicas that the test fills, and targets in memory. */
export function servicesScenario({ turns = new LoopTurns(8), config: change = {}, host }: ScenarioOptions = {}) {
  const services = new ReplicaStore<Service>();
  const slices = new ReplicaStore<EndpointSlice>();
  const events = { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} };
  const datapath = new NodeState(
    {
      bridge: new FakeTarget(neededByFlow),
      switch: new FakeTarget(),
      host: new FakeTarget(),
      firewall: new FakeTarget(),
      settings: new FakeTarget(),
      links: new FakeTarget(),
      wireguard: new FakeTarget(),
    },
    events,
  );
  const wantedByOwner: Owner[] = [];
  const want = datapath.want.bind(datapath);
  datapath.want = (owner, wanted) => {
    wantedByOwner.push(owner);
    return want(owner, wanted);
  };
  const wantPlace = datapath.wantEndpoint.bind(datapath);
  datapath.wantEndpoint = (owner, ...args) => {
    wantedByOwner.push(owner);
    return wantPlace(owner, ...args);
  };
  const changes: ServiceChange[] = [];
  const served = new Services({
    sources: { services, slices, turns },
    nodeState: datapath,
    node: {
      proxying: { node, config: { ...config, ...change } },
      host: {
        ...(host ?? { routes: () => [], elements: () => new Map() }),
        isOwn: () => false,
        isNodeAddress: ({ text }) => text === '192.0.2.1',
        portHolder: () => undefined,
      },
    },
    holders: { holderOf: ({ text }) => (text === '10.97.7.7' || text === '192.0.2.1' ? 'pods of node n2' : undefined) },
    times: new ProgrammingTimes({ observe: () => undefined }),
    log: silentLog,
    signal: new AbortController().signal,
  });
  served.subscribe({ changed: (change) => changes.push(change) });
  const follow = async (): Promise<void> => {
    served.follow();
    await served.settled();
  };
  /** Announces the additions to the replicas, and waits until they are processed. */
  const flush = async (): Promise<void> => {
    services.flush();
    slices.flush();
    await served.settled();
  };
  return { services, slices, datapath, wishes: wantedByOwner, changes, served, follow, flush };
}

const node: ProxyNode = { name: 'n1', families: ['ipv4'], sctp: false, addresses: [], gateway: [] };
const config: ProxyConfig = {
  proxyAll: true,
  skipServices: new Set(),
  proxyLoadBalancerIps: true,
  serviceProxyName: '',
  externalIpRanges: [],
  bucketTranslation: false,
};
