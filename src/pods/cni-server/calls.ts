import { once } from 'node:events';
import { abortable } from '../../base/async/abortable.ts';
import type { LoopTurns } from '../../base/async/loop-turns.ts';
import { CniError, cniCodes, formatError } from '../../cni/errors.ts';
import { toCniError } from '../../cni/from-seine-error.ts';
import {
  type AddRequest,
  type CheckRequest,
  type CniRequest,
  type DelRequest,
  type GcRequest,
  parseCniRequest,
  type StatusRequest,
} from '../../cni/request.ts';
import { formatResult } from '../../cni/result.ts';
import { type CniVersion, formatVersions, newestVersion } from '../../cni/versions.ts';
import type { WireReply, WireRequest } from '../../cni/wire.ts';
import type { ReadyState } from '../../nodes/local/readiness.ts';
import type { DelegatedIpam } from '../ipam/delegated-ipam.ts';
import { attachmentId, type Lease } from '../ipam/lease.ts';
import type { PodLookup } from '../network/node-pods.ts';
import { AttachmentAddresses, type Caller } from './addresses.ts';
import { type AttachmentPorts, Attachments } from './attachments.ts';
import type { RecordedDeletion } from './deletions.ts';
import { assertTrustedNetnsPath } from './netns-path.ts';
import { resultOf } from './result.ts';
import { type StageName, StageTimes } from './stages.ts';

/** Time limit for an undo to get its turn among the container's calls (ms). */
const undoMs = 60_000;
/** Number of recorded DELs processed in parallel. A node that was drained without an agent has a DEL for each pod. */
const settledAtOnce = 16;
/** Maximum length of unverified input in the log (characters). */
const LOGGED_LENGTH_MAX = 100;

interface CallPorts extends Omit<AttachmentPorts, 'addresses'> {
  readonly delegatedIpam: DelegatedIpam;
  /** True if STATUS fails when no address is left. */
  readonly reportPoolExhausted: boolean;
  readonly pods: PodLookup | undefined;
  /** Shares the event loop between the long jobs of the process. */
  readonly turns?: LoopTurns | undefined;
  readonly onCall?: ((call: ServedCall) => void) | undefined;
  /** Reports whether the plugin must make the namespace of pre-plugged ports. */
  readonly pinPorts?: (() => boolean) | undefined;
}

export interface ServedCall {
  readonly command: string;
  /** CNI error code, or 0. */
  readonly code: number;
  readonly tookMs: number;
  /** Durations (ms); stages that the call did not reach are missing. */
  readonly stages: readonly (readonly [StageName, number])[];
  /** `namespace/name`, as the runtime sent it; absent if it names no pod. */
  readonly pod?: string;
}

type CallContext = Omit<Caller, 'request'>;

interface CallReply {
  readonly reply: WireReply;
  /** Undoes the call. Called if the reply cannot be delivered, because the runtime then does not know of the pod. */
  readonly undo?: () => Promise<void>;
}

interface CallOutcome extends CallReply {
  readonly command: string;
  /** CNI error code, or 0; for metrics. */
  readonly code: number;
  readonly stages: StageTimes;
}

/** The commands of CNI. */
export class CniCalls {
  readonly #ports: CallPorts;
  readonly #addresses: AttachmentAddresses;
  readonly #attachments: Attachments;
  readonly #drained = new AbortController();

  constructor(ports: CallPorts) {
    this.#ports = ports;
    this.#addresses = new AttachmentAddresses(ports.ipam, ports.delegatedIpam);
    this.#attachments = new Attachments({ ...ports, addresses: this.#addresses });
  }

  /**
   * Answers a plugin before long jobs of the process continue. Never throws.
   *
   * @param signal aborts when the plugin disconnects or its deadline passes
   */
  async answer(wire: WireRequest, signal: AbortSignal): Promise<CallReply> {
    const { turns, pinPorts } = this.#ports;
    const startedMs = performance.now();
    const handled = this.handle(wire, signal);
    const outcome = await (turns?.during(handled) ?? handled);
    const tookMs = performance.now() - startedMs;
    setImmediate(() => this.#note(wire, outcome, tookMs)); // the reply is sent first
    const { reply, undo } = outcome;
    const pin = pinPorts?.() === true ? { pinPorts: true } : {};
    return { reply: { ...reply, ...pin }, ...(undo ? { undo } : {}) };
  }

  /** Handles a request. Never throws. @param signal aborts when the plugin disconnects or its deadline passes */
  async handle(wire: WireRequest, signal: AbortSignal): Promise<CallOutcome> {
    let version: CniVersion = newestVersion;
    let command = wire.env.CNI_COMMAND ?? '';
    const stages = new StageTimes();
    try {
      const request = parseCniRequest(wire.env, wire.conf);
      command = request.command;
      if (request.command !== 'VERSION') version = request.cniVersion;
      const answer = await this.#dispatch(request, { wire, stages }, signal);
      return { command, code: 0, stages, ...answer };
    } catch (thrown) {
      const error = toCniError(thrown, 'request');
      this.#logFailure(command, wire, error, thrown);
      return { command, code: error.code, stages, reply: { exit: 1, stdout: formatError(error, version) } };
    }
  }

  #note(wire: WireRequest, { command, code, stages }: CallOutcome, tookMs: number): void {
    const { log, onCall } = this.#ports;
    if (code === 0) log.working(callKey(command, wire));
    const pod = podNameIn(wire);
    onCall?.({ command, code, tookMs, stages: stages.entries, ...(pod === undefined ? {} : { pod }) });
  }

