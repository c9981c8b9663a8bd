import { abortable } from '../async/abortable.ts';
import { CniError, cniCodes, formatError } from '../cni/errors.ts';
import { type CallStage, toCniError } from '../cni/from-seine-error.ts';
import { type AddRequest, type CheckRequest, type CniRequest, type DelRequest, type GcRequest, parseCniRequest } from '../cni/request.ts';
import { formatResult } from '../cni/result.ts';
import { type CniVersion, formatVersions, newestVersion } from '../cni/versions.ts';
import type { WireReply, WireRequest } from '../cni/wire.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { Log } from '../log/log.ts';
import { type Ip, parseIp } from '../net/ip.ts';
import { type Mac, parseMac } from '../net/mac.ts';
import type { RecordedDeletions } from './cni-server-deletions.ts';
import { KeyedQueue } from './cni-server-queue.ts';
import { differencesFromResult, resultOf } from './cni-server-result.ts';
import type { Ipam } from './ipam/ipam.ts';
import type { Lease } from './ipam/lease.ts';
import type { AttachmentKey, PodNetwork } from './pod-network-port.ts';

/** For what must go on after the plugin has gone: taking back, and DELs. The runtime will ask again. */
const cleanupMs = 30_000;

export interface CallPorts {
  readonly ipam: Ipam;
  readonly network: PodNetwork;
  readonly deletions: RecordedDeletions;
  readonly log: Log;
}

export interface CallOutcome {
  readonly reply: WireReply;
  /** The CNI code of a failure, 0 otherwise; for metrics. */
  readonly code: number;
  readonly command: string;
  /** To be called if the answer cannot be delivered: nobody would know of the pod then. */
  readonly undo?: () => Promise<void>;
}

/** The CNI commands. Calls for one container are served one after another, those for different containers side by side. */
export class CniCalls {
  readonly #ports: CallPorts;
  readonly #queue = new KeyedQueue();

  constructor(ports: CallPorts) {
    this.#ports = ports;
  }

