import { setImmediate as nextTurn } from 'node:timers/promises';
import { abortable } from '../async/abortable.ts';
import { within } from '../async/within.ts';
import { compilePod, type PodIntent } from '../connectivity/compile-pod.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { AttachedLease } from '../ipam/attached-lease.ts';
import type { AttachedPod, AttachmentKey, PodAddress, PodAttachment } from '../ipam/attachment.ts';
import { attachmentId, type Lease } from '../ipam/lease.ts';
import type { Log } from '../log/log.ts';
import { announcement } from '../netlink/announce.ts';
import { getLink } from '../netlink/links.ts';
import { createPodInterface, type HostLinks, type PodInterface } from '../netlink/pod-interface.ts';
import type { Readiness, ReadyState } from '../node/readiness.ts';
import type { FrameInjector } from '../packet-in/packet-out.ts';
import type { Owner } from '../pipeline/cookie.ts';
import type { NodeState } from '../reconcile/node-state.ts';
import type { PortWatch } from '../reconcile/port-watch.ts';
import type { Wanted } from '../wanted/wanted.ts';
import { hostInterfaceAlias, hostInterfaceName, podOwner } from './attachment-names.ts';
import type { PodNetwork } from './cni/pod-network.ts';
import { portOfPod } from './inventory/ovs-port-record.ts';
import { OfPortPool } from './of-port-pool.ts';
import { describeDifferences, type FlowCheck } from './pod-check.ts';
import { podIntent } from './pod-intent.ts';
import { resizePod } from './pod-resize.ts';

export interface PodNetworkOptions {
  readonly nodeState: NodeState;
  readonly ports: PortWatch;
  readonly host: HostLinks;
  readonly readiness: Readiness;
  readonly flowCheck: FlowCheck;
  /** On the userspace data path the host end stays a part of the node's own stack, and no driver fills in checksums. */
  readonly datapathType: 'system' | 'netdev';
  /** Pods fill in checksums themselves also where the data path could. */
  readonly disableTxChecksumOffload?: boolean;
  /** Bytes of an IP packet; asked at each ADD. */
  readonly mtu: () => number;
  /** Sends frames as if they came from a port, so that neighbours learn who has an address now. Not waited for. */
  readonly frames: Pick<FrameInjector, 'inject'>;
  /** The agent's. */
  readonly shutdown: AbortSignal;
  /** For metrics: what an ADD spent its time on. `flows`, `interface` and `port` overlap. */
  readonly onStage?: (stage: PodStage, tookMs: number) => void;
  readonly log: Log;
}

type PodStage = 'flows' | 'interface' | 'port' | 'announce';

/** What a pod has on this node. */
interface Attached {
  readonly owner: Owner;
  readonly hostIfName: string;
  readonly ofPort: number;
}

/** With the MTU that it was made with: the node's may be another by the time that the pod is served. */
type MadeInterface = PodInterface & Pick<AttachedPod, 'mtu'>;

/** A veth that the kernel is still taking down. */
interface InterfaceRemoval {
  readonly netns: string | undefined;
  readonly ifName: string;
  readonly done: Promise<unknown>;
}

/** How long a DEL waits for the switch to say that flows and port are gone, before it leaves that to the reconciler (ms). */
const DETACH_PATIENCE_MS = 5_000;

/**
 * Pods' interfaces: the kernel's part is done here and now; port and flows are wanted and waited for.
 *
 * Removal goes backwards: first flows and port, then the link.
 */
export class NodePodNetwork implements PodNetwork {
  readonly #options: PodNetworkOptions;
  readonly #ofPorts = new OfPortPool();
  readonly #attached = new Map<string, Attached & { readonly netns: string | undefined }>();
  /** Interfaces that attached pods have, with their addresses: whatever had their names before is gone. */
  readonly #inUse = new Map<string, readonly PodAddress[]>();
  readonly #removals = new Map<string, InterfaceRemoval>();
  /** The bridge must have come this far before an address that was given up may be another pod's. */
  #lastForgotten = -1;
  /** Whether ports and flows may be there of pods that an earlier agent began to attach or to remove. */
  #orphans: 'perhaps' | 'none' = 'perhaps';

  constructor(options: PodNetworkOptions) {
    this.#options = options;
  }

