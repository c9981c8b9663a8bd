import { join } from 'node:path';
import { parseConfig } from '../../src/agent/config/agent-config.ts';
import { NodeChanges } from '../../src/agent/node-changes.ts';
import { debouncedRecheck, keepNode, openNodeStack, openNodeState } from '../../src/agent/node-state.ts';
import { openSwitch, type SwitchConnections } from '../../src/agent/switch-connections.ts';
import type { Doorbell } from '../../src/base/async/wake-signal.ts';
import { silentLog } from '../../src/base/log/log.ts';
import { compileSubject } from '../../src/dataplane/compile/compile-entry.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { FrameInjector } from '../../src/dataplane/packet-io/packet-out.ts';
import { ownerOf } from '../../src/dataplane/pipeline/cookie.ts';
import type { NodeState } from '../../src/dataplane/targets/node-state.ts';
import { PortWatch } from '../../src/dataplane/targets/switch/port-watch.ts';
import type { HostLinks } from '../../src/netlink/pod-interfaces/pod-interface.ts';
import type { PortsMount } from '../../src/netlink/pod-interfaces/ports-namespace.ts';
import { open, setns } from '../../src/netlink/sys.ts';
import { Readiness } from '../../src/nodes/local/readiness.ts';
import { HostPorts } from '../../src/pods/host-ports/host-ports.ts';
import type { AttachedPod, AttachmentKey } from '../../src/pods/ipam/attachment.ts';
import { flowCheck } from '../../src/pods/network/flow-check.ts';
import { OfPortPool } from '../../src/pods/network/of-port-pool.ts';
import { pairSettings } from '../../src/pods/network/pod-link.ts';
import { NodePodNetwork } from '../../src/pods/network/pod-network.ts';
import type { PodPolicy } from '../../src/pods/network/pod-network-options.ts';
import { StandingPorts } from '../../src/pods/network/pre-plugged-ports.ts';
import { exampleNode } from './example-node.ts';
import { startSwitch, type TestSwitch } from './open-vswitch.ts';

const CLONE_NEWNET = 0x4000_0000;

/** OVS and the node's stack as the agent connects them. */
export interface TestPlane extends Pick<SwitchConnections, 'database' | 'lock' | 'openflow'> {
  readonly host: HostLinks;
  readonly ports: PortWatch;
  readonly nodeState: NodeState;
  readonly datapathChanged: Doorbell;
}

/** The agent's data plane with its pod network, on a real Open vSwitch, and without a cluster. */
export interface TestNode {
  readonly ovs: TestSwitch;
  readonly plane: TestPlane;
  readonly network: NodePodNetwork;
  readonly standing: StandingPorts;
  /** The namespace of their far ends. */
  readonly farEnds: PortsMount;
  /** The node's properties as seen by the network; may be changed. */
  readonly environment: { mtu: () => number };
  /** Reports of the network about changed attachments. */
  readonly changed: readonly { readonly key: AttachmentKey; readonly attached: AttachedPod }[];
  /** Changes inside pods found by the last check. */
  readonly inside: { readonly sentences: readonly string[] };
  /** Ends when it is closed, or by a bug. */
  readonly running: Promise<void>;
  close(): Promise<void>;
}

/**
 * Moves this thread into a fresh namespace, for good, and runs a node there. Once in a process, and before it has opened its own namespace:
 * vitest gives each test file a process.
 *
 * @param more of the configuration, as YAML in a flow mapping: `, key: value`
 */