  /** Never throws. @param signal the plugin has gone, or its deadline has come */
  async handle(wire: WireRequest, signal: AbortSignal): Promise<CallOutcome> {
    let version: CniVersion = newestVersion;
    let command = wire.env.CNI_COMMAND ?? '';
    try {
      const request = parseCniRequest(wire.env, wire.conf);
      command = request.command;
      if (request.command !== 'VERSION') version = request.cniVersion;
      return { command, code: 0, ...(await this.#dispatch(request, wire.attempt, signal)) };
    } catch (thrown) {
      const error = toCniError(thrown, 'request');
      this.#logFailure(command, wire, error, thrown);
      return { command, code: error.code, reply: { exit: 1, stdout: formatError(error, version) } };
    }
  }

  /** Does the DELs that were written down. One that fails stays written down, and the others are done all the same. */
  async settleDeletions(signal: AbortSignal): Promise<void> {
    for (const { attachment } of await this.#ports.deletions.list()) {
      if (signal.aborted) return;
      try {
        await this.#queue.run(attachment.containerId, () => this.#settle(attachment), signal);
      } catch (thrown) {
        this.#ports.log.warn('a recorded DEL failed', { ...attachment, reason: toCniError(thrown, 'wiring').message });
      }
    }
  }

  async #dispatch(request: CniRequest, attempt: number, signal: AbortSignal): Promise<Pick<CallOutcome, 'reply' | 'undo'>> {
    switch (request.command) {
      case 'VERSION':
        return { reply: { exit: 0, stdout: formatVersions() } };
      case 'ADD':
        return await this.#add(request, attempt, signal);
      case 'DEL':
        return await silent(this.#del(request, signal));
      case 'CHECK':
        return await silent(this.#check(request, signal));
      case 'STATUS':
        return await silent(this.#status());
      case 'GC':
        return await silent(this.#collectGarbage(request, signal));
    }
  }

  async #add(request: AddRequest, attempt: number, signal: AbortSignal): Promise<Pick<CallOutcome, 'reply' | 'undo'>> {
    const wanted = { addresses: request.requestedIps.map(parseIp), mac: requestedMac(request) };
    if (request.ipamType !== undefined)
      throw new CniError(
        cniCodes.unsupportedField,
        `ipam.type: ${JSON.stringify(request.ipamType)} is not supported`,
        'leave it out, or say "seine"',
      );
    await this.#ready(signal);
    const { containerId } = request.attachment;
    const lease = await this.#queue.run(containerId, () => this.#addAlone(request, wanted, attempt, signal), signal);
    if (!lease.attached) throw new SeineError('INVARIANT', 'an ADD ended without an attachment');
    const result = resultOf(lease, lease.attached, request.dns, request.prevResult);
    const undo = () => this.#queue.run(containerId, () => this.#takeBack(lease), new AbortController().signal);
    return { reply: { exit: 0, stdout: formatResult(result, request.cniVersion) }, undo };
  }

  async #addAlone(request: AddRequest, wanted: Wanted, attempt: number, signal: AbortSignal): Promise<Lease> {
    const { attachment: key, netns, pod } = request;
    const { ipam, network } = this.#ports;
    if (this.#ports.deletions.has(key)) await this.#settle(key);
    const existing = ipam.leaseOf(key);
    if (existing && (await this.#isStillGood(existing, request, attempt, signal))) return existing;
    if (existing) await this.#takeBack(existing);
    const { addresses, mac } = wanted;
    const leaseRequest = { ...key, netns, addresses, ...(pod ? { pod } : {}), ...(mac === undefined ? {} : { mac }) };
    const lease = await inStage('addresses', ipam.allocate(leaseRequest, signal));
    try {
      const attached = await inStage('wiring', network.attach(lease, signal));
      ipam.confirm(key, attached);
      if (!signal.aborted) return { ...lease, attached };
      await this.#takeBack(lease);
      throw new SeineError('CANCELLED', 'the plugin has gone');
    } catch (thrown) {
      ipam.release(key); // attach leaves nothing behind when it fails; after takeBack there is no lease any more
      throw thrown;
    }
  }

  /**
   * What to do with an ADD for something that has a lease.
   *
   * - Never acknowledged: the ADD was cut short by a crash of ours, and is done anew.
   * - Acknowledged, and the plugin lost us before the answer: it asks again for what may be done already, and gets the same
   *   answer if all of it is there.
   * - Acknowledged otherwise: the runtime has called ADD twice, which CNI forbids. Refused, and nothing is touched.
   */
  async #isStillGood(existing: Lease, request: AddRequest, attempt: number, signal: AbortSignal): Promise<boolean> {
    if (!existing.attached) return false;
    if (attempt === 1 || existing.netns !== request.netns)
      throw new CniError(
        cniCodes.alreadyAttached,
        `${existing.ifName} of container ${existing.containerId} is attached to ${existing.network} already`,
        'it was left as it is; DEL it first',
      );
    return (await inStage('wiring', this.#ports.network.check(existing, existing.attached, signal))).length === 0;
  }

  async #del(request: DelRequest, signal: AbortSignal): Promise<void> {
    await this.#ready(signal);
    const { attachment } = request;
    await this.#queue.run(attachment.containerId, () => this.#delAlone(attachment), signal);
  }

  /** Once begun it is finished even if the plugin goes away: half a DEL is worth nothing. */
  async #delAlone(key: AttachmentKey): Promise<void> {
    await inStage('wiring', this.#ports.network.detach(key, AbortSignal.timeout(cleanupMs)));
    this.#ports.ipam.release(key);
    await this.#ports.deletions.remove(key);
  }

  /** Does a recorded DEL, unless somebody has done it meanwhile. */
  async #settle(key: AttachmentKey): Promise<void> {
    if (this.#ports.deletions.has(key)) await this.#delAlone(key);
  }

  async #check(request: CheckRequest, signal: AbortSignal): Promise<void> {
    await this.#ready(signal);
    const { attachment, netns } = request;
    const differences = await this.#queue.run(
      attachment.containerId,
      async () => {
        const lease = this.#ports.ipam.leaseOf(attachment);
        if (!lease)
          throw new CniError(
            cniCodes.unknownContainer,
            `container ${attachment.containerId} has no ${attachment.ifName} on ${attachment.network}`,
          );
        if (!lease.attached) return ['its ADD was never finished'];
        const actual = await inStage('wiring', this.#ports.network.check({ ...lease, netns }, lease.attached, signal));
        return [...differencesFromResult(lease, request), ...actual];
      },
      signal,
    );
    const [first, ...others] = differences;
    if (first !== undefined) throw new CniError(cniCodes.checkFailed, first, others.join('; '));
  }

  async #status(): Promise<void> {
    const ready = this.#ports.network.ready();
    if (ready.state !== 'ready')
      throw new CniError(ready.state === 'impaired' ? cniCodes.notAvailableLimited : cniCodes.notAvailable, ready.reason);
    const { ipam } = this.#ports;
    if (ipam.failure) throw new CniError(cniCodes.notAvailable, 'no address can be lent: the IPAM journal cannot be written');
    const full = ipam.usage().find(({ size, allocated, quarantined }) => allocated + quarantined >= size);
    if (full) throw new CniError(cniCodes.notAvailable, `no address is left in ${full.cidr}`);
  }

  /** Goes on after a failure and reports them together. An ADD under way is younger than the runtime's list and is left alone. */
  async #collectGarbage(request: GcRequest, signal: AbortSignal): Promise<void> {
    await this.#ready(signal);
    const valid = new Set(request.validAttachments.map(({ containerId, ifName }) => `${containerId}/${ifName}`));
    const stale = this.#ports.ipam
      .leases()
      .filter(
        (lease) => lease.state === 'allocated' && lease.network === request.network && !valid.has(`${lease.containerId}/${lease.ifName}`),
      )
      .filter(({ containerId }) => !this.#queue.isBusy(containerId));
    const failures: string[] = [];
    for (const lease of stale) {
      try {
        await this.#queue.run(lease.containerId, () => this.#takeBack(lease), signal);
      } catch (thrown) {
        failures.push(`${lease.containerId}/${lease.ifName}: ${toCniError(thrown, 'wiring').message}`);
      }
    }
    if (failures.length > 0)
      throw new CniError(
        cniCodes.wiringFailed,
        `${failures.length} of ${stale.length} attachments not removed`,
        failures.slice(0, 20).join('; '),
      );
  }

  /** Takes an attachment down, unless its lease is no longer the one meant: somebody may have done so and attached anew. */
  async #takeBack(lease: Lease): Promise<void> {
    if (this.#ports.ipam.leaseOf(lease)?.serial === lease.serial) await this.#delAlone(lease);
  }

  /** @throws CniError 11 with the reason if the data plane is not ready by then */
  async #ready(signal: AbortSignal): Promise<void> {
    const { network } = this.#ports;
    if (network.ready().state === 'ready') return;
    try {
      await abortable(network.whenReady(signal), signal);
    } catch (thrown) {
      const now = network.ready();
      throw new CniError(cniCodes.tryAgainLater, now.state === 'ready' ? String(thrown) : now.reason);
    }
  }

  #logFailure(command: string, { env, attempt }: WireRequest, error: CniError, thrown: unknown): void {
    const fields = {
      command,
      container: env.CNI_CONTAINERID,
      interface: env.CNI_IFNAME,
      attempt,
      code: error.code,
      reason: error.message,
      details: error.details,
    };
    if (error.code === cniCodes.internal)
      this.#ports.log.error('CNI call failed by a bug', { ...fields, stack: thrown instanceof Error ? thrown.stack : undefined });
    else this.#ports.log.warn('CNI call failed', fields);
  }
}

interface Wanted {
  readonly addresses: readonly Ip[];
  readonly mac: Mac | undefined;
}

async function silent(work: Promise<void>): Promise<Pick<CallOutcome, 'reply'>> {
  await work;
  return { reply: { exit: 0, stdout: '' } };
}

async function inStage<T>(stage: CallStage, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (thrown) {
    throw toCniError(thrown, stage);
  }
}

function requestedMac({ requestedMac: text }: AddRequest): Mac | undefined {
  return text === undefined || text === '' ? undefined : parseMac(text);
}
