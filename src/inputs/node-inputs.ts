import type { PeerIntent } from '../connectivity/compile-peer.ts';
import type { PodIntent } from '../connectivity/compile-pod.ts';
import type { NodeEnvironment } from '../connectivity/environment.ts';
import type { BridgeKey } from '../datapath/bridge-entry.ts';
import type { Owner } from '../pipeline/cookie.ts';
import type { ProxyNode } from '../proxy/proxy-config.ts';
import type { ServiceIntent } from '../proxy/service-intent.ts';

/** One port of a Service in one family, with the numbers of the groups that it was lent, by their names within the port. */
export interface ServiceInput {
  readonly owner: Owner;
  readonly intent: ServiceIntent;
  readonly groups: ReadonlyMap<string, number>;
}

export interface PodInput {
  readonly owner: Owner;
  readonly intent: PodIntent;
}

/** What is the same for every compiler. */
export interface CommonInputs {
  readonly environment: NodeEnvironment;
  /** What compiling a Service needs to know of the node. */
  readonly proxy: Pick<ProxyNode, 'addresses' | 'gateway'>;
}

/** An entry that several owners want, each otherwise, and whose wish it is that counts: whoever asked last. */
export interface Dispute {
  readonly key: BridgeKey;
  readonly owner: Owner;
}

/** Everything that the compilers of a node are given for its bridge: its flows and groups are a function of this, and of nothing else. */
export interface NodeInputs extends CommonInputs {
  readonly peers: readonly PeerIntent[];
  readonly pods: readonly PodInput[];
  readonly services: readonly ServiceInput[];
  readonly disputes: readonly Dispute[];
}
