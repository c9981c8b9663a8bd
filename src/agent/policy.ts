import type { NodePods } from '../attach/node-pods.ts';
import { familiesOf } from '../connectivity/environment.ts';
import { type BridgeBefore, Enforcement } from '../enforce/enforcement.ts';
import type { Log } from '../log/log.ts';
import type { LiveEnvironment } from '../node/live-environment.ts';
import { PolicyFlows } from '../policy-flows/policy-flows.ts';
import { bridgeBefore } from '../reconcile/bridge-before.ts';
import type { NodeState } from '../reconcile/node-state.ts';
import { recoveredFlows } from '../reconcile/recovered-flows.ts';
import type { AgentConfig } from './config.ts';
import { isKnown, type KubeSources } from './kube-sources.ts';

interface PolicyParts {
  readonly config: AgentConfig;
  readonly sources: KubeSources;
  readonly pods: NodePods;
  readonly nodeState: NodeState;
  readonly log: Log;
}

/** Policy as the API server and the bridge have it: numbers that an earlier agent lent go on being valid. */
export async function openPolicy(
  { config, sources, pods, nodeState, log }: PolicyParts,
  live: LiveEnvironment,
  signal: AbortSignal,
): Promise<Enforcement> {
  const { bridge } = nodeState.reconcilers;
  await bridge.realized(nodeState.bridge.revision, signal);
  const held = bridge.actual() ?? new Map();
  const { nodes, namespaces, networkPolicies, policyPods, pods: own, turns } = sources;
  const before: BridgeBefore = bridgeBefore(held);
  const enforcement = new Enforcement({
    nodeName: config.nodeName,
    sources: { nodes: nodes.replica, namespaces: namespaces.replica, policies: networkPolicies.replica, pods: policyPods.replica },
    rulesKnown: () => [namespaces, networkPolicies].every(isKnown),
    factsOf: (pod) => pods.known(pod),
    flows: new PolicyFlows({ families: familiesOf(live.current), recovered: recoveredFlows(held) }),
    nodeState,
    whenUnknown: config.policy.whenUnknown,
    mode: () => live.current.policyMode ?? 'enforce',
    bridgeBefore: before,
    turns,
    log,
    signal,
  });
  const endOwn = own.replica.subscribe((keys) => enforcement.podsChanged(keys));
  const end = enforcement.follow();
  const endMode = live.subscribe((now, was) => now.policyMode !== was.policyMode && enforcement.modeChanged());
  signal.addEventListener(
    'abort',
    () => {
      endOwn();
      endMode();
      end();
    },
    { once: true },
  );
  return enforcement;
}