export async function becomeNode(more = ''): Promise<TestNode> {
  const ovs = startSwitch();
  const namespace = open(join('/run/netns', ovs.netns), 0, 'namespace of the test');
  setns(namespace.number, CLONE_NEWNET);
  namespace.close();
  const stop = new AbortController();
  const config = parseConfig(`{nodeName: test, ovsRunDir: ${ovs.runDir}, ovsDatapathType: netdev${more}}`, {});
  const events = { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} };
  const inside: { sentences: readonly string[] } = { sentences: [] };
  const podsChecked = (sentences: readonly string[]): void => void (inside.sentences = sentences);
  const readiness = new Readiness();
  const changes = new NodeChanges();
  const stack = openNodeStack(config);
  const connections = openSwitch(
    {
      config,
      readiness,
      log: silentLog,
      databaseSynced: () => nodeState.reconcilers.switch.invalidate(),
      bridgeUp: () => {
        nodeState.reconcilers.bridge.invalidate();
        nodeState.reconcilers.settings.recheck(); // the options of its taps depend on its version
        changes.datapath.ring();
      },
      bridgeChanged: debouncedRecheck(() => nodeState.reconcilers.bridge, stop.signal),
      learned: { covers: (flow) => nodeState.learned.covers(flow) },
    },
    stop.signal,
  );
  const opened: ReturnType<typeof openNodeState> = openNodeState(config, connections, stack, { events, podsChecked, log: silentLog });
  const { nodeState, links } = opened;
  const ports = new PortWatch(connections.database, stop.signal);
  const plane: TestPlane = { ...connections, host: stack.links, ports, nodeState, datapathChanged: changes.datapath };
  const running = keepNode({ gateway: config.hostGateway, ovs: connections, stack, nodeState, changes }, stop.signal);
  await plane.lock.take(AbortSignal.timeout(10_000));
  const { name, ofPort, mac, mtu } = exampleNode.gateway;
  plane.nodeState.wantBridge(ownerOf('node'), { name: config.ovsBridge, datapathType: 'netdev', tableNames: new Map() }, [
    { name, type: 'internal', ofPort, options: {}, externalIds: {}, mac, mtu },
  ]);
  plane.nodeState.allowRemovals();
  await plane.ports.whenPlugged(name, ofPort, AbortSignal.timeout(10_000));
  await plane.openflow.untilUp(AbortSignal.timeout(10_000));
  const environment = { mtu: (): number => mtu };
  const changed: { key: AttachmentKey; attached: AttachedPod }[] = [];
  const hostPorts = new HostPorts({
    nodeState,
    environment: () => exampleNode,
    connections: { forget: async () => await Promise.resolve(0), forgetUntranslated: async () => await Promise.resolve(0) },
    leftovers: { remove: () => [] },
    loopbackChanged: () => {},
    log: silentLog,
    signal: stop.signal,
  });
  hostPorts.want();
  const ofPorts = new OfPortPool();
  const shared = { nodeState: plane.nodeState, ports: plane.ports, links, ofPorts, shutdown: stop.signal, log: silentLog };
  const pair = () => pairSettings({ ...config, mtu: environment.mtu() });
  const standing = new StandingPorts({ ...shared, kind: config.podInterface, mount: stack.ports, needsVeth: () => false, pair });
  const network = new NodePodNetwork({
    ofPorts,
    standing,
    nodeState: plane.nodeState,
    ports: plane.ports,
    links,
    socket: plane.host.socket,
    readiness,
    flowCheck: flowCheck(plane.nodeState, plane.openflow),
    policy: allFree(nodeState),
    hostPorts,
    datapathType: 'netdev',
    mtu: () => environment.mtu(),
    frames: new FrameInjector(plane, stop.signal),
    changed: (key, attached) => changed.push({ key, attached }),
    shutdown: stop.signal,
    log: silentLog,
  });
  network.orphansRemoved();
  void standing.run(stop.signal);
  const close = async (): Promise<void> => {
    stop.abort();
    await Promise.allSettled([running]);
    await ovs.stop();
  };
  return { ovs, plane, network, standing, farEnds: stack.ports, environment, changed, inside, running, close };
}

/** Policies of a cluster without any. */
function allFree(nodeState: NodeState): PodPolicy {
  const want = ({ owner, ofPort, addresses }: Parameters<PodPolicy['adopt']>[0]) =>
    nodeState.want(owner, { ...nothing, flows: compileSubject({ ofPort, addresses }) });
  return {
    attach: (subject, signal) => nodeState.realized(want(subject), signal),
    adopt: (subject) => void want(subject),
    detach: (owner) => nodeState.forget(owner),
  };
}
