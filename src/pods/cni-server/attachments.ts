import { abortable } from '../../base/async/abortable.ts';
import type { Log } from '../../base/log/log.ts';
import { CniError, cniCodes } from '../../cni/errors.ts';
import { toCniError } from '../../cni/from-seine-error.ts';
import type { AddRequest, CheckRequest, DelRequest } from '../../cni/request.ts';
import type { HostPortCheck } from '../../dataplane/compile/host-port.ts';
import type { AttachedLease } from '../ipam/attached-lease.ts';
import type { AttachedPod, AttachmentKey } from '../ipam/attachment.ts';
import type { Ipam, WrittenLease } from '../ipam/ipam.ts';
import type { Lease } from '../ipam/lease.ts';
import type { AttachmentAddresses, Caller } from './addresses.ts';
import type { RecordedDeletions } from './deletions.ts';
import { assertReached, HostPortClaims } from './host-ports.ts';
import type { PodNetwork } from './pod-network.ts';
import { KeyedQueue } from './queue.ts';
import { differencesFromResult } from './result.ts';
import { StageTimes } from './stages.ts';

/** Time limit for work that continues after the plugin has disconnected: undo, and DELs (ms). */
const cleanupMs = 30_000;

export interface AttachmentPorts {
  readonly ipam: Ipam;
  readonly addresses: AttachmentAddresses;
  readonly network: PodNetwork;
  readonly deletions: Pick<RecordedDeletions, 'has' | 'list' | 'remove'>;
  readonly hostPortCheck: HostPortCheck;
  readonly log: Log;
}

interface AddCaller extends Caller {
  readonly request: AddRequest;
}

/** Makes and removes attachments: addresses and interface together. Calls for one container run one after another. */
export class Attachments {
  readonly #ports: AttachmentPorts;
  readonly #queue = new KeyedQueue();
  readonly #hostPorts: HostPortClaims;

  constructor(ports: AttachmentPorts) {
    this.#ports = ports;
    this.#hostPorts = new HostPortClaims(() => ports.ipam.leases(), ports.hostPortCheck);
  }

  isBusy(containerId: string): boolean {
    return this.#queue.isBusy(containerId);
  }

  /**
   * Makes an attachment, all or nothing: after a failure, or if `signal` aborts before bridge and kernel have acknowledged, nothing is
   * left.
   *
   * @throws CniError
   */
  async add(caller: AddCaller, signal: AbortSignal): Promise<AttachedLease> {
    return await this.#inTurn(caller.request.attachment, caller, () => this.#addAlone(caller, signal), signal);
  }

  /** Removes an attachment; an unknown one is not an error. @throws CniError 102 or 105; the call can then be repeated */
  async remove(caller: Caller & { readonly request: DelRequest }, signal: AbortSignal): Promise<void> {
    const { attachment } = caller.request;
    await this.#inTurn(attachment, caller, () => this.#removeAlone(attachment, caller), signal);
  }

  /** Processes a recorded DEL, unless that was done meanwhile. */
  async settle(caller: Caller & { readonly request: DelRequest }, signal: AbortSignal): Promise<void> {
    const { attachment } = caller.request;
    await this.#inTurn(attachment, caller, () => this.#settleAlone(attachment, caller), signal);
  }

  /** Removes the attachment of this lease, unless it has another lease by now. */
  async takeBack(lease: Lease, caller: Caller, signal: AbortSignal): Promise<void> {
    await this.#inTurn(lease, caller, () => this.#reclaimAlone(lease, caller), signal);
  }

  /** Like `takeBack`, but for a pod without a call. The lease must be one of the agent's IPAM. */
  async abandon(lease: Lease, signal: AbortSignal): Promise<void> {
    const caller = { stages: new StageTimes() };
    await this.#inTurn(lease, caller, () => this.#abandonAlone(lease, caller), signal);
  }

  /** Checks an attachment. @returns differences, one sentence each. @throws CniError 3 for an unknown attachment */
  async check(caller: Caller & { readonly request: CheckRequest }, signal: AbortSignal): Promise<readonly string[]> {
    return await this.#inTurn(caller.request.attachment, caller, () => this.#checkAlone(caller, signal), signal);
  }