  /**
   * Flows first: the switch works on them while the kernel makes the interface, and a pod never has an interface without the
   * flows that guard it. The port is wanted as soon as the node's end is there: the switch plugs it in while the kernel
   * sets up the pod's end.
   */
  async attach(want: PodAttachment, signal: AbortSignal): Promise<AttachedPod> {
    const id = attachmentId(want);
    const hostIfName = hostInterfaceName(want, want.pod);
    await this.#removed(want, hostIfName, signal);
    if (this.#attached.has(id)) throw nameTaken(`${want.ifName} of container ${want.containerId} is attached to ${want.network} already`);
    const attached = { owner: podOwner(want, want.pod), hostIfName, ofPort: this.#ofPorts.lend(id), netns: want.netns };
    this.#attached.set(id, attached);
    let created: MadeInterface | undefined;
    try {
      const flows = this.#timed('flows', () => this.#options.nodeState.realize(attached.owner, this.#flowsOf(want, attached), signal));
      flows.catch(() => undefined); // looked at below, unless the interface fails first
      this.#refuseConflicts(attached.owner);
      await nextTurn();
      let port: Promise<void> | undefined;
      const plug = async (): Promise<void> => {
        const wanted = portOfPod(want, hostIfName, attached.ofPort);
        port = this.#timed('port', () => this.#options.ports.plug(this.#options.nodeState, attached.owner, wanted, signal));
        port.catch(() => undefined); // looked at below, unless the interface fails first
        await socketsServed();
      };
      created = await this.#timed('interface', () => this.#createInterface(want, hostIfName, plug, signal));
      this.#inUse.set(hostIfName, want.addresses);
      await Promise.all([flows, port]);
      await this.#timed('announce', async () => this.#announce(want, attached));
      return this.#resized(want, attachedPod(hostIfName, created, want));
    } catch (thrown) {
      await this.#rollBack(want, attached, created !== undefined);
      throw SeineError.from(thrown, `attach ${id}`);
    }
  }

  async detach(key: AttachmentKey, signal: AbortSignal): Promise<void> {
    const attached = this.#attached.get(attachmentId(key));
    if (!attached) return;
    await this.#unplug(key, attached, within(signal, DETACH_PATIENCE_MS));
    void this.#startRemoval(key, attached);
  }

  async check(want: PodAttachment, attached: AttachedPod, signal: AbortSignal): Promise<readonly string[]> {
    const known = this.#attached.get(attachmentId(want));
    const link = getLink(this.#options.host.socket, attached.hostIfName);
    return describeDifferences({ want, attached, link, known, ports: this.#options.ports, flowCheck: this.#options.flowCheck }, signal);
  }

  ready(): ReadyState {
    return this.#options.readiness.state();
  }

  whenReady(signal: AbortSignal): Promise<void> {
    return this.#options.readiness.whenReady(signal);
  }

  /**
   * Takes over a pod that was attached before this process began: wants for it what it has.
   *
   * @param ofPort the number its port had, if the switch's database still knows
   */
  adopt(lease: AttachedLease, ofPort: number | undefined): void {
    const id = attachmentId(lease);
    const { hostIfName } = lease.attached;
    const adopted = { owner: podOwner(lease, lease.pod), hostIfName, ofPort: this.#ofPorts.lendAgain(id, ofPort), netns: lease.netns };
    this.#attached.set(id, adopted);
    this.#inUse.set(hostIfName, lease.addresses);
    this.#options.nodeState.want(adopted.owner, this.#flowsOf(lease, adopted));
    this.#options.nodeState.wantPort(adopted.owner, portOfPod(lease, hostIfName, adopted.ofPort));
  }

  /**
   * Makes the interface of a running pod anew that was deleted. Its flows are there; its port is wanted again once the
   * interface is there: ovs-vswitchd would refuse it before, and not look again.
   *
   * @param unplug resolves once ovs-vswitchd has seen that the port is gone
   * @returns undefined if there is nothing to make: the pod is going, or its interface is there
   * @throws SeineError `INVALID_INPUT` if its namespace is gone; whatever is thrown, the port is wanted
   */
  async recreate(lease: AttachedLease, unplug: (port: string) => Promise<void>, signal: AbortSignal): Promise<AttachedPod | undefined> {
    const id = attachmentId(lease);
    const attached = this.#attached.get(id);
    if (!attached || getLink(this.#options.host.socket, attached.hostIfName)) return undefined;
    // The path of a process may be another process's by now.
    if (lease.netns.startsWith('/proc/'))
      throw new SeineError('INVALID_INPUT', `${lease.netns} is a path of a process, which another process may have by now`);
    const { nodeState: datapath, ports } = this.#options;
    const { owner, hostIfName, ofPort } = attached;
    const isWanted = (): boolean => this.#attached.get(id) === attached;
    try {
      await datapath.reconcilers.switch.realized(datapath.forgetPorts(owner), signal);
      await unplug(hostIfName);
      const made = await this.#createInterface(lease, hostIfName, async () => {}, signal, lease.attached.netnsCookie);
      if (!isWanted()) {
        await this.#startRemoval(lease, attached);
        return undefined;
      }
      datapath.wantPort(owner, portOfPod(lease, hostIfName, ofPort));
      await ports.whenPlugged(hostIfName, ofPort, signal).catch(() => undefined); // wanted: if it is refused, the reconciler reports it
      this.#announce(lease, attached);
      return { ...lease.attached, hostMac: made.hostMac ?? lease.attached.hostMac, mtu: made.mtu };
    } catch (thrown) {
      if (isWanted()) datapath.wantPort(owner, portOfPod(lease, hostIfName, ofPort));
      throw thrown;
    }
  }

  /**
   * True once nothing on this node has the addresses of a pod that is no longer attached. An interface that the kernel did not let
   * go of when it was asked is asked for again.
   */
  isAbsent(lease: Lease): boolean {
    const hostIfName = lease.attached?.hostIfName ?? hostInterfaceName(lease, lease.pod);
    if (this.#orphans === 'perhaps') return false;
    if (this.#removals.has(hostIfName)) return false;
    if (this.#options.nodeState.reconcilers.bridge.realizedRevision < this.#lastForgotten) return false;
    const currentHolders = this.#inUse.get(hostIfName);
    if (currentHolders) return !lease.addresses.some(({ ip }) => currentHolders.some((holder) => holder.ip.text === ip.text));
    if (this.#options.ports.isKnown(hostIfName)) return false;
    if (getLink(this.#options.host.socket, hostIfName) === undefined) return true;
    const isNewPods = [...this.#attached.values()].some((attached) => attached.hostIfName === hostIfName);
    if (!isNewPods) void this.#startRemoval(lease, { hostIfName, netns: lease.netns });
    return false;
  }

  /**
   * Takes away an interface that belongs to no pod; an ADD that needs its name, or that of its other end, waits for that.
   *
   * @param end the other end, if it is known
   */
  removeOrphan(hostIfName: string, end: Pick<PodAttachment, 'netns' | 'ifName'> | undefined): void {
    void this.#startRemoval({ ifName: end?.ifName ?? '' }, { hostIfName, netns: end?.netns });
  }

  /** To be called once ports and flows of no pod are known to be gone. */
  orphansRemoved(): void {
    this.#orphans = 'none';
  }

  get count(): number {
    return this.#attached.size;
  }

  /** Under which owner a pod's part is wanted, and what it is compiled from. */
  inputOf(lease: Lease): { readonly owner: Owner; readonly intent: PodIntent } | undefined {
    const attached = this.#attached.get(attachmentId(lease));
    const { datapathType } = this.#options;
    return attached && { owner: attached.owner, intent: podIntent(lease, { ofPort: attached.ofPort, datapathType }) };
  }

  async #createInterface(
    want: PodAttachment,
    hostIfName: string,
    hostEndReady: () => Promise<void>,
    signal: AbortSignal,
    netnsCookie?: string,
  ): Promise<MadeInterface> {
    const userspace = this.#options.datapathType === 'netdev';
    const mtu = this.#options.mtu();
    try {
      const made = await createPodInterface(
        this.#options.host,
        {
          netnsPath: want.netns,
          netnsCookie,
          hostName: hostIfName,
          podName: want.ifName,
          mac: want.mac,
          mtu,
          addresses: want.addresses.map(({ ip, prefixLength }) => ({ address: ip, prefixLength })),
          gateways: want.addresses.map(({ gateway }) => ({ address: gateway })),
          routes: want.routes ?? [],
          alias: hostInterfaceAlias(want, want.pod),
          hostEnd: userspace ? 'layer2Only' : 'plain',
          checksumOffload: userspace || this.#options.disableTxChecksumOffload === true ? 'off' : 'keep',
        },
        signal,
        hostEndReady,
      );
      return { ...made, mtu };
    } catch (thrown) {
      throw blameVariable(SeineError.from(thrown, `create ${want.ifName} in ${want.netns}`));
    }
  }

  #announce({ mac, addresses }: PodAttachment, { ofPort }: Attached): void {
    this.#options.frames.inject(
      ofPort,
      addresses.map(({ ip }) => announcement(mac, ip)),
    );
  }

  /** The node's MTU may be another than when the interface was made. */
  #resized(want: PodAttachment, attached: AttachedPod): AttachedPod {
    const mtu = this.#options.mtu();
    if (attached.mtu === mtu) return attached;
    resizePod(this.#options.host.socket, { ...want, attached }, mtu);
    return { ...attached, mtu };
  }

  /** Only what succeeds is timed: a failure says nothing about how long things take. */
  async #timed<T>(stage: PodStage, work: () => Promise<T>): Promise<T> {
    const startedMs = performance.now();
    const result = await work();
    this.#options.onStage?.(stage, performance.now() - startedMs);
    return result;
  }

  #flowsOf(want: Pick<PodAttachment, 'mac' | 'addresses' | 'egress'>, { ofPort }: Pick<Attached, 'ofPort'>): Wanted {
    return compilePod(podIntent(want, { ofPort, datapathType: this.#options.datapathType }));
  }

  /** The first pod with an address or MAC keeps it, whatever an IPAM plugin says: a later one must not get its packets. */
  #refuseConflicts(owner: Owner): void {
    const [rival] = this.#options.nodeState.bridge.conflictingOwners(owner);
    if (rival !== undefined) throw new SeineError('REFUSED', `${rival} has an address of ${owner}`, { context: { owner, rival } });
  }

  /** Also after the caller has given up: what was begun is taken back. */
  async #rollBack(want: PodAttachment, attached: Attached & { readonly netns: string | undefined }, linkExists: boolean): Promise<void> {
    await this.#unplug(want, attached, AbortSignal.timeout(DETACH_PATIENCE_MS));
    if (linkExists) await this.#startRemoval(want, attached);
  }

  /**
   * Flows and port have no owner any more, so they go: once the database has taken that, a crash of the agent cannot bring them
   * back, and that is all a runtime waits for. ovs-vswitchd takes 10 ms to let go of a port; number and addresses are lent
   * again only after it has said so.
   *
   * @param signal ends the waiting, not the removal
   */
  async #unplug(key: AttachmentKey, { owner, hostIfName, ofPort }: Attached, signal: AbortSignal): Promise<void> {
    const { nodeState: datapath, log } = this.#options;
    this.#attached.delete(attachmentId(key));
    this.#inUse.delete(hostIfName);
    const flows = datapath.forget(owner);
    this.#lastForgotten = flows.bridge;
    const port = datapath.forgetPorts(owner);
    const { reconcilers } = datapath;
    const { shutdown: life } = this.#options;
    void Promise.all([reconcilers.switch.realized(port, life), reconcilers.bridge.realized(flows.bridge, life)]).then(
      () => this.#ofPorts.giveBack(ofPort),
      () => undefined, // the agent stops, and the pool with it
    );
    try {
      await reconcilers.switch.realized(port, signal);
    } catch (thrown) {
      log.warn('the switch has not confirmed yet that a pod is gone', { owner, cause: SeineError.from(thrown, 'forget').message });
    }
  }

  /** The kernel takes 16 ms for a veth; only an ADD of the same interface has to wait for it. */
  #startRemoval(
    key: Pick<AttachmentKey, 'ifName'>,
    { hostIfName, netns }: { readonly hostIfName: string; readonly netns: string | undefined },
  ): Promise<unknown> {
    const done = this.#options.host.remover
      .remove(hostIfName, new AbortController().signal)
      .catch((thrown: unknown) =>
        this.#options.log.error('a pod interface could not be removed', {
          interface: hostIfName,
          cause: SeineError.from(thrown, 'remove').message,
        }),
      )
      .finally(() => {
        if (this.#removals.get(hostIfName)?.done === done) this.#removals.delete(hostIfName);
      });
    this.#removals.set(hostIfName, { netns, ifName: key.ifName, done });
    return done;
  }

  async #removed(want: PodAttachment, hostIfName: string, signal: AbortSignal): Promise<void> {
    const blockingRemovals = [...this.#removals].filter(
      ([name, { netns, ifName }]) => name === hostIfName || (netns === want.netns && ifName === want.ifName),
    );
    if (blockingRemovals.length === 0) return;
    await abortable(Promise.all(blockingRemovals.map(([, { done }]) => done)), signal);
  }
}

function attachedPod(hostIfName: string, { hostMac, mtu, routeTables, netnsCookie }: MadeInterface, want: PodAttachment): AttachedPod {
  const tables = Object.keys(routeTables).length > 0 ? { routeTables } : {};
  const cookie = netnsCookie === undefined ? {} : { netnsCookie };
  return { hostIfName, hostMac: hostMac ?? want.mac, mtu, ...cookie, ...tables };
}

/** Lets what waits be written and read, before the loop is busy again. One turn may lead past the sockets, two cannot. */
async function socketsServed(): Promise<void> {
  await nextTurn();
  await nextTurn();
}

/** Says which of the runtime's variables is at fault, where one is. */
function blameVariable(error: SeineError): SeineError {
  const message = error.rawMessage;
  if (error.context['conflict'] === 'podName') return nameTaken(message, error);
  if (error.code === 'INVALID_INPUT')
    return new SeineError('INVALID_INPUT', message, { context: { variable: 'CNI_NETNS', ...error.context }, cause: error });
  return error;
}

function nameTaken(message: string, cause?: SeineError): SeineError {
  return new SeineError('INVALID_INPUT', message, { context: { ...cause?.context, variable: 'CNI_IFNAME' }, cause });
}
