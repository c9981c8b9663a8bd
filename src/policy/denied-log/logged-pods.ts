import { SeineError } from '../../base/errors/seine-error.ts';
import { compileDeniedLog } from '../../dataplane/compile/compile-denied-log.ts';
import { familiesOf, type NodeEnvironment } from '../../dataplane/compile/environment.ts';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { deniedMeters } from '../../dataplane/pipeline/well-known.ts';
import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { PodIdentity } from '../../pods/ipam/attachment.ts';

/** Longer than anybody watches: a log that is forgotten ends. */
export const logSecondsMax = 24 * 3_600;
/** Requests of operators at a time. */
const requestsMax = 64;

/** Of which pods what they are denied is logged. `annotated`: those that say so by `seine.dev/log`, or whose namespace does. */
export type LogDenied = 'off' | 'annotated' | 'all';

/** An attachment, as the log has to know it. */
interface LoggedSubject {
  readonly owner: Owner;
  readonly ofPort: number;
  readonly pod?: PodIdentity;
}

/** Pods that an operator wants to see for a while: one, those of a namespace, or all. */
interface LogRequest {
  readonly namespace?: string;
  /** Of the namespace. */
  readonly pod?: string;
}

interface HeldLogRequest extends LogRequest {
  readonly untilMs: number;
}

interface LoggedPodsOptions {
  readonly setting: LogDenied;
  /** Whether the pod is annotated, or else its namespace. */
  readonly isAnnotated: (pod: PodIdentity) => boolean;
  /** As of now. */
  readonly environment: () => NodeEnvironment;
  readonly nodeState: Pick<NodeState, 'want' | 'forget'>;
  /** Milliseconds, from any fixed moment; never goes back. */
  readonly now: () => number;
}

/**
 * The pods whose denied packets the switch shows to the agent, and the rows that make it do so. They are there for pods that somebody wants
 * to see, and for nobody else. Requests of operators end by themselves, and with this process.
 */
export class LoggedPods {
  readonly #options: LoggedPodsOptions;
  readonly #subjects = new Map<Owner, LoggedSubject>();
  readonly #byPort = new Map<number, LoggedSubject>();
  /** By attachment, what of the environment its rows were made for. */
  readonly #shown = new Map<Owner, string>();
  #requests: HeldLogRequest[] = [];
  #watchers = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: LoggedPodsOptions) {
    this.#options = options;
  }

  add(subject: LoggedSubject): void {
    this.remove(subject.owner);
    if (!subject.pod) return; // no policy concerns it
    this.#subjects.set(subject.owner, subject);
    this.#byPort.set(subject.ofPort, subject);
    this.#show(subject);
  }

  /** @param owner of the attachment's flows in the entry tables */
  remove(owner: Owner): void {
    const subject = this.#subjects.get(owner);
    if (!subject) return;
    this.#subjects.delete(owner);
    if (this.#byPort.get(subject.ofPort) === subject) this.#byPort.delete(subject.ofPort);
    this.#hide(owner);
  }

  /** Something that decides who is shown may be otherwise now: annotations, mode. */
  look(): void {
    for (const subject of this.#subjects.values()) this.#show(subject);
  }

  /** Of the attachment that has this port; undefined if none has, or none that is a pod of the cluster. */
  podAt(ofPort: number): PodIdentity | undefined {
    return this.#byPort.get(ofPort)?.pod;
  }

  /** @param meter of denied packets; undefined for another one's */
  podOfMeter(meter: number): PodIdentity | undefined {
    return this.podAt(meter - deniedMeters.offset);
  }

  /** Whether lines are written of this pod, and not only pairs counted. */
  isWritten(pod: PodIdentity): boolean {
    const { setting, isAnnotated } = this.#options;
    return setting === 'all' || (setting === 'annotated' && isAnnotated(pod)) || this.#requests.some((request) => holds(request, pod));
  }

  /** Whether the switch shows anything at all. */
  get isActive(): boolean {
    return this.#shown.size > 0;
  }

  /** What operators want to see, and for how long still. */
  get requests(): readonly (LogRequest & { readonly secondsLeft: number })[] {
    const nowMs = this.#options.now();
    return this.#requests.map(({ untilMs, ...request }) => ({
      ...request,
      secondsLeft: Math.max(0, Math.ceil((untilMs - nowMs) / 1_000)),
    }));
  }

  /**
   * @param seconds from now, 1 to `logSecondsMax`; of the same pods another request ends
   * @throws SeineError `INVALID_INPUT` if there are too many requests
   */
  logFor(seconds: number, request: LogRequest): void {
    this.#requests = this.#requests.filter((each) => each.namespace !== request.namespace || each.pod !== request.pod);
    if (this.#requests.length >= requestsMax)
      throw new SeineError('INVALID_INPUT', `there are ${requestsMax} such requests already; end them, or log whole namespaces`);
    this.#requests.push({ ...request, untilMs: this.#options.now() + seconds * 1_000 });
    this.#expire();
  }

  /** All requests of operators end. */
  endRequests(): void {
    this.#requests = [];
    this.#expire();
  }

  /** All pods are shown until the function is called that it returns. Nothing more is written for it. */
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

  /** Nothing is waited for any more. */
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
