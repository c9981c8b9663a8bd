import { join } from 'node:path';
import { parseConfig } from '../../src/agent/config.ts';
import { type DataPlane, injectFrames, openDataPlane, runDataPlane } from '../../src/agent/data-plane.ts';
import { flowCheck } from '../../src/agent/flow-check.ts';
import { NodePodNetwork } from '../../src/agent/pod-network.ts';
import { Readiness } from '../../src/agent/readiness.ts';
import { silentLog } from '../../src/log/log.ts';
import { open, setns } from '../../src/netlink/sys.ts';
import { ownerOf } from '../../src/pipeline/cookie.ts';
import { exampleNode } from './example-node.ts';
import { startSwitch, type TestSwitch } from './open-vswitch.ts';

const CLONE_NEWNET = 0x4000_0000;

/** The agent's data plane with its pod network, on a real Open vSwitch, and without a cluster. */
export interface TestNode {
  readonly ovs: TestSwitch;
  readonly plane: DataPlane;
  readonly network: NodePodNetwork;
  /** What the network is told of the node; may be changed. */
  readonly environment: { mtu: () => number };
  /** Ends when it is closed, or by a bug. */
  readonly running: Promise<void>;
  close(): Promise<void>;
}

/**
 * Moves this thread into a fresh namespace, for good, and runs a node there. Once in a process, and before it has looked at its
 * own namespace: vitest gives each test file a process.
 */
export async function becomeNode(): Promise<TestNode> {
  const ovs = startSwitch();
  const namespace = open(join('/run/netns', ovs.netns), 0, 'namespace of the test');
  setns(namespace.number, CLONE_NEWNET);
  namespace.close();
  const stop = new AbortController();
  const config = parseConfig(`{nodeName: test, ovsRunDir: ${ovs.runDir}, ovsDatapathType: netdev}`, {});
  const events = { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} };
  const readiness = new Readiness();
  const plane = openDataPlane({ config, hooks: { events }, readiness, log: silentLog }, stop.signal);
  const running = runDataPlane(plane, config.hostGateway, stop.signal);
  await plane.lock.take(AbortSignal.timeout(10_000));
  const { name, ofPort, mac, mtu } = exampleNode.gateway;
  plane.datapath.wantBridge(ownerOf('node'), { name: config.ovsBridge, datapathType: 'netdev', tableNames: new Map(), externalIds: {} }, [
    { name, type: 'internal', ofPort, options: {}, externalIds: {}, mac, mtu },
  ]);
  plane.datapath.allowRemovals();
  await plane.ports.whenPlugged(name, ofPort, AbortSignal.timeout(10_000));
  await plane.openflow.untilUp(AbortSignal.timeout(10_000));
  const environment = { mtu: (): number => mtu };
  const network = new NodePodNetwork({
    datapath: plane.datapath,
    ports: plane.ports,
    host: plane.host,
    readiness,
    flowCheck: flowCheck(plane.datapath, plane.openflow),
    datapathType: 'netdev',
    mtu: () => environment.mtu(),
    announce: (port, frames) => injectFrames(plane, port, frames, stop.signal),
    life: stop.signal,
    log: silentLog,
  });
  network.leftOversGone();
  const close = async (): Promise<void> => {
    stop.abort();
    await Promise.allSettled([running]);
    await ovs.stop();
  };
  return { ovs, plane, network, environment, running, close };
}