  async #inTurn<T>(
    { containerId }: AttachmentKey,
    { stages }: Pick<Caller, 'stages'>,
    work: () => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    const waitsSinceMs = performance.now();
    const end = await this.#queue.turn(containerId, signal);
    try {
      stages.add('turn', performance.now() - waitsSinceMs);
      return await work();
    } finally {
      end();
    }
  }

  async #addAlone(caller: AddCaller, signal: AbortSignal): Promise<AttachedLease> {
    const key = caller.request.attachment;
    const { ipam } = this.#ports;
    await this.#settleAlone(key, caller);
    const existing = ipam.leaseOf(key);
    const done = existing && (await this.#alreadyDone(existing, caller, signal));
    if (done) return done;
    if (existing) await this.#reclaimAlone(existing, caller);
    const { lease, durable } = await this.#leaseFor(caller, signal);
    try {
      assertReached(lease.hostPorts ?? [], lease.addresses);
      const attached = await this.#wire(lease, durable, caller, signal);
      await ipam.acknowledge(key, attached);
      return { ...lease, attached };
    } catch (thrown) {
      await this.#releaseQuietly(lease, caller);
      throw thrown;
    }
  }

  /**
   * Attaches the pod while the lease is being written to disk. The kernel already has the lease: if the agent dies, the next one finds the
   * unfinished attachment by it. If the host dies, the pod's interface is gone too, and the address was not reported to anyone: no process
   * of the pod has run, and announcements reach only pods of this node.
   *
   * @throws CniError 102, or 101 if the lease cannot be made durable; then nothing is attached
   */
  async #wire(lease: Lease, durable: Promise<void>, caller: AddCaller, signal: AbortSignal): Promise<AttachedPod> {
    const { network } = this.#ports;
    const stop = new AbortController();
    durable.catch((cause: unknown) => stop.abort(cause));
    let attached: AttachedPod;
    try {
      attached = await inWiring(caller, network.attach(lease, AbortSignal.any([signal, stop.signal])));
    } catch (thrown) {
      throw stop.signal.aborted ? toCniError(stop.signal.reason, 'addresses') : thrown;
    }
    try {
      await caller.stages.measure('disk', abortable(durable, signal));
      return attached;
    } catch (thrown) {
      await network.detach(lease, AbortSignal.timeout(cleanupMs));
      throw toCniError(thrown, 'addresses');
    }
  }

  /** Leases addresses and host ports. If two calls request the same host port, the first one gets it. */
  async #leaseFor(caller: AddCaller, signal: AbortSignal): Promise<WrittenLease> {
    const claim = this.#hostPorts.claim(caller.request);
    const { hostPorts } = claim;
    try {
      return await caller.stages.measure('addresses', this.#ports.addresses.obtain({ ...caller, hostPorts }, signal));
    } finally {
      claim.end();
    }
  }

  /**
   * Handles an ADD for an attachment that has a lease.
   *
   * - Not acknowledged: the previous ADD was interrupted by a crash of the agent; this ADD repeats it.
   * - Acknowledged, and the plugin lost its connection before the reply: it repeats a request that may be done, and gets the same reply if
   * everything is present.
   * - Acknowledged otherwise: the runtime has called ADD twice, which CNI forbids. The call is refused, and nothing is changed.
   */
  async #alreadyDone(existing: Lease, caller: AddCaller, signal: AbortSignal): Promise<AttachedLease | undefined> {
    const { attached } = existing;
    if (!attached) return undefined;
    if (caller.wire.attempt === 1 || existing.netns !== caller.request.netns)
      throw new CniError(
        cniCodes.alreadyAttached,
        `${existing.ifName} of container ${existing.containerId} is attached to ${existing.network} already`,
        'it was left as it is; DEL it first',
      );
    const differences = await inWiring(caller, this.#ports.network.check(existing, attached, signal));
    return differences.length === 0 ? { ...existing, attached } : undefined;
  }

  /** Removes an attachment. A removal that has begun is finished even if the plugin disconnects, because half a DEL is of no use. */
  async #removeAlone(key: AttachmentKey, caller: Caller): Promise<void> {
    await this.#detach(key, caller, (signal) => this.#ports.addresses.release(key, caller, signal));
  }

  async #detach(key: AttachmentKey, caller: Pick<Caller, 'stages'>, release: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const signal = AbortSignal.timeout(cleanupMs);
    await inWiring(caller, this.#ports.network.detach(key, signal));
    await caller.stages.measure('addresses', release(signal));
    await this.#ports.ipam.handedOver();
    if (this.#ports.deletions.has(key)) await this.#ports.deletions.remove(key);
  }

  async #abandonAlone(lease: Lease, caller: Pick<Caller, 'stages'>): Promise<void> {
    if (this.#ports.ipam.leaseOf(lease)?.serial !== lease.serial) return;
    await this.#detach(lease, caller, async () => this.#ports.ipam.release(lease));
  }

  async #settleAlone(key: AttachmentKey, caller: Caller): Promise<void> {
    if (this.#ports.deletions.has(key)) await this.#removeAlone(key, caller);
  }

  async #reclaimAlone(lease: Lease, caller: Caller): Promise<void> {
    if (this.#ports.ipam.leaseOf(lease)?.serial === lease.serial) await this.#removeAlone(lease, caller);
  }

  /** Releases addresses after a failed attach, which leaves nothing behind. Only the error of the attach is reported. */
  async #releaseQuietly(lease: Lease, caller: Caller): Promise<void> {
    try {
      await this.#ports.addresses.release(lease, caller, AbortSignal.timeout(cleanupMs));
    } catch (thrown) {
      this.#ports.log.warn('addresses could not be released', {
        container: lease.containerId,
        reason: toCniError(thrown, 'addresses').message,
      });
    }
  }

  async #checkAlone(caller: Caller & { readonly request: CheckRequest }, signal: AbortSignal): Promise<readonly string[]> {
    const { attachment, netns } = caller.request;
    const lease = this.#ports.ipam.leaseOf(attachment);
    if (!lease)
      throw new CniError(
        cniCodes.unknownContainer,
        `container ${attachment.containerId} has no ${attachment.ifName} on ${attachment.network}`,
      );
    if (!lease.attached) return ['its ADD was never finished'];
    await this.#ports.addresses.check(lease, caller, signal);
    const actual = await inWiring(caller, this.#ports.network.check({ ...lease, netns }, lease.attached, signal));
    return [...differencesFromResult(lease, caller.request), ...actual];
  }
}

async function inWiring<T>({ stages }: Pick<Caller, 'stages'>, work: Promise<T>): Promise<T> {
  try {
    return await stages.measure('wiring', work);
  } catch (thrown) {
    throw toCniError(thrown, 'wiring');
  }
}
