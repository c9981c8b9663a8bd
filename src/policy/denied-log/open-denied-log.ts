import type { Log } from '../../base/log/log.ts';
import type { Ip } from '../../base/net/ip.ts';
import type { PacketExchange } from '../../dataplane/packet-io/packet-inbox.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { Replica } from '../../kubernetes/client/replica/replica.ts';
import type { Namespace } from '../../kubernetes/resources/namespace.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import type { Pod } from '../../kubernetes/resources/pod.ts';
import type { LiveEnvironment } from '../../nodes/local/live-environment.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';
import type { PodIdentity } from '../../pods/ipam/attachment.ts';
import type { PolicyController } from '../controller/policy-controller.ts';
import { denyingClusterRule } from './denial-cause.ts';
import { DeniedLog } from './denied-log.ts';
import { followDeniedLog } from './follow-denied-log.ts';
import { type LogDenied, LoggedPods } from './logged-pods.ts';

interface DeniedLogSources {
  readonly namespaces: { readonly replica: Replica<Namespace> };
  readonly nodes: { readonly replica: Replica<Node> };
  /** Pods of this node. */
  readonly pods: { readonly replica: Replica<Pod> };
}

interface DeniedLogParts {
  readonly config: { readonly policy: { readonly logDenied: LogDenied } };
  readonly ovs: { readonly packets: Pick<PacketExchange, 'on'>; readonly openflow: Pick<OpenFlowConnection, 'dumpMeterStats'> };
  readonly sources: DeniedLogSources;
  readonly nodeState: Pick<NodeState, 'want' | 'forget'>;
  readonly log: Log;
  /** Called with each line, see `DeniedLog`. */
  readonly written?: ConstructorParameters<typeof DeniedLog>[0]['written'];
}

/** Denied log, and the pods that are in it. */
export interface OpenedDeniedLog {
  readonly log: DeniedLog;
  readonly pods: LoggedPods;
  /** Policy controller wrapped so that the log learns of new and removed attachments. */
  readonly policy: Pick<PolicyController, 'attach' | 'adopt' | 'detach' | 'owners'>;
}

/** Value of the annotation `seine.dev/log` that requests lines; any other value requests none. */
const asked = 'denied';

export function openDeniedLog(
  { config, ovs, sources, nodeState, written, log: agentLog }: DeniedLogParts,
  { live, policy }: { readonly live: LiveEnvironment; readonly policy: PolicyController },
  signal: AbortSignal,
): OpenedDeniedLog {
  const now = (): number => performance.now();
  const pods = new LoggedPods({
    setting: config.policy.logDenied,
    isAnnotated: (pod) => annotationOf(sources, pod) === asked,
    environment: () => live.current,
    nodeState,
    now,
  });
  const log = new DeniedLog({
    packets: ovs.packets,
    pods,
    denialOf: (pod, packet) => {
      const { [packet.direction]: policies = [], why } = policy.pods().get(pod) ?? {};
      if (why !== undefined) return { policies, closed: why };
      const rule = denyingClusterRule(policy.matrix, pod, packet);
      return rule ? { policies: [rule.name.split(' ', 1)[0] ?? ''], rule } : { policies: policies.filter((name) => name.includes('/')) };
    },
    ownerOf: (address) => policy.holderOf(address) ?? nodeWith(sources, address),
    mode: () => live.current.policyMode ?? 'enforce',
    log: agentLog,
    ...(written ? { written } : {}),
    now,
  });
  followDeniedLog({ log, pods, bridge: ovs.openflow }, agentLog, signal);
  const ends = [
    live.subscribe(() => pods.look()),
    sources.namespaces.replica.subscribe(() => pods.look()),
    sources.pods.replica.subscribe(() => pods.look()),
  ];
  signal.addEventListener('abort', () => ends.forEach((end) => void end()), { once: true });
  return { log, pods, policy: followed(policy, pods) };
}

function followed(policy: PolicyController, pods: LoggedPods): OpenedDeniedLog['policy'] {
  return {
    attach: (subject, until) => {
      pods.add(subject);
      return policy.attach(subject, until);
    },
    adopt: (subject) => {
      pods.add(subject);
      policy.adopt(subject);
    },
    // Removed first, so that the revisions of `detach` have no rows of the log either: another pod may get the port after that.
    detach: (owner) => {
      pods.remove(owner);
      return policy.detach(owner);
    },
    owners: () => policy.owners(),
  };
}

function annotationOf({ namespaces, pods }: DeniedLogSources, { namespace, name }: PodIdentity): string | undefined {
  return pods.replica.get(`${namespace}/${name}`)?.log ?? namespaces.replica.get(namespace)?.log;
}

function nodeWith({ nodes }: DeniedLogSources, { text }: Ip): string | undefined {
  for (const [name, { internalIps }] of nodes.replica.entries()) if (internalIps.includes(text)) return `node ${name}`;
  return undefined;
}
