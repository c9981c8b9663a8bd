import { setTimeout as sleep } from 'node:timers/promises';
import { idle } from '../../../base/async/pause.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { Log } from '../../../base/log/log.ts';
import type { Ip } from '../../../base/net/ip.ts';
import { learnedCookie, learnedCookieMask, learnedCookieOf, type Owner } from '../../../dataplane/pipeline/cookie.ts';
import { tables } from '../../../dataplane/pipeline/tables.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import type { FlowStats } from '../../../openflow/flows/flow-stats.ts';
import { idleTimeoutOf, type LearnedChoice, longestSwitchTimeout, mayChoose, narrows } from '../../compile/learned-choice.ts';
import type { ServiceIntent } from '../../compile/service-intent.ts';
import type { ServiceChange, ServiceSubscriber } from '../service-changes.ts';
import { readLearnedFlow, strictDelete, withIdleTimeout } from './learned-flow.ts';

/**
 * Times of checks of learned choices after a change (ms after the acknowledgement): a packet in transit may learn the old choice again
 * through data path entries of the old flows.
 */
const AFTER_MS = [0, 40, 600] as const;
/** Interval between checks of choices with timeouts that OVS cannot enforce (ms). */
const LONG_CHECK_MS = 60_000;
/**
 * Delay before the next comparison of all choices (ms): after corrections, which a packet in transit may undo, and after a failure or
 * delayed removals.
 */
const AGAIN_MS = { corrected: 1_000, failed: 10_000, held: 10_000 } as const;
/**
 * Size of a loss that is delayed until a second check confirms it: more than this share, and at least this number, as for lists of the API
 * server.
 */
const HOLD = { share: 0.3, atLeast: 5 } as const;
/** Maximum number of ports whose choices are listed individually. */
const LISTED_ALONE = 64;
const WHOLE_COOKIE = 0xffff_ffff_ffff_ffffn;

interface AffinityKeeperOptions {
  readonly bridge: Pick<OpenFlowConnection, 'dumpFlows' | 'bundle' | 'untilUp'>;
  /** Reports whether an address is in the pod networks of this node, including the gateway's addresses. */
  readonly isOwn: (ip: Ip) => boolean;
  /**
   * Called after choices that are not allowed were removed and none is delayed: other learned flows that are not desired are foreign. May
   * be called again.
   */
  readonly compared?: () => void;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly nowMs?: () => number;
}

/** Result of a comparison: nothing to do, corrected choices, or removals that wait for a second comparison. */
type AffinityComparison = 'kept' | 'corrected' | 'held';

/** Flow-mod that changes the timeout of a choice. */
interface Renewal {
  readonly cookie: bigint;
  readonly choice: LearnedChoice;
  readonly message: Uint8Array;
}

interface Use {
  readonly packets: bigint;
  readonly sinceMs: number;
}

/**
 * Removes learned choices of endpoints where OVS does not: the Service may not choose that endpoint for that client any more, or its
 * timeout is longer than a flow's can be. A choice has the timeout of the time when it was learned: the keeper replaces it when the
 * Service's timeout changes.
 */
export class AffinityKeeper implements ServiceSubscriber {
  readonly #options: AffinityKeeperOptions;
  readonly #nowMs: () => number;
  /** Ports with affinity, by the cookie of their learned flows. */
  readonly #ports = new Map<bigint, ServiceIntent>();
  /** Timeouts enforced by the agent (s), by cookie. */
  readonly #long = new Map<bigint, number>();
  /** Last observed use of each of their choices, by match. */
  #uses = new Map<string, Use>();
  #removed = 0;
  #held = 0;
  /** True if choices may be outdated: nothing was compared yet, or a removal failed. */
  #isBehind = true;

  constructor(options: AffinityKeeperOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? (() => performance.now());
  }

  /** Number of choices removed. */
  get removed(): number {
    return this.#removed;
  }