  /**
   * Processes recorded DELs. A DEL that fails stays recorded, and the others are processed anyway. No ADD is served before the first call
   * has finished: it may need the addresses and interfaces of deleted pods.
   */
  async settleDeletions(signal: AbortSignal): Promise<void> {
    const left = (await this.#ports.deletions.list()).values();
    const settle = async (): Promise<void> => {
      for (const deletion of left) if (!signal.aborted) await this.#settle(deletion, signal);
    };
    await Promise.all(Array.from({ length: settledAtOnce }, settle));
    if (!signal.aborted) this.#drained.abort();
  }

  /** Does the work of a DEL for a deleted pod whose DEL has not arrived. @throws CniError 102; the call can then be repeated */
  async abandon(lease: Lease, signal: AbortSignal): Promise<void> {
    await this.#attachments.abandon(lease, signal);
  }

  async #settle(deletion: RecordedDeletion, signal: AbortSignal): Promise<void> {
    try {
      await this.#attachments.settle({ ...deletion, stages: new StageTimes() }, signal);
    } catch (thrown) {
      const { attachment } = deletion.request;
      const { message: cause } = toCniError(thrown, 'wiring');
      this.#ports.log.failing(`DEL ${attachmentId(attachment)}`, 'a recorded DEL failed', { ...attachment, cause });
    }
  }

