import { within } from '../../base/async/time-limit.ts';
import type { Log } from '../../base/log/log.ts';
import type { SwitchDatabase } from '../../dataplane/targets/switch/switch-database.ts';
import type { Readiness } from './readiness.ts';

/** How long a lock that is not ours right after a new connection counts as asked for, and not as another agent's (ms). */
const ANSWER_PATIENCE_MS = 500;

type DatabaseLock = ReturnType<SwitchDatabase['lock']>;

interface BridgeLockOptions {
  readonly database: SwitchDatabase;
  readonly bridge: string;
  readonly readiness: Readiness;
  readonly log: Log;
}

/**
 * One agent per bridge, by a lock of the switch's database. An agent without it reads and writes nothing.
 *
 * While the database cannot be reached no agent can take the lock, so the agent that had it goes on with what it can do.
 */
export class BridgeLock {
  /** RFC 7047 section 3.1 <id>: letters, digits and underscores only. */
  readonly name: string;
  readonly #options: BridgeLockOptions;
  readonly #lock: DatabaseLock;
  #state: 'never held' | 'held' | 'another’s' = 'never held';

  constructor(options: BridgeLockOptions) {
    this.name = `seine_${options.bridge.replace(/[^A-Za-z0-9]/g, '_')}`;
    this.#options = options;
    this.#lock = options.database.lock(this.name);
  }

  /** Why nothing may be written now; undefined if it may. */
  blockedBy(): string | undefined {
    return this.#state === 'held' ? undefined : `another agent holds bridge ${this.#options.bridge}`;
  }

  /** Waits until the bridge is ours for the first time. @throws SeineError `CANCELLED` */
  async take(signal: AbortSignal): Promise<void> {
    await this.#options.database.synced(signal);
    if (!(await this.#answeredWithin(signal))) this.#isHeldByOther();
    await this.#lock.whenHeld(signal);
    this.#isOurs();
  }

  /**
   * From `take` on, follows who has the lock, until the signal.
   *
   * @param regained it was another agent's for a while, who may have changed everything
   */
  async keep(regained: () => void, signal: AbortSignal): Promise<void> {
    const { database } = this.#options;
    try {
      for (;;) {
        await this.#lock.whenLost(signal);
        await database.synced(signal);
        if (await this.#answeredWithin(signal)) continue;
        this.#isHeldByOther();
        await this.#lock.whenHeld(signal);
        this.#isOurs();
        regained();
      }
    } catch (thrown) {
      if (!signal.aborted) throw thrown;
    }
  }

  /** True if the lock is ours within the time a server takes to say so. */
  async #answeredWithin(signal: AbortSignal): Promise<boolean> {
    const patience = within(signal, ANSWER_PATIENCE_MS);
    await this.#lock.whenHeld(patience).catch(() => signal.throwIfAborted());
    return this.#lock.held;
  }

  #isHeldByOther(): void {
    const { bridge, readiness, log } = this.#options;
    this.#state = 'another’s';
    readiness.obstruct('lock', 'starting', `another agent holds bridge ${bridge}`);
    log.warn('another agent holds the bridge; nothing is written until it lets go', { lock: this.name });
  }

  #isOurs(): void {
    const { readiness, log } = this.#options;
    if (this.#state === 'another’s') log.info('the bridge is ours', { lock: this.name });
    this.#state = 'held';
    readiness.clear('lock');
  }
}
