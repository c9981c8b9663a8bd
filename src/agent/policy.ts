import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';
import { join } from 'node:path';
import { StateFile } from '../base/files/state-file.ts';
import type { Log } from '../base/log/log.ts';
import { familiesOf } from '../dataplane/compile/environment.ts';
import { bridgeBefore } from '../dataplane/targets/bridge/previous-bridge.ts';
import { recoveredFlows } from '../dataplane/targets/bridge/recovered-flows.ts';
import type { NodeState } from '../dataplane/targets/node-state.ts';
import type { LiveEnvironment } from '../nodes/local/live-environment.ts';
import type { PeerPodNetworks } from '../nodes/peers/peer-pod-networks.ts';
import type { NodePods } from '../pods/network/node-pods.ts';
import { type BridgeBefore, PolicyController } from '../policy/controller/policy-controller.ts';
import { PolicyProgramming } from '../policy/controller/policy-programming.ts';
import { Suspensions } from '../policy/controller/suspensions.ts';
import { PolicyFlows } from '../policy/flows/policy-flows.ts';
import { policyTables } from '../policy/flows/rows.ts';
import type { AgentConfig } from './config/agent-config.ts';
import { isKnown, type KubeSources, whenListsTried } from './kube-sources.ts';

/**
 * Maximum time that a start on a bridge with policy waits for lists, so that policies and the objects that they refer to are of one moment
 * (ms).
 */
const LISTS_PATIENCE_MS = 2_000;

interface PolicyParts {
  readonly config: AgentConfig;
  readonly sources: KubeSources;
  readonly nodeNetworks: PeerPodNetworks;
  readonly pods: NodePods;
  readonly nodeState: NodeState;
  readonly suspensions: Suspensions;
  readonly observe?:
    | ((name: 'policy_programming_duration_seconds', labels: Readonly<Record<string, string>>, seconds: number) => void)
    | undefined;
  readonly log: Log;
}

/** Policy as the API server and the bridge have it: numbers that an earlier agent allocated stay valid. */
export async function openPolicy(
  { config, sources, nodeNetworks, pods, nodeState, suspensions, observe, log }: PolicyParts,
  live: LiveEnvironment,
  signal: AbortSignal,
): Promise<PolicyController> {
  const { bridge } = nodeState.reconcilers;
  await bridge.realized(nodeState.bridge.revision, signal);
  const held = bridge.actual() ?? new Map();
  const { nodes, namespaces, networkPolicies, clusterNetworkPolicies, policyPods, pods: own, turns } = sources;
  const before: BridgeBefore = bridgeBefore(held);
  // The rules that the bridge enforces are better than those of an incomplete set of sources.
  const policies = [namespaces, networkPolicies, clusterNetworkPolicies];
  const rules = before === 'with policy' ? [...policies, nodes, policyPods, own] : policies;
  if (before === 'with policy') await whenListsTried(rules, LISTS_PATIENCE_MS, signal);
  const enforcement = new PolicyController({
    nodeName: config.nodeName,
    sources: {
      nodes: nodes.replica,
      namespaces: namespaces.replica,
      policies: networkPolicies.replica,
      clusterPolicies: clusterNetworkPolicies.replica,
      pods: policyPods.replica,
    },
    nodeNetworks,
    rulesKnown: () => rules.every(isKnown),
    areAddressesKnown: () => [nodes, policyPods, own].every(({ status }) => status.state === 'in step'),
    factsOf: (pod) => pods.known(pod),
    flows: new PolicyFlows({ families: familiesOf(live.current), recovered: recoveredFlows(held, policyTables) }),
    nodeState,
    suspensions,
    whenUnknown: config.policy.whenUnknown,
    unknownPeers: config.policy.unknownPeers,
    serviceOpenings: config.policy.serviceOpenings,
    mode: () => live.current.policyMode ?? 'enforce',
    bridgeBefore: before,
    programming: programmingTimes({ nodeState, observe }, signal),
    turns,
    log,
    signal,
  });
  follow({ nodeNetworks, own: own.replica, enforcement, live, suspensions }, signal);
  return enforcement;
}

function programmingTimes({ nodeState, observe }: Pick<PolicyParts, 'nodeState' | 'observe'>, signal: AbortSignal): PolicyProgramming {
  return new PolicyProgramming({
    bridge: {
      revision: () => nodeState.bridge.revision,
      realized: (revision) => nodeState.reconcilers.bridge.realized(revision, signal),
    },
    observe: (seconds) => observe?.('policy_programming_duration_seconds', {}, seconds),
    now: () => performance.now(),
  });
}

interface PolicyChangeSources extends Pick<PolicyParts, 'nodeNetworks' | 'suspensions'> {
  readonly own: PolicyParts['sources']['pods']['replica'];
  readonly enforcement: PolicyController;
  readonly live: LiveEnvironment;
}

/** Subscribes to everything that changes the policies of this node's pods. */
function follow({ nodeNetworks, own, enforcement, live, suspensions }: PolicyChangeSources, signal: AbortSignal): void {
  const unsubscribers = [
    // Before the nodes are followed: parts of a node are compared by then.
    nodeNetworks.follow(),
    own.subscribe((keys) => enforcement.podsChanged(keys)),
    enforcement.follow(),
    live.subscribe((now, was) => now.policyMode !== was.policyMode && enforcement.modeChanged()),
    suspensions.subscribe(() => enforcement.suspensionsChanged()),
    suspensions.follow(),
  ];
  signal.addEventListener('abort', () => unsubscribers.forEach((end) => void end()), { once: true });
}

/** A hundred of them take a tenth of this. */
const BYTES_MAX = 1024 * 1024;

/** Suspended policies, as an earlier agent left them. Times are compared with the wall clock and with the time since the host booted. */
export function openSuspensions(
  { stateDir }: Pick<AgentConfig, 'stateDir'>,
  postEvent: ConstructorParameters<typeof Suspensions>[0]['postEvent'],
  log: Log,
): Suspensions {
  return new Suspensions({
    file: new StateFile(join(stateDir, 'suspensions.json'), BYTES_MAX),
    clock: {
      wallMs: () => Date.now(),
      bootMs: () => Math.round(uptime() * 1_000),
      bootId: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(),
    },
    postEvent,
    log,
  });
}
