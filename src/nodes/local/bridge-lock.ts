import { within } from '../../base/async/time-limit.ts';
import type { Log } from '../../base/log/log.ts';
import type { SwitchDatabase } from '../../dataplane/targets/switch/switch-database.ts';
import type { Readiness } from './readiness.ts';

/** Time after a new connection during which a lock that this agent does not have counts as requested, not as another agent's (ms). */
const ANSWER_PATIENCE_MS = 500;

type DatabaseLock = ReturnType<SwitchDatabase['lock']>;

interface BridgeLockOptions {
  readonly database: SwitchDatabase;
  readonly bridge: string;
  readonly readiness: Readiness;
  readonly log: Log;
}

/**
 * Ensures one agent per bridge, with an OVSDB lock. An agent without it reads and writes nothing.
 *
 * While OVSDB cannot be reached no agent can take the lock, so the agent that had it continues as far as it can.
 */
export class BridgeLock {
  /** Name of the lock. RFC 7047 section 3.1 <id>: only letters, digits and underscores. */
  readonly name: string;
  readonly #options: BridgeLockOptions;
  readonly #lock: DatabaseLock;
  #state: 'never acquired' | 'held' | 'another’s' = 'never acquired';

  constructor(options: BridgeLockOptions) {
    this.name = `seine_${options.bridge.replace(/[^A-Za-z0-9]/g, '_')}`;
    this.#options = options;
    this.#lock = options.database.lock(this.name);
  }

  /** Returns the reason why nothing may be written now; undefined if it may. */
  blockedBy(): string | undefined {
    return this.#state === 'held' ? undefined : `bridge lock is held by another agent: ${this.#options.bridge}`;
  }

  /** Waits until this agent has the bridge for the first time. @throws SeineError `CANCELLED` */
  async take(signal: AbortSignal): Promise<void> {
    await this.#options.database.synced(signal);
    if (!(await this.#answeredWithin(signal))) this.#isHeldByOther();
    await this.#lock.whenHeld(signal);
    this.#isOurs();
  }

  /**
   * Follows the holder of the lock after `take`, until the signal.
   *
   * @param regained called when another agent had the lock for a while: it may have changed everything
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

  /** True if OVSDB grants the lock within the time that a server takes to answer. */
  async #answeredWithin(signal: AbortSignal): Promise<boolean> {
    const patience = within(signal, ANSWER_PATIENCE_MS);
    await this.#lock.whenHeld(patience).catch(() => signal.throwIfAborted());
    return this.#lock.held;
  }

  #isHeldByOther(): void {
    const { bridge, readiness, log } = this.#options;
    this.#state = 'another’s';
    readiness.obstruct('lock', 'starting', `bridge lock is held by another agent: ${bridge}`);
    log.warn('bridge lock is held by another agent; writes are suspended', { lock: this.name });
  }

  #isOurs(): void {
    const { readiness, log } = this.#options;
    if (this.#state === 'another’s') log.info('acquired the bridge lock', { lock: this.name });
    this.#state = 'held';
    readiness.clear('lock');
  }
}