  async #dispatch(request: CniRequest, context: CallContext, signal: AbortSignal): Promise<CallReply> {
    switch (request.command) {
      case 'VERSION':
        return { reply: { exit: 0, stdout: formatVersions() } };
      case 'ADD':
        return await this.#add(request, context, signal);
      case 'DEL':
        return await silent(this.#del(request, context, signal));
      case 'CHECK':
        return await silent(this.#check(request, context, signal));
      case 'STATUS':
        return await silent(this.#status(request, context, signal));
      case 'GC':
        return await silent(this.#collectGarbage(request, context, signal));
    }
  }

  async #add(request: AddRequest, context: CallContext, signal: AbortSignal): Promise<CallReply> {
    assertTrustedNetnsPath(request.netns);
    await context.stages.measure('ready', this.#readyForAdd(signal));
    const { pods } = this.#ports;
    if (pods && request.pod) await context.stages.measure('ready', pods.expect(request.pod, signal));
    const caller = { request, ...context };
    const lease = await this.#attachments.add(caller, signal);
    const result = resultOf(lease, lease.attached, request.dns, request.prevResult);
    return {
      reply: { exit: 0, stdout: formatResult(result, request.cniVersion) },
      undo: () => this.#attachments.takeBack(lease, caller, AbortSignal.timeout(undoMs)),
    };
  }

  async #del(request: DelRequest, context: CallContext, signal: AbortSignal): Promise<void> {
    await context.stages.measure('ready', this.#ready(signal));
    await this.#attachments.remove({ request, ...context }, signal);
  }

  async #check(request: CheckRequest, context: CallContext, signal: AbortSignal): Promise<void> {
    assertTrustedNetnsPath(request.netns);
    await context.stages.measure('ready', this.#ready(signal));
    const [first, ...others] = await this.#attachments.check({ request, ...context }, signal);
    if (first !== undefined) throw new CniError(cniCodes.checkFailed, first, others.join('; '));
  }

  async #status(request: StatusRequest, { wire }: CallContext, signal: AbortSignal): Promise<void> {
    const { ipam, reportPoolExhausted } = this.#ports;
    const ready = await this.#readyOrNot(signal);
    if (ready.state !== 'ready')
      throw new CniError(ready.state === 'impaired' ? cniCodes.notAvailableLimited : cniCodes.notAvailable, ready.reason);
    if (ipam.failure) throw new CniError(cniCodes.notAvailable, 'no address can be allocated: the IPAM journal cannot be written');
    if (request.ipamType !== undefined) return await this.#addresses.status(request, wire, signal);
    const full = reportPoolExhausted ? await ipam.exhausted(signal) : undefined;
    if (full)
      throw new CniError(cniCodes.notAvailable, `no address is left in ${full.cidr}`, `${full.allocated} of ${full.size} are allocated`);
  }

  /**
   * Removes stale attachments, continues after failures and reports them together. An ADD in progress is newer than the runtime's list and
   * is not affected.
   */
  async #collectGarbage(request: GcRequest, context: CallContext, signal: AbortSignal): Promise<void> {
    await context.stages.measure('ready', this.#ready(signal));
    this.#ports.ipam.keepValid(request.network, request.validAttachments);
    const valid = new Set(request.validAttachments.map(({ containerId, ifName }) => `${containerId}/${ifName}`));
    const stale = this.#ports.ipam
      .leases()
      .filter(({ state, network }) => state === 'allocated' && network === request.network)
      .filter(({ containerId, ifName }) => !valid.has(`${containerId}/${ifName}`) && !this.#attachments.isBusy(containerId));
    const failures: string[] = [];
    for (const lease of stale) {
      try {
        await this.#attachments.takeBack(lease, { request, ...context }, signal);
      } catch (thrown) {
        failures.push(`${lease.containerId}/${lease.ifName}: ${toCniError(thrown, 'wiring').message}`);
      }
    }
    const ofPlugin = await failureOf(this.#addresses.collectGarbage(request, context.wire, signal));
    if (failures.length === 0 && ofPlugin) throw ofPlugin;
    if (failures.length === 0) return;
    throw new CniError(
      cniCodes.wiringFailed,
      `${failures.length} of ${stale.length} attachments not removed`,
      [...failures.slice(0, 20), ...(ofPlugin ? [ofPlugin.message] : [])].join('; '),
    );
  }

  /** Waits until ADDs can be served. @throws CniError 11, also if recorded DELs are not processed by then */
  async #readyForAdd(signal: AbortSignal): Promise<void> {
    await this.#ready(signal);
    const drained = this.#drained.signal;
    if (drained.aborted) return;
    try {
      await once(drained, 'abort', { signal });
    } catch {
      throw new CniError(cniCodes.tryAgainLater, 'DELs that were written down while no agent ran are not done yet');
    }
  }

  /** Waits for a starting agent, which is usually ready in a moment: each STATUS that fails makes the node NotReady. */
  async #readyOrNot(signal: AbortSignal): Promise<ReadyState> {
    const { network } = this.#ports;
    if (network.ready().state === 'starting') await abortable(network.whenReady(signal), signal).catch(() => undefined);
    return network.ready();
  }

  /** Waits until the data plane is ready. @throws CniError 11 with the reason if it is not ready by then */
  async #ready(signal: AbortSignal): Promise<void> {
    const { network } = this.#ports;
    if (network.ready().state === 'ready') return;
    try {
      await abortable(network.whenReady(signal), signal);
    } catch (thrown) {
      const now = network.ready();
      throw new CniError(cniCodes.tryAgainLater, now.state === 'ready' ? toCniError(thrown, 'request').message : now.reason);
    }
  }

  /**
   * Logs a failure. A runtime retries repeatedly, each time with a new container: for one pod, the failure is logged once and then at
   * growing intervals.
   */
  #logFailure(command: string, wire: WireRequest, error: CniError, thrown: unknown): void {
    const { env, attempt } = wire;
    const { code, message: cause, details } = error;
    const [container, ifName] = [env.CNI_CONTAINERID, env.CNI_IFNAME].map((value) => value?.slice(0, LOGGED_LENGTH_MAX));
    const fields = { command: command.slice(0, LOGGED_LENGTH_MAX), container, interface: ifName, attempt, code, cause, details };
    if (code === cniCodes.internal)
      this.#ports.log.error('CNI call failed with an internal error', {
        ...fields,
        stack: thrown instanceof Error ? thrown.stack : undefined,
      });
    else this.#ports.log.failing(callKey(command, wire), 'CNI call failed', fields);
  }
}

/** Key of a failing call: `ADD of NAMESPACE/NAME`, or the container if the runtime does not name the pod. */
function callKey(command: string, wire: WireRequest): string {
  const whose = podNameIn(wire) ?? wire.env.CNI_CONTAINERID?.slice(0, LOGGED_LENGTH_MAX);
  return `${command.slice(0, LOGGED_LENGTH_MAX)} of ${whose ?? 'no container'}`;
}

/** `namespace/name` of the pod, unchecked. */
function podNameIn({ env }: WireRequest): string | undefined {
  const named = (key: string): string | undefined => new RegExp(`(?:^|;)${key}=([^;]{1,253})`).exec(env.CNI_ARGS ?? '')?.[1];
  const [namespace, name] = [named('K8S_POD_NAMESPACE'), named('K8S_POD_NAME')];
  return namespace === undefined || name === undefined ? undefined : `${namespace}/${name}`;
}

async function failureOf(work: Promise<void>): Promise<CniError | undefined> {
  try {
    await work;
    return undefined;
  } catch (thrown) {
    return toCniError(thrown, 'addresses');
  }
}

async function silent(work: Promise<void>): Promise<CallReply> {
  await work;
  return { reply: { exit: 0, stdout: '' } };
}
