import { abortable } from '../../base/async/abortable.ts';
import { within } from '../../base/async/time-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { compilePod, type PodIntent, podPattern } from '../../dataplane/compile/compile-pod.ts';
import type { PodLink } from '../../dataplane/desired/pod-link.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import { farNameOf, standingPortPattern } from '../../dataplane/targets/links/pre-plugged-links.ts';
import type { PodWanted } from '../../dataplane/targets/node-state.ts';
import type { PortWatch } from '../../dataplane/targets/switch/port-watch.ts';
import { getLink } from '../../netlink/links.ts';
import type { ReadyState } from '../../nodes/local/readiness.ts';
import type { PodNetwork } from '../cni-server/pod-network.ts';
import { portOfPod } from '../inventory/ovs-port-record.ts';
import type { AttachedLease } from '../ipam/attached-lease.ts';
import type { AttachedPod, AttachmentKey, PodAddress, PodAttachment } from '../ipam/attachment.ts';
import { attachmentId, type Lease } from '../ipam/lease.ts';
import { Announcements } from './announcements.ts';
import { blameVariable, nameTaken } from './attach-errors.ts';
import { hostInterfaceName, podOwner, subjectOwner } from './attachment-names.ts';
import { InterfaceRemovals } from './interface-removals.ts';
import { describeDifferences } from './pod-check.ts';
import { podIntent } from './pod-intent.ts';
import { attachedPod, podLink } from './pod-link.ts';
import type { AttachedSubject, PodNetworkOptions } from './pod-network-options.ts';

/** Objects of a pod on this node. */
interface Attached {
  readonly owner: Owner;
  readonly hostIfName: string;
  readonly ofPort: number;
  /** Kind of port. `standing`: a pre-plugged port, which stays when the pod is deleted. */
  readonly port: 'standing' | 'own';
  readonly want: PodAttachment;
  /** Result reported to the runtime; undefined while the pod is being attached. */
  reported: AttachedPod | undefined;
}

/** Maximum wait of a DEL for OVS to confirm the removal of flows and port (ms); after that it is left to the reconciler. */
const DETACH_PATIENCE_MS = 5_000;

/**
 * Makes pods' flows, interfaces and ports desired state, and waits for them.
 *
 * Removal runs in reverse order: first flows and port, then the pair.
 */
export class NodePodNetwork implements PodNetwork {
  readonly #options: PodNetworkOptions;
  readonly #announcements: Announcements;
  readonly #attached = new Map<string, Attached>();
  /** Addresses of attached pods by interface name: a previous interface of the same name is gone. */
  readonly #inUse = new Map<string, readonly PodAddress[]>();
  readonly #removals: InterfaceRemovals;
  /** Revision that the bridge must have reached before an address that was released may be allocated again. */
  #lastForgotten = -1;
  /** `perhaps` while there may be ports and flows of pods that a previous agent began to attach or to remove. */
  #orphans: 'perhaps' | 'none' = 'perhaps';

