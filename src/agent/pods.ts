import { readFileSync } from 'node:fs';
import type { LoopTurns } from '../base/async/loop-turns.ts';
import type { Doorbell } from '../base/async/wake-signal.ts';
import type { Log } from '../base/log/log.ts';
import { FrameInjector } from '../dataplane/packet-io/packet-out.ts';
import type { LinksTarget } from '../dataplane/targets/links/links-target.ts';
import type { NodeState } from '../dataplane/targets/node-state.ts';
import type { PortWatch } from '../dataplane/targets/switch/port-watch.ts';
import { unplugPort } from '../dataplane/targets/switch/replug-port.ts';
import { getLink } from '../netlink/links.ts';
import { peerCredentials } from '../netlink/sockets/unix-peer.ts';
import { repairGateway } from '../nodes/local/gateway-repair.ts';
import type { LiveEnvironment } from '../nodes/local/live-environment.ts';
import { podPoolsOf, wantSwitch } from '../nodes/local/node-desired-state.ts';
import type { Readiness } from '../nodes/local/readiness.ts';
import { retryWhileHeld } from '../nodes/local/retry-while-locked.ts';
import { CniServer, type CniServerOptions } from '../pods/cni-server/server.ts';
import { HostPortConnections } from '../pods/host-ports/host-port-connections.ts';
import { isHostPort } from '../pods/host-ports/host-port-firewall.ts';
import { HostPorts } from '../pods/host-ports/host-ports.ts';
import { PluginLeftovers } from '../pods/host-ports/plugin-leftovers.ts';
import { takeInventory } from '../pods/inventory/inventory.ts';
import type { PodIdentity } from '../pods/ipam/attachment.ts';
import { Ipam } from '../pods/ipam/ipam.ts';
import { FileJournalStore, journalIn } from '../pods/ipam/journal-store.ts';
import { flowCheck } from '../pods/network/flow-check.ts';
import type { NodePods } from '../pods/network/node-pods.ts';
import { OfPortPool } from '../pods/network/of-port-pool.ts';
import { pairSettings } from '../pods/network/pod-link.ts';
import { NodePodNetwork } from '../pods/network/pod-network.ts';
import type { PodNetworkOptions } from '../pods/network/pod-network-options.ts';
import { StandingPorts } from '../pods/network/pre-plugged-ports.ts';
import type { OpenedDeniedLog } from '../policy/denied-log/open-denied-log.ts';
import type { AgentConfig } from './config/agent-config.ts';
import type { NodeStack } from './node-state.ts';
import type { SwitchConnections } from './switch-connections.ts';

/** Parts that are needed to attach pods. */
export interface PodParts {
  readonly config: AgentConfig;
  readonly ovs: SwitchConnections;
  readonly stack: NodeStack;
  readonly nodeState: NodeState;
  readonly ports: PortWatch;
  readonly links: LinksTarget;
  readonly pods: NodePods;
  readonly policy: OpenedDeniedLog['policy'];
  readonly live: LiveEnvironment;
  readonly readiness: Readiness;
  readonly log: Log;
}

/** Pods of this node, and their addresses. */
export interface AttachedPods {
  readonly ipam: Ipam;
  readonly network: NodePodNetwork;
  readonly hostPorts: HostPorts;
  readonly standing: StandingPorts;
}

export interface PodHooks {
  readonly onPodStage?: NonNullable<PodNetworkOptions['onStage']>;
  readonly onCall?: CniServerOptions['onCall'];
}

/** Effects of pods on the node. */
interface PodEffects {
  /** Called when host ports at the node's loopback are enabled or disabled. */
  readonly loopbackChanged: (usesLoopback: boolean) => void;
}

/** Reads the inventory of pods. Incomplete work of earlier calls is being removed when this resolves. */
export async function openPods(
  parts: PodParts,
  { onPodStage, loopbackChanged }: PodHooks & PodEffects,
  signal: AbortSignal,
): Promise<AttachedPods> {
  const { config, live, ovs, stack, nodeState, links, log } = parts;
  let network: NodePodNetwork | undefined;
  const pools = podPoolsOf(live.current);
  const openIpam = () =>
    Ipam.open({
      store: new FileJournalStore(journalIn(config.stateDir)),
      pools,
      bootId: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(),
      isAbsent: async (lease) => network?.isAbsent(lease) ?? false,
      isClaimedByApi: (lease) => parts.pods.isClaimedByApi(lease),
      log,
    });
  const ipam = await retryWhileHeld(openIpam, parts.readiness, log, signal);
  const hostPorts = openHostPorts(parts, { loopbackChanged }, signal);
  const ofPorts = new OfPortPool();
  const standing = openStandingPorts(parts, ofPorts, signal);
  const opened = new NodePodNetwork({ ...networkOptions(parts, { ipam, hostPorts }, onPodStage, signal), ofPorts, standing });
  network = opened;
  const inventory = await takeInventory({
    ipam,
    pools,
    database: ovs.database,
    host: stack.links,
    farEnds: stack.ports,
    standing,
    network,
    log,
  });
  log.info('pods of this node', { ...inventory });
  // Remains of an interrupted ADD or DEL must be removed before its numbers and names are used again.
  nodeState.allowPodRemovals(parts.policy.owners());
  nodeState.reconcilers.firewall.allowRemovals(isHostPort);
  await Promise.all([nodeState.reconcilers.switch.confirmed(signal), nodeState.reconcilers.links.confirmed(signal)]);
  await links.idle();
  nodeState.reconcilers.bridge.roundMade(signal).then(
    () => opened.orphansRemoved(),
    () => undefined, // the agent stops
  );
  return { ipam, network, hostPorts, standing };
}

