import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import { decodeSuspensions, encodeSuspensions, type SuspendedTarget, type Suspension } from './suspension-records.ts';

/** Maximum duration of a suspension (s): longer than any manual work, so that a forgotten one ends. */
const SECONDS_MAX = 24 * 3_600;
const REASON_MAX = 200;
const SUSPENSIONS_MAX = 100;
/** Period of the check for expired suspensions (ms). */
const CHECK_EVERY_MS = 1_000;

interface SuspensionsOptions {
  /** File that outlives the agent. */
  readonly file: { read(): string | undefined; write(text: string): Promise<void> };
  readonly clock: {
    /** Milliseconds since the epoch. */
    readonly wallMs: () => number;
    /** Milliseconds since boot, including time asleep (CLOCK_BOOTTIME). */
    readonly bootMs: () => number;
    readonly bootId: string;
  };
  /** Reports an event to the cluster. */
  readonly postEvent: (reason: 'PolicySuspended' | 'PolicyResumed', message: string, type: 'Normal' | 'Warning') => void;
  readonly log: Log;
}

/**
 * Break-glass: suspends policies for some pods, for a limited time and with a reason. Needs no API server. Each suspension ends by itself,
 * at the requested time or sooner, regardless of clock changes and of whether an agent ran meanwhile.
 */
export class Suspensions {
  readonly #options: SuspensionsOptions;
  readonly #held = new Map<string, Suspension>();
  /** Suspensions that ended while no agent ran. */
  readonly #endedAway: readonly Suspension[];
  readonly #listeners = new Set<() => void>();

