import type { Log } from '../../base/log/log.ts';
import type { Ip } from '../../base/net/ip.ts';
import type { FrameInjector } from '../../dataplane/packet-io/packet-out.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { LinksTarget } from '../../dataplane/targets/links/links-target.ts';
import type { NodeState, Revisions } from '../../dataplane/targets/node-state.ts';
import type { PortWatch } from '../../dataplane/targets/switch/port-watch.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';
import type { Readiness } from '../../nodes/local/readiness.ts';
import type { AttachedPod, AttachmentKey, PodAttachment, PodIdentity } from '../ipam/attachment.ts';
import type { OfPortPool } from './of-port-pool.ts';
import type { FlowCheck } from './pod-check.ts';
import type { StandingPorts } from './pre-plugged-ports.ts';

export interface PodNetworkOptions {
  readonly nodeState: NodeState;
  readonly ports: PortWatch;
  readonly links: Pick<LinksTarget, 'madeOf' | 'onMade' | 'removed' | 'releaseNow' | 'expectNew'>;
  /** OpenFlow port numbers, shared with `standing`. */
  readonly ofPorts: OfPortPool;
  readonly standing: StandingPorts;
  /** Socket in the node's namespace. */
  readonly socket: NetlinkSocket;
  readonly readiness: Readiness;
  readonly flowCheck: FlowCheck;
  readonly policy: PodPolicy;
  readonly hostPorts: PodHostPorts;
  /**
   * Type of the data path. On the userspace one the host interface stays part of the node's network stack, and no driver computes
   * checksums.
   */
  readonly datapathType: 'system' | 'netdev';
  /** True if pods compute checksums themselves even if the data path could. */
  readonly disableTxChecksumOffload?: boolean;
  /** Returns the MTU: size of an IP packet (bytes). Called at each ADD. */
  readonly mtu: () => number;
  /** Sends frames as if they came from a port, so that neighbours learn the new owner of an address. Not awaited. */
  readonly frames: Pick<FrameInjector, 'inject'>;
  /** Called when the properties of an attached pod change after they were reported: its interface was recreated, or has another MTU. */
  readonly changed: (key: AttachmentKey, attached: AttachedPod) => void;
  /** Aborts when the agent ends. */
  readonly shutdown: AbortSignal;
  /** Reports the stages of an ADD, with the owner of the pod's flows. `flows`, `interface` and `port` overlap. */
  readonly onStage?: (stage: PodStage, tookMs: number, owner: Owner) => void;
  readonly log: Log;
}

/** Applies policies to attachments: installs their flows in the entry tables, without which they neither send nor receive. */
export interface PodPolicy {
  /**
   * Makes the flows desired state before it returns, as far as policy is known, and resolves once they are acknowledged.
   *
   * @throws SeineError
   */
  attach(subject: AttachedSubject, signal: AbortSignal): Promise<void>;
  adopt(subject: AttachedSubject): void;
  /** Removes them. @returns the revision of the bridge without them */
  detach(owner: Owner): Pick<Revisions, 'bridge'>;
}

/** Translates host ports to the attachments that request them. */
interface PodHostPorts {
  /** Makes the elements desired state before it returns, and resolves once nftables has them. @throws SeineError */
  attach(owner: Owner, want: PodAttachment, signal: AbortSignal): Promise<void>;
  adopt(owner: Owner, want: PodAttachment): void;
  detach(owner: Owner, want: PodAttachment): void;
  /** True if no element for a removed pod is left. */
  readonly isClear: boolean;
  differences(owner: Owner): readonly string[];
}

export interface AttachedSubject {
  readonly owner: Owner;
  readonly ofPort: number;
  readonly addresses: readonly Ip[];
  readonly pod?: PodIdentity;
}

type PodStage = 'flows' | 'interface' | 'port' | 'announce';