function openHostPorts({ live, stack, nodeState, log }: PodParts, { loopbackChanged }: PodEffects, signal: AbortSignal): HostPorts {
  const connections = new HostPortConnections(stack.links.socket);
  signal.addEventListener('abort', () => void connections.close(), { once: true });
  const environment = () => live.current;
  const leftovers = new PluginLeftovers({ socket: stack.links.socket });
  const opened: HostPorts = new HostPorts({ nodeState, environment, connections, leftovers, loopbackChanged, log, signal });
  opened.want();
  return opened;
}

function openStandingPorts(
  { config, live, stack, nodeState, ports, links, pods, log }: PodParts,
  ofPorts: OfPortPool,
  shutdown: AbortSignal,
): StandingPorts {
  const pair = () => pairSettings({ ...config, mtu: live.current.gateway.mtu });
  const needsVeth = (pod: PodIdentity | undefined): boolean => pod !== undefined && pods.known(pod)?.bandwidth === true;
  const shared = { nodeState, ports, links, ofPorts, shutdown, log };
  return new StandingPorts({ ...shared, kind: config.podInterface, mount: stack.ports, needsVeth, pair });
}

function networkOptions(
  { config, live, ovs, stack, nodeState, links, ports, policy, readiness, log }: PodParts,
  { ipam, hostPorts }: Pick<AttachedPods, 'ipam' | 'hostPorts'>,
  onStage: PodHooks['onPodStage'],
  signal: AbortSignal,
): Omit<PodNetworkOptions, 'ofPorts' | 'standing'> {
  return {
    nodeState,
    ports,
    links,
    socket: stack.links.socket,
    readiness,
    flowCheck: flowCheck(nodeState, ovs.openflow),
    policy,
    hostPorts,
    datapathType: config.ovsDatapathType,
    disableTxChecksumOffload: config.disableTXChecksumOffload,
    mtu: () => live.current.gateway.mtu,
    frames: new FrameInjector(ovs, signal),
    changed: (key, attached) => {
      if (ipam.leaseOf(key)?.attached) ipam.confirm(key, attached);
    },
    shutdown: signal,
    ...(onStage ? { onStage } : {}),
    log,
  };
}

/** Answers the CNI plugin. Another agent that is ending may still have the socket. */
export async function serveCni(
  { config, pods, readiness, log }: PodParts,
  {
    ipam,
    network,
    standing,
    turns,
    onCall,
    hostPortCheck,
  }: Omit<AttachedPods, 'hostPorts'> & Pick<CniServerOptions, 'onCall' | 'hostPortCheck'> & { readonly turns: LoopTurns },
  signal: AbortSignal,
): Promise<CniServer> {
  const { cniSocket: socketPath, stateDir, status } = config;
  const pinPorts = () => standing.wantsNamespace;
  const options = {
    socketPath,
    stateDir,
    ipam,
    network,
    pods,
    peerCredentials,
    turns,
    pinPorts,
    ...status,
    log,
    ...(onCall ? { onCall } : {}),
    ...(hostPortCheck ? { hostPortCheck } : {}),
  };
  return await retryWhileHeld(() => CniServer.start(options), readiness, log, signal);
}

/** Recreates the gateway's interface whenever it was deleted, until the signal is aborted. */
export async function keepGateway(
  { config, live, ovs, stack, nodeState, ports, log }: PodParts,
  gone: Doorbell,
  signal: AbortSignal,
): Promise<void> {
  const name = config.hostGateway;
  const gateway = {
    name,
    exists: () => getLink(stack.links.socket, name) !== undefined,
    isSwitchUp: () => ovs.openflow.isUp,
    ports,
    wantPorts: (without?: string) => wantSwitch(config, nodeState, live.current, without),
    realized: (revision: number, until: AbortSignal) => nodeState.reconcilers.switch.realized(revision, until),
    unplug: (port: string, until: AbortSignal) =>
      unplugPort({ database: ovs.database, bridge: config.ovsBridge, lock: ovs.lock.name }, port, until),
    log,
  };
  await repairGateway(gateway, gone, signal);
}