  /** Reads what a previous agent has written. Entries that are not valid suspensions are ignored; an unreadable file is logged. */
  constructor(options: SuspensionsOptions) {
    this.#options = options;
    const found = this.#read();
    this.#endedAway = found.filter((each) => this.#isOver(each));
    for (const each of found.slice(0, SUSPENSIONS_MAX)) if (!this.#isOver(each)) this.#held.set(keyOf(each), each);
    for (const each of this.#held.values()) this.#say('policy is still suspended', each);
  }

  /** Returns the suspension of a pod. @param pod `namespace/name` */
  of(pod: string): Suspension | undefined {
    for (const each of this.#held.values()) if (covers(each, pod)) return each;
    return undefined;
  }

  /** Reports whether flows on the bridge for this pod may be those of a suspension that has ended. @param pod `namespace/name` */
  endedAway(pod: string): boolean {
    return this.#endedAway.some((each) => covers(each, pod));
  }

  /** Lists all suspensions for operators. @param pods pods of this node, `namespace/name`, to count those that each suspension opens */
  list(pods: Iterable<string> = []) {
    const here = [...pods];
    return Array.from(this.#held.values(), (each) => ({
      what: each.what,
      name: each.name,
      reason: each.reason,
      since: new Date(each.sinceMs).toISOString(),
      until: new Date(each.untilMs).toISOString(),
      pods: here.filter((pod) => covers(each, pod)).length,
    }));
  }

  /**
   * Subscribes to changes.
   *
   * @param listener called after a suspension was added or removed
   * @returns a function that ends the subscription
   */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Ends expired suspensions, until the returned function is called. */
  follow(): () => void {
    const timer = setInterval(() => this.#look(), CHECK_EVERY_MS).unref();
    return () => clearInterval(timer);
  }

  /**
   * Adds a suspension, or replaces the one of the same target. It is in force when this returns a promise, including for pods that start
   * meanwhile.
   *
   * @param asked duration from now in whole seconds, at most a day, and the reason in one line
   * @returns whether it outlives this agent; false if it could not be written to disk
   * @throws SeineError `INVALID_INPUT`
   */
  async suspend(target: SuspendedTarget, asked: { readonly seconds: number; readonly reason: string }): Promise<boolean> {
    const { clock, postEvent } = this.#options;
    check(target, asked);
    if (this.#held.size >= SUSPENSIONS_MAX && !this.#held.has(keyOf(target)))
      throw new SeineError('INVALID_INPUT', `there are ${SUSPENSIONS_MAX} suspensions: end some, or suspend the node`);
    const [sinceMs, forMs] = [clock.wallMs(), asked.seconds * 1_000];
    const { what, name } = target;
    const ends = { untilMs: sinceMs + forMs, bootEndMs: clock.bootMs() + forMs, bootId: clock.bootId };
    const suspension: Suspension = { what, name, reason: asked.reason, sinceMs, ...ends };
    this.#held.set(keyOf(target), suspension);
    this.#say('policy is suspended', suspension);
    const until = new Date(suspension.untilMs).toISOString();
    postEvent('PolicySuspended', `policies are suspended for ${targetText(target)} until ${until}: ${asked.reason}`, 'Warning');
    this.#changed();
    return await this.#write();
  }

  /** Ends a suspension. @returns whether there was one of exactly this target, and whether its end outlives this agent */
  async resume(target: SuspendedTarget): Promise<{ readonly was: boolean; readonly isRemembered: boolean }> {
    if (!this.#end(keyOf(target), 'requested by an operator')) return { was: false, isRemembered: true };
    this.#changed();
    return { was: true, isRemembered: await this.#write() };
  }

  #look(): void {
    const over = [...this.#held].filter(([, each]) => this.#isOver(each));
    for (const [key] of over) this.#end(key, 'the time is over');
    if (over.length === 0) return;
    this.#changed();
    void this.#write();
  }

  #end(key: string, why: string): boolean {
    const { postEvent, log } = this.#options;
    const ended = this.#held.get(key);
    if (!ended) return false;
    this.#held.delete(key);
    log.info('policy suspension ended', { target: targetText(ended), why });
    postEvent('PolicyResumed', `NetworkPolicy is in force again for ${targetText(ended)}: ${why}`, 'Normal');
    return true;
  }

  /**
   * Reports whether a suspension has ended by either clock. If the wall clock was set back to before its beginning, in another boot, it has
   * ended too.
   */
  #isOver({ sinceMs, untilMs, bootEndMs, bootId }: Suspension): boolean {
    const { wallMs, bootMs, bootId: thisBoot } = this.#options.clock;
    const now = wallMs();
    if (now >= untilMs) return true;
    return bootId === thisBoot ? bootMs() >= bootEndMs : now < sinceMs;
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }

  #read(): readonly Suspension[] {
    const { file, log } = this.#options;
    try {
      const text = file.read();
      return text === undefined ? [] : decodeSuspensions(text).filter(isSound);
    } catch (thrown) {
      log.error('policy suspensions cannot be read; no policy is suspended', { cause: SeineError.from(thrown, 'suspensions').message });
      return [];
    }
  }

  async #write(): Promise<boolean> {
    const { file, log } = this.#options;
    try {
      await file.write(encodeSuspensions([...this.#held.values()]));
      log.working('suspensions');
      return true;
    } catch (thrown) {
      log.failing('suspensions', 'suspensions of policies could not be stored: they are lost at a restart of the agent', {
        cause: SeineError.from(thrown, 'suspensions').message,
      });
      return false;
    }
  }

  #say(message: string, suspension: Suspension): void {
    const { reason, untilMs } = suspension;
    this.#options.log.warn(message, { target: targetText(suspension), until: new Date(untilMs).toISOString(), reason });
  }
}

/** Text of a target: `pod shop/db`, `namespace shop`, `this node`. */
function targetText({ what, name }: SuspendedTarget): string {
  return what === 'node' ? 'this node' : `${what} ${name}`;
}

/** Reports whether a target includes a pod. @param pod `namespace/name` */
function covers({ what, name }: SuspendedTarget, pod: string): boolean {
  return what === 'node' || (what === 'namespace' ? pod.startsWith(`${name}/`) : pod === name);
}

function keyOf({ what, name }: SuspendedTarget): string {
  return `${what} ${name}`;
}

/** Names of namespaces and pods (RFC 1123). */
const label = '[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?';
const names: Readonly<Record<SuspendedTarget['what'], RegExp>> = {
  pod: new RegExp(`^${label}/${label}$`),
  namespace: new RegExp(`^${label}$`),
  node: /^$/,
};

function check({ what, name }: SuspendedTarget, { seconds, reason }: { readonly seconds: number; readonly reason: string }): void {
  const refuse = (message: string): never => {
    throw new SeineError('INVALID_INPUT', message);
  };
  if (!names[what].test(name)) refuse(`${JSON.stringify(name)} is not a ${what}`);
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > SECONDS_MAX) refuse(`seconds: a whole number from 1 to ${SECONDS_MAX}`);
  if (reason.trim() === '' || reason.length > REASON_MAX || /\p{Cc}/u.test(reason))
    refuse(`reason: one line of 1 to ${REASON_MAX} characters`);
}

/** Reports whether a suspension is within the limits of `suspend`, because the file may have been changed by others. */
function isSound(suspension: Suspension): boolean {
  const { reason, sinceMs, untilMs } = suspension;
  try {
    check(suspension, { seconds: Math.ceil((untilMs - sinceMs) / 1_000), reason });
    return true;
  } catch {
    return false;
  }
}
