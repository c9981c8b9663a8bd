import { SeineError } from '../../base/errors/seine-error.ts';
import { compileDeniedLog } from '../../dataplane/compile/compile-denied-packets.ts';
import { familiesOf, type NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { deniedMeters } from '../../dataplane/pipeline/well-known.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { PodIdentity } from '../../pods/ipam/attachment.ts';

/** Maximum duration of a request (s): longer than anyone watches, so that a forgotten log ends. */
export const logSecondsMax = 24 * 3_600;
/** Maximum number of concurrent requests. */
const requestsMax = 64;

/** Pods whose denied packets are logged. `annotated`: pods with the annotation `seine.dev/log`, or in a namespace with it. */
export type LogDenied = 'off' | 'annotated' | 'all';

/** Attachment, as the log sees it. */
interface LoggedSubject {
  readonly owner: Owner;
  readonly ofPort: number;
  readonly pod?: PodIdentity;
}

/** Pods that an operator wants to see for a limited time: one pod, those of a namespace, or all. */
interface LogRequest {
  readonly namespace?: string;
  /** Name of a pod of the namespace. */
  readonly pod?: string;
}

interface HeldLogRequest extends LogRequest {
  readonly untilMs: number;
}

interface LoggedPodsOptions {
  readonly setting: LogDenied;
  /** Reports whether the pod, or else its namespace, is annotated. */
  readonly isAnnotated: (pod: PodIdentity) => boolean;
  /** Returns the current environment. */
  readonly environment: () => NodeEnvironment;
  readonly nodeState: Pick<NodeState, 'want' | 'forget'>;
  /** Milliseconds, from any fixed moment; never goes back. */
  readonly now: () => number;
}

/**
 * Pods whose denied packets OVS sends to the agent, and the rows that make it do so. Only pods that are annotated, configured, requested or
 * watched have such rows. Requests of operators end by themselves, and with this process.
 */
export class LoggedPods {
  readonly #options: LoggedPodsOptions;
  readonly #subjects = new Map<Owner, LoggedSubject>();
  readonly #byPort = new Map<number, LoggedSubject>();
  /** Environment for which the rows were made, by attachment. */
  readonly #shown = new Map<Owner, string>();
  #requests: HeldLogRequest[] = [];
  #watchers = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: LoggedPodsOptions) {
    this.#options = options;
  }

  add(subject: LoggedSubject): void {
    this.remove(subject.owner);
    if (!subject.pod) return; // no policy applies to it
    this.#subjects.set(subject.owner, subject);
    this.#byPort.set(subject.ofPort, subject);
    this.#show(subject);
  }

  /** Removes an attachment. @param owner owner of its flows in the entry tables */
  remove(owner: Owner): void {
    const subject = this.#subjects.get(owner);
    if (!subject) return;
    this.#subjects.delete(owner);
    if (this.#byPort.get(subject.ofPort) === subject) this.#byPort.delete(subject.ofPort);
    this.#hide(owner);
  }

  /** Updates the rows of all pods after a change of annotations or mode. */
  look(): void {
    for (const subject of this.#subjects.values()) this.#show(subject);
  }

  /** Returns the pod with this port; undefined if there is none, or the attachment is not a pod of the cluster. */
  podAt(ofPort: number): PodIdentity | undefined {
    return this.#byPort.get(ofPort)?.pod;
  }

  /** Returns the pod of a meter. @param meter meter of denied packets; the result is undefined for other meters */
  podOfMeter(meter: number): PodIdentity | undefined {
    return this.podAt(meter - deniedMeters.offset);
  }

  /** Reports whether lines are written for this pod; else its pairs are counted at most. */
  isWritten(pod: PodIdentity): boolean {
    const { setting, isAnnotated } = this.#options;
    return setting === 'all' || (setting === 'annotated' && isAnnotated(pod)) || this.#requests.some((request) => holds(request, pod));
  }

  /** Reports whether OVS sends packets of any pod. */
  get isActive(): boolean {
    return this.#shown.size > 0;
  }

  /** Requests of operators, and the time that they still last. */
  get requests(): readonly (LogRequest & { readonly secondsLeft: number })[] {
    const nowMs = this.#options.now();
    return this.#requests.map(({ untilMs, ...request }) => ({
      ...request,
      secondsLeft: Math.max(0, Math.ceil((untilMs - nowMs) / 1_000)),
    }));
  }

  /**
   * Adds a request, or replaces the one for the same pods.
   *
   * @param seconds duration from now, 1 to `logSecondsMax`
   * @throws SeineError `INVALID_INPUT` if there are too many requests
   */
  logFor(seconds: number, request: LogRequest): void {
    this.#requests = this.#requests.filter((each) => each.namespace !== request.namespace || each.pod !== request.pod);
    if (this.#requests.length >= requestsMax)
      throw new SeineError('INVALID_INPUT', `there are already ${requestsMax} such requests; end them, or log whole namespaces`);
    this.#requests.push({ ...request, untilMs: this.#options.now() + seconds * 1_000 });
    this.#expire();
  }

  /** Ends all requests of operators. */
  endRequests(): void {
    this.#requests = [];
    this.#expire();
  }

  /** Makes OVS send packets of all pods until the returned function is called. No additional lines are written. */
  watch(): () => void {
    this.#watchers++;
    this.look();
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#watchers--;
      this.look();
    };
  }

  /** Stops the timer. */
  close(): void {
    clearTimeout(this.#timer);
  }

  #expire(): void {
    clearTimeout(this.#timer);
    const nowMs = this.#options.now();
    this.#requests = this.#requests.filter(({ untilMs }) => untilMs > nowMs);
    this.look();
    if (this.#requests.length === 0) return;
    const next = Math.min(...this.#requests.map(({ untilMs }) => untilMs));
    this.#timer = setTimeout(() => this.#expire(), Math.max(1, Math.ceil(next - nowMs))).unref();
  }

  #show(subject: LoggedSubject): void {
    const { environment, nodeState } = this.#options;
    const { owner, ofPort, pod } = subject;
    const now = environment();
    const isWanted = now.policyMode !== 'off' && pod !== undefined && (this.#watchers > 0 || this.isWritten(pod));
    if (!isWanted) {
      this.#hide(owner);
      return;
    }
    const madeFor = `${now.policyMode} ${familiesOf(now).join()}`;
    if (this.#shown.get(owner) === madeFor) return;
    this.#shown.set(owner, madeFor);
    nodeState.want(rowsOwner(owner), compileDeniedLog(ofPort, now));
  }

  #hide(owner: Owner): void {
    if (this.#shown.delete(owner)) this.#options.nodeState.forget(rowsOwner(owner));
  }
}

function rowsOwner(subject: Owner): Owner {
  return ownerOf('policy', 'log', subject);
}

function holds({ namespace, pod }: LogRequest, of: PodIdentity): boolean {
  return (namespace === undefined || namespace === of.namespace) && (pod === undefined || pod === of.name);
}
