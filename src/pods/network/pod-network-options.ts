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
  /** Numbers of ports on the bridge, shared with `standing`. */
  readonly ofPorts: OfPortPool;
  readonly standing: StandingPorts;
  /** A socket in the node's namespace. */
  readonly socket: NetlinkSocket;
  readonly readiness: Readiness;
  readonly flowCheck: FlowCheck;
  readonly policy: PodPolicy;
  readonly hostPorts: PodHostPorts;
  /** On the userspace data path the host end stays a part of the node's own stack, and no driver fills in checksums. */
  readonly datapathType: 'system' | 'netdev';
  /** Pods fill in checksums themselves also where the data path could. */
  readonly disableTxChecksumOffload?: boolean;
  /** Bytes of an IP packet; asked at each ADD. */
  readonly mtu: () => number;
  /** Sends frames as if they came from a port, so that neighbours learn who has an address now. Not waited for. */
  readonly frames: Pick<FrameInjector, 'inject'>;
  /** What an attached pod has is otherwise than it was told: its interface was made anew, or has another MTU. */
  readonly changed: (key: AttachmentKey, attached: AttachedPod) => void;
  /** The agent's. */
  readonly shutdown: AbortSignal;
  /** For metrics: what an ADD spent its time on. `flows`, `interface` and `port` overlap. */
  readonly onStage?: (stage: PodStage, tookMs: number) => void;
  readonly log: Log;
}

/** Polices attachments: their flows in the entry tables, without which they neither send nor receive. */
export interface PodPolicy {
  /** Wants them before it returns, as far as policy is known, and resolves once they are acknowledged. @throws SeineError */
  attach(subject: AttachedSubject, signal: AbortSignal): Promise<void>;
  adopt(subject: AttachedSubject): void;
  /** @returns what the bridge is without them */
  detach(owner: Owner): Pick<Revisions, 'bridge'>;
}

/** Leads ports of the node to attachments that ask for some. */
interface PodHostPorts {
  /** Wants them before it returns, and resolves once the packet filter has them. @throws SeineError */
  attach(owner: Owner, want: PodAttachment, signal: AbortSignal): Promise<void>;
  adopt(owner: Owner, want: PodAttachment): void;
  detach(owner: Owner, want: PodAttachment): void;
  /** Whether nothing leads to pods any more that are gone. */
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