  constructor(options: PodNetworkOptions) {
    this.#options = options;
    this.#removals = new InterfaceRemovals(options.links);
    this.#announcements = new Announcements({ frames: options.frames, attaching: options.standing, shutdown: options.shutdown });
    options.links.onMade((hostIfName) => this.#made(hostIfName));
  }

  /**
   * Attaches a pod. Its flows become desired state first: OVS installs them while the kernel makes the interface. They may become active
   * slightly later than the interface, because they share a bundle with those of other pods; until then OVS drops packets from the port.
   */
  async attach(want: PodAttachment, signal: AbortSignal): Promise<AttachedPod> {
    const ended = this.#options.standing.adding();
    try {
      return await this.#attach(want, signal);
    } finally {
      ended();
    }
  }

  async #attach(want: PodAttachment, signal: AbortSignal): Promise<AttachedPod> {
    const id = attachmentId(want);
    if (!this.#removals.areNone) await this.#removals.untilOver(hostInterfaceName(want, want.pod), want, signal);
    if (signal.aborted) throw new SeineError('CANCELLED', `attach ${id}`, { cause: signal.reason });
    if (this.#attached.has(id)) throw nameTaken(`${want.ifName} of container ${want.containerId} is attached to ${want.network} already`);
    const attached: Attached = { owner: podOwner(want, want.pod), ...this.#allocatePort(want), want, reported: undefined };
    this.#attached.set(id, attached);
    this.#options.links.expectNew(attached.hostIfName);
    try {
      await this.#realize(attached, signal);
      setImmediate(() => this.#notifyPeers(attached)); // the reply is sent first
      return (attached.reported = this.#reportOf(attached));
    } catch (thrown) {
      const error = SeineError.from(thrown, `attach ${id}`);
      const isPortsFault = error.context['conflict'] === 'port';
      await this.#rollBack(attached, isPortsFault ? 'never' : 'again');
      // The port is dropped, so the next one is another.
      if (isPortsFault && !signal.aborted) return await this.#attach(want, signal);
      throw blameVariable(error);
    }
  }

  #allocatePort(want: PodAttachment): Pick<Attached, 'hostIfName' | 'ofPort' | 'port'> {
    const standing = this.#options.standing.take(want);
    if (standing) return { hostIfName: standing.name, ofPort: standing.ofPort, port: 'standing' };
    return { hostIfName: hostInterfaceName(want, want.pod), ofPort: this.#options.ofPorts.allocate(attachmentId(want)), port: 'own' };
  }

  async detach(key: AttachmentKey, signal: AbortSignal): Promise<void> {
    const attached = this.#attached.get(attachmentId(key));
    if (!attached) return;
    void this.#startRemoval(attached, await this.#unplug(attached, within(signal, DETACH_PATIENCE_MS)));
  }

  async check(want: PodAttachment, attached: AttachedPod, signal: AbortSignal): Promise<readonly string[]> {
    const known = this.#attached.get(attachmentId(want));
    const link = getLink(this.#options.socket, attached.hostIfName);
    const { ports, flowCheck, hostPorts } = this.#options;
    const found = await describeDifferences({ want, attached, link, known, ports, flowCheck }, signal);
    return known ? [...found, ...hostPorts.differences(known.owner)] : found;
  }

  ready(): ReadyState {
    return this.#options.readiness.state();
  }

  whenReady(signal: AbortSignal): Promise<void> {
    return this.#options.readiness.whenReady(signal);
  }

  /**
   * Adopts a pod that was attached before this process started: its present state becomes desired state.
   *
   * @param ofPort number of its port, if OVSDB still has it
   */
  adopt(lease: AttachedLease, ofPort: number | undefined): void {
    const id = attachmentId(lease);
    const { hostIfName } = lease.attached;
    const owner = podOwner(lease, lease.pod);
    const isStanding = standingPortPattern.test(hostIfName);
    const number = isStanding
      ? this.#options.standing.adoptUsed(hostIfName, portOfPod(lease, hostIfName, 0).externalIds)
      : this.#options.ofPorts.allocateAgain(id, ofPort);
    const port = isStanding ? 'standing' : 'own';
    const adopted: Attached = { owner, hostIfName, ofPort: number, port, want: lease, reported: lease.attached };
    this.#attached.set(id, adopted);
    this.#inUse.set(hostIfName, lease.addresses);
    this.#options.nodeState.wantPod(owner, this.#flowsOf(lease, adopted));
    this.#options.policy.adopt(subjectOf(adopted));
    this.#options.hostPorts.adopt(owner, lease);
    this.#wantLink(adopted);
  }

  /** Applies the MTU of the node to running pods: packets too large for the tunnel would be dropped without an error. */
  resize(): void {
    const mtu = this.#options.mtu();
    this.#options.standing.resize();
    for (const attached of this.#attached.values()) {
      if (attached.reported === undefined || attached.reported.mtu === mtu) continue;
      const { owner, want } = attached;
      const { log, nodeState, shutdown } = this.#options;
      const pod = { pod: want.pod?.name, container: want.containerId, mtu };
      nodeState.reconcilers.links.realizedFor(owner, this.#wantLink(attached), shutdown).then(
        () => {
          if (this.#tell(attached)) log.info('the MTU of a pod follows the node’s', pod);
        },
        (thrown: unknown) => {
          const { code, message: cause } = SeineError.from(thrown, 'resize');
          if (code !== 'CANCELLED')
            log.failing(`MTU ${want.containerId}`, 'a pod keeps an MTU that differs from the node’s', { ...pod, cause });
        },
      );
    }
  }

  /** Returns true once nothing on this node has the addresses of a pod that is no longer attached. */
  isAbsent(lease: Lease): boolean {
    const hostIfName = lease.attached?.hostIfName ?? hostInterfaceName(lease, lease.pod);
    if (this.#orphans === 'perhaps') return false;
    if (!this.#options.hostPorts.isClear) return false;
    if (this.#removals.isUnderWay(hostIfName, attachmentId(lease))) return false;
    const { nodeState, ports, socket, standing } = this.#options;
    if (nodeState.reconcilers.bridge.realizedRevision < this.#lastForgotten) return false;
    const currentHolders = this.#inUse.get(hostIfName);
    if (currentHolders) return !lease.addresses.some(({ ip }) => currentHolders.some((holder) => holder.ip.text === ip.text));
    // A pre-plugged port stays: the proof is that no pod has it, and nothing of a pod is left.
    if (standingPortPattern.test(hostIfName) && standing.isKnown(hostIfName)) return !standing.isUsed(hostIfName);
    return !ports.isKnown(hostIfName) && getLink(socket, hostIfName) === undefined;
  }

  /** Notes that interfaces, ports and flows without a pod are gone. */
  orphansRemoved(): void {
    this.#orphans = 'none';
  }

  get count(): number {
    return this.#attached.size;
  }

  /** Returns the owner of a pod's desired state, and the intent from which it is compiled. */
  inputOf(lease: Lease): { readonly owner: Owner; readonly intent: PodIntent } | undefined {
    const attached = this.#attached.get(attachmentId(lease));
    const { datapathType } = this.#options;
    return attached && { owner: attached.owner, intent: podIntent(lease, { ofPort: attached.ofPort, datapathType }) };
  }

  /** Realizes a pod; the node's MTU may change meanwhile. */
  async #realize(attached: Attached, signal: AbortSignal): Promise<void> {
    const { owner, hostIfName, want } = attached;
    const { nodeState, ports } = this.#options;
    const onStage = (stage: 'flows' | 'interface' | 'port', tookMs: number): void => this.#options.onStage?.(stage, tookMs, owner);
    const plugged: PortWatch['whenPlugged'] = (name, ofPort, until) => ports.whenPlugged(name, ofPort, until);
    const port = attached.port === 'own' ? { port: portOfPod(want, hostIfName, attached.ofPort) } : {};
    const pod = { wanted: this.#flowsOf(want, attached), link: this.#linkOf(attached), ...port };
    // In the same bundle, if its policies are known.
    const policed = this.#options.policy.attach(subjectOf(attached), signal);
    const ported = this.#options.hostPorts.attach(owner, want, signal);
    for (const work of [policed, ported]) work.catch(() => undefined); // awaited below, unless something else fails first
    await nodeState.realizePod(owner, pod, { plugged: (port, until) => plugged(port.name, port.ofPort, until), onStage }, signal);
    await Promise.all([policed, ported]);
    this.#inUse.set(hostIfName, want.addresses);
    if (this.#options.mtu() === pod.link.mtu) return;
    await nodeState.reconcilers.links.realizedFor(owner, this.#wantLink({ ...attached, reported: this.#reportOf(attached) }), signal);
  }

  /** Makes the link desired state. @returns the revision of links that contains it */
  #wantLink(attached: Attached): number {
    const { want, hostIfName, ofPort, owner, port } = attached;
    const { nodeState } = this.#options;
    if (port === 'standing') return nodeState.wantOverPort(owner, this.#linkOf(attached));
    return nodeState.wantLink(owner, this.#linkOf(attached), portOfPod(want, hostIfName, ofPort));
  }

  #linkOf({ want, hostIfName, port, reported }: Attached): PodLink {
    const { datapathType, disableTxChecksumOffload = false, mtu } = this.#options;
    const farName = port === 'standing' ? { farName: farNameOf(hostIfName) } : {};
    return { ...podLink(want, { hostIfName, mtu: mtu(), datapathType, disableTxChecksumOffload }, reported), ...farName };
  }

  #reportOf({ want, hostIfName, reported }: Attached): AttachedPod {
    const mtu = this.#options.nodeState.links.wanted(`link/${hostIfName}`)?.link?.mtu ?? this.#options.mtu();
    return attachedPod(hostIfName, { ...want, mtu }, this.#options.links.madeOf(hostIfName), reported);
  }

  /** Handles the recreation of a pair that existed before. */
  #made(hostIfName: string): void {
    const attached = [...this.#attached.values()].find((each) => each.hostIfName === hostIfName);
    if (attached?.reported === undefined) return;
    const { log, nodeState, ports, shutdown } = this.#options;
    const { want, ofPort } = attached;
    this.#tell(attached);
    log.warn('the interface of a running pod was deleted; recreated it', {
      pod: want.pod?.name,
      container: want.containerId,
      interface: hostIfName,
    });
    const plugged = () => ports.whenPlugged(hostIfName, ofPort, shutdown);
    nodeState.linkedPorts.plugged(hostIfName, plugged, shutdown).then(
      () => this.#announce(attached),
      () => undefined, // desired state: if it is refused, the reconciler reports it
    );
  }

  /** Reports the properties of a pod. @returns whether it is still attached */
  #tell(attached: Attached): boolean {
    if (!this.#isCurrent(attached)) return false;
    attached.reported = this.#reportOf(attached);
    this.#options.changed(attached.want, attached.reported);
    return true;
  }

  /**
   * Updates neighbours and OVSDB after the reply: journal and alias of the far end already identify the pod, so the reply does not wait for
   * OVSDB.
   */
  #notifyPeers(attached: Attached): void {
    if (!this.#isCurrent(attached)) return;
    if (attached.port === 'standing') this.#describe(attached);
    this.#announce(attached);
  }

  #isCurrent(attached: Attached): boolean {
    return this.#attached.get(attachmentId(attached.want)) === attached;
  }

  #describe({ want, hostIfName, ofPort }: Attached): void {
    this.#options.standing.describe(hostIfName, portOfPod(want, hostIfName, ofPort).externalIds);
  }

  #announce(attached: Attached): void {
    const { want, ofPort } = attached;
    const startedMs = performance.now();
    const isCurrent = (): boolean => this.#isCurrent(attached);
    this.#announcements.announce({ ofPort, mac: want.mac, addresses: want.addresses.map(({ ip }) => ip), isCurrent });
    this.#options.onStage?.('announce', performance.now() - startedMs, attached.owner);
  }

  #flowsOf(want: Parameters<typeof podIntent>[0], { ofPort }: Pick<Attached, 'ofPort'>): PodWanted {
    const intent = podIntent(want, { ofPort, datapathType: this.#options.datapathType });
    return intent.egress || intent.ingress ? compilePod(intent) : { pattern: podPattern, place: intent };
  }

  /** Undoes an attach, also after the caller has disconnected. */
  async #rollBack(attached: Attached, use: 'again' | 'never'): Promise<void> {
    const patience = AbortSignal.timeout(DETACH_PATIENCE_MS);
    const gone = await this.#unplug(attached, patience);
    const removal = this.#startRemoval(attached, gone, use);
    this.#options.links.releaseNow(attached.hostIfName);
    await abortable(removal, patience).catch(() => undefined); // it continues
  }

  /**
   * Unplugs a pod. Flows and port lose their owner and are removed: once OVSDB has the change, a crash of the agent cannot restore them,
   * and the runtime waits for nothing else. ovs-vswitchd takes about 10 ms to release a port; number and addresses are allocated again only
   * after it has confirmed that.
   *
   * For a pre-plugged port, OVSDB only drops the owner, and nothing waits for that. After a crash, the next agent learns from the journal,
   * which has the lease as released before the runtime gets its reply, that the port does not belong to this pod, and from the alias of its
   * far end that it is not idle.
   *
   * @param signal ends the wait, not the removal
   * @returns promises that must be fulfilled before another pod may use the port
   */
  async #unplug({ want, owner, hostIfName, ofPort, port: kind }: Attached, signal: AbortSignal): Promise<readonly Promise<void>[]> {
    const { nodeState: datapath, log } = this.#options;
    this.#attached.delete(attachmentId(want));
    this.#inUse.delete(hostIfName);
    datapath.forget(owner);
    this.#options.hostPorts.detach(owner, want);
    // Flows of policy with this number must be removed too, so that policy does not mistake the next pod for this one.
    const flows = this.#options.policy.detach(subjectOwner(want, want.pod));
    this.#lastForgotten = flows.bridge;
    const { shutdown: life, standing } = this.#options;
    const port = kind === 'standing' ? standing.disown(hostIfName) : datapath.linkedPorts.forget(owner, hostIfName);
    const { reconcilers } = datapath;
    const gone = [reconcilers.switch.realized(port, life), reconcilers.bridge.realized(flows.bridge, life)];
    if (kind === 'standing') return gone;
    this.#options.ofPorts.releaseAfter(ofPort, gone);
    try {
      await reconcilers.switch.realized(port, signal);
    } catch (thrown) {
      log.warn('OVS has not confirmed the removal of a pod yet', { owner, cause: SeineError.from(thrown, 'forget').message });
    }
    return gone;
  }

  /** Starts the removal of the interface. @returns resolves once the interface is gone, or cannot be removed */
  #startRemoval(
    { owner, hostIfName, port, want }: Attached,
    gone: readonly Promise<void>[],
    use: 'again' | 'never' = 'again',
  ): Promise<void> {
    const { nodeState, links, standing, shutdown } = this.#options;
    const removal =
      port === 'standing'
        ? standing.release(hostIfName, owner, gone, use)
        : nodeState.reconcilers.links.realized(nodeState.forgetLinks(owner), shutdown).then(() => links.removed(hostIfName));
    return this.#removals.add(hostIfName, want, removal);
  }
}

function subjectOf({ want, ofPort }: Pick<Attached, 'want' | 'ofPort'>): AttachedSubject {
  const addresses = want.addresses.map(({ ip }) => ip);
  return { owner: subjectOwner(want, want.pod), ofPort, addresses, ...(want.pod ? { pod: want.pod } : {}) };
}