  /** Number of choices that are no longer allowed and wait for a second check, because they are many. */
  get held(): number {
    return this.#held;
  }

  /** Schedules checks of ports. A Service may have thousands: their choices are checked together. */
  changed({ ports }: Pick<ServiceChange, 'ports'>, acknowledged: Promise<void>): void {
    const narrowed = new Set<bigint>();
    for (const { owner, was, is } of ports) {
      this.#note(owner, is);
      if (was?.affinitySeconds === undefined) continue;
      if (was.affinitySeconds !== is?.affinitySeconds || narrows(was, is)) narrowed.add(learnedCookieOf(owner));
    }
    if (narrowed.size > 0) this.#clean(narrowed, acknowledged).catch((thrown: unknown) => this.#failed(thrown));
  }

  #note(owner: Owner, after: ServiceIntent | undefined): void {
    const seconds = after?.affinitySeconds ?? 0;
    if (after && seconds > 0) this.#ports.set(learnedCookieOf(owner), after);
    else this.#ports.delete(learnedCookieOf(owner));
    if (seconds > longestSwitchTimeout) this.#long.set(learnedCookieOf(owner), seconds);
    else this.#long.delete(learnedCookieOf(owner));
  }

  /**
   * Compares present choices with what the Services allow now, which may have changed while no agent ran, and expires long choices; until
   * the signal.
   *
   * @param inStep resolves once every known Service is on the bridge; rejects only when the agent stops
   */
  async run(inStep: Promise<void>): Promise<void> {
    const { signal } = this.#options;
    const isInStep = await inStep.then(
      () => true,
      () => false,
    );
    while (isInStep && !signal.aborted) {
      const result = this.#isBehind ? await this.#tryCompare() : 'kept';
      await idle(result === 'kept' ? LONG_CHECK_MS : AGAIN_MS[result], signal);
      if (!signal.aborted) await this.expire().catch((thrown: unknown) => this.#failed(thrown));
    }
  }

  async #tryCompare(): Promise<AffinityComparison | 'failed'> {
    try {
      const result = await this.compare();
      this.#isBehind = result !== 'kept';
      if (result === 'held') return result;
      this.#options.compared?.();
      this.#options.log.working('affinity');
      return result;
    } catch (thrown) {
      this.#failed(thrown);
      return 'failed';
    }
  }

  /**
   * Removes every choice that is not allowed now, and gives the others the timeout of their Service. Many removals at once could themselves
   * cause an outage: they wait until a second comparison confirms them.
   */
  async compare(): Promise<AffinityComparison> {
    const { log } = this.#options;
    const learned = { table: tables.affinity.id, cookie: learnedCookie, cookieMask: learnedCookieMask };
    const gone: Uint8Array[] = [];
    const outdated: Renewal[] = [];
    let all = 0;
    await this.#list(learned, (flow) => {
      // Flows of fragments have no owner and live for seconds.
      if (flow.cookie === learnedCookie) return;
      all++;
      if (!this.#isAllowed(flow)) gone.push(strictDelete(flow));
      else outdated.push(...this.#renewalOf(flow));
    });
    await this.#renew(outdated);
    if (this.#held === 0 && gone.length >= HOLD.atLeast && gone.length > HOLD.share * all) {
      this.#held = gone.length;
      const message = 'mass removal of affinities with removed endpoints is delayed until a second check confirms it';
      log.failing('affinity', message, { remembered: all, notAllowed: gone.length, cause: 'more than 30 % at once' });
      return 'held';
    }
    this.#held = 0;
    await this.#delete(gone);
    return gone.length + outdated.length > 0 ? 'corrected' : 'kept';
  }

  /** Removes long choices that no new connection has used for their Service's timeout, as far as this agent has observed. */
  async expire(): Promise<void> {
    const uses = new Map<string, Use>();
    await this.#remove(this.#long, (flow) => {
      const key = Buffer.from(flow.match).toString('latin1');
      const known = this.#uses.get(key);
      const sinceMs = known?.packets === flow.packets ? known.sinceMs : this.#nowMs();
      uses.set(key, { packets: flow.packets, sinceMs });
      return this.#nowMs() - sinceMs >= (this.#long.get(flow.cookie) ?? Infinity) * 1_000;
    });
    this.#uses = uses;
  }

  async #clean(cookies: ReadonlySet<bigint>, acknowledged: Promise<void>): Promise<void> {
    const { signal } = this.#options;
    await acknowledged;
    let passedMs = 0;
    for (const atMs of AFTER_MS) {
      if (atMs > passedMs) await sleep(atMs - passedMs, undefined, { signal, ref: false });
      passedMs = atMs;
      const outdated: Renewal[] = [];
      await this.#remove(cookies, (flow) => {
        const isAllowed = this.#isAllowed(flow);
        if (isAllowed) outdated.push(...this.#renewalOf(flow));
        return !isAllowed;
      });
      await this.#renew(outdated);
    }
  }

  /** Returns the renewal; none if the flow has the timeout of its Service. */
  #renewalOf(flow: FlowStats): Renewal[] {
    const choice = readLearnedFlow(flow);
    const intent = this.#ports.get(flow.cookie);
    if (choice === undefined || intent === undefined) return [];
    const idleTimeout = idleTimeoutOf(intent);
    return flow.idleTimeout === idleTimeout ? [] : [{ cookie: flow.cookie, choice, message: withIdleTimeout(flow, idleTimeout) }];
  }

  /** Renews choices, except those that the Service has disallowed since they were read: renewing would undo the removal in progress. */
  async #renew(outdated: readonly Renewal[]): Promise<void> {
    const { bridge, signal, isOwn } = this.#options;
    const allowed = outdated.filter(({ cookie, choice }) => mayChoose(this.#ports.get(cookie), choice, isOwn));
    if (allowed.length > 0)
      await bridge.bundle(
        allowed.map(({ message }) => message),
        signal,
      );
  }

  #isAllowed(flow: FlowStats): boolean {
    const choice = readLearnedFlow(flow);
    return choice !== undefined && mayChoose(this.#ports.get(flow.cookie), choice, this.#options.isOwn);
  }

  /** Removes choices. OVS finds those of one port by their cookie. For more than a few ports all choices are listed once. */
  async #remove(cookies: ReadonlySet<bigint> | ReadonlyMap<bigint, unknown>, which: (flow: FlowStats) => boolean): Promise<void> {
    const gone: Uint8Array[] = [];
    const take = (flow: FlowStats): void => void (cookies.has(flow.cookie) && which(flow) && gone.push(strictDelete(flow)));
    const table = tables.affinity.id;
    if (cookies.size > LISTED_ALONE) await this.#list({ table, cookie: learnedCookie, cookieMask: learnedCookieMask }, take);
    else for (const cookie of cookies.keys()) await this.#list({ table, cookie, cookieMask: WHOLE_COOKIE }, take);
    await this.#delete(gone);
  }

  async #list(which: Parameters<AffinityKeeperOptions['bridge']['dumpFlows']>[0], take: (flow: FlowStats) => void): Promise<void> {
    const { bridge, signal } = this.#options;
    await bridge.untilUp(signal);
    await bridge.dumpFlows(which, take, signal);
  }

  async #delete(gone: readonly Uint8Array[]): Promise<void> {
    const { bridge, signal } = this.#options;
    if (gone.length > 0) await bridge.bundle(gone, signal);
    this.#removed += gone.length;
  }

  #failed(thrown: unknown): void {
    if (this.#options.signal.aborted) return;
    this.#isBehind = true;
    this.#options.log.failing('affinity', 'not all affinities with removed endpoints could be deleted; retrying', {
      cause: SeineError.from(thrown, 'session affinity').message,
    });
  }
}
