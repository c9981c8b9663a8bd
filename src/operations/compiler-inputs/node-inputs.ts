import type { SubjectIntent } from '../../dataplane/compile/compile-entry.ts';
import type { PeerIntent } from '../../dataplane/compile/compile-peer.ts';
import type { PodIntent } from '../../dataplane/compile/compile-pod.ts';
import type { NodeEnvironment } from '../../dataplane/compile/environment.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { BridgeKey } from '../../dataplane/targets/bridge/bridge-entry.ts';
import type { ProxyNode } from '../../services/compile/proxy-config.ts';
import type { ServiceIntent } from '../../services/compile/service-intent.ts';

/** One port of a Service in one family, with its allocated group numbers, by the groups' names within the port. */
export interface ServiceInput {
  readonly owner: Owner;
  readonly intent: ServiceIntent;
  readonly groups: ReadonlyMap<string, number>;
}

export interface PodInput {
  readonly owner: Owner;
  readonly intent: PodIntent;
}

/** Classes and identities of an attachment in policies. */
export interface SubjectInput {
  readonly owner: Owner;
  readonly intent: SubjectIntent;
}

/** Inputs that are the same for every compiler. */
export interface CommonInputs {
  readonly environment: NodeEnvironment;
  /** Properties of the node that affect the compilation of a Service. */
  readonly proxy: Pick<ProxyNode, 'addresses' | 'gateway'>;
}

/** Entry with different values of several owners, and the owner whose value applies: the latest. */
export interface Dispute {
  readonly key: BridgeKey;
  readonly owner: Owner;
}

/** Inputs of all compilers of a node's bridge: its flows and groups are a function of these alone. */
export interface NodeInputs extends CommonInputs {
  readonly peers: readonly PeerIntent[];
  readonly pods: readonly PodInput[];
  readonly subjects: readonly SubjectInput[];
  readonly services: readonly ServiceInput[];
  readonly disputes: readonly Dispute[];
}
