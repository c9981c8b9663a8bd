import { pause } from '../../../base/async/pause.ts';
import { Doorbell } from '../../../base/async/wake-signal.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { SwitchDatabase } from './switch-database.ts';

/** Delay before the first attempt (ms), doubled each time. A starting ovs-vswitchd is usually ready sooner. */
const pauses = { first: 500, longest: 30_000 } as const;
/** Text of EBUSY in ovs-vswitchd. Other errors do not pass by themselves, or their owner handles them. */
const busy = 'Device or resource busy';

interface SwitchRetryOptions {
  readonly database: Pick<SwitchDatabase, 'tables' | 'transact' | 'onChange'>;
  readonly bridge: string;
  /** Name of the OVSDB lock required for writes. */
  readonly lock: string;
  /** Called when ovs-vswitchd was made to try again. */
  readonly tried?: (cause: string) => void;
}

/**
 * Makes ovs-vswitchd retry interfaces that it could not open. The taps of a killed process may still exist when the next process needs
 * them: that one creates no bridge, or leaves an interface out, and retries only when its configuration changes.
 *
 * A change of `next_cfg` (ovs-vswitchd.conf.db(5)) triggers a retry without other effects. It is only changed after ovs-vswitchd has read
 * the previous change: one that is not running gets a single request.
 */
export class SwitchRetry {
  readonly #options: SwitchRetryOptions;
  readonly #bell = new Doorbell();
  #isBridgeAway = false;

  /** Listens until `signal`. */
  constructor(options: SwitchRetryOptions, signal: AbortSignal) {
    this.#options = options;
    options.database.onChange((changes) => {
      const isNews = changes.some((change) => change.table === 'Bridge' || (change.table === 'Interface' && isBusy(change.after)));
      if (isNews) this.#bell.ring();
    }, signal);
  }

  /** Notifies that the bridge cannot be reached. */
  bridgeAway(): void {
    this.#isBridgeAway = true;
    this.#bell.ring();
  }

  bridgeUp(): void {
    this.#isBridgeAway = false;
  }

  /** Runs until `signal`. @throws SeineError on a bug */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#bell.wait(signal);
      await this.#untilOpened(signal);
    }
  }

  async #untilOpened(signal: AbortSignal): Promise<void> {
    for (let waitMs: number = pauses.first; this.#lacks() !== undefined; waitMs = Math.min(2 * waitMs, pauses.longest)) {
      await pause(waitMs, signal);
      const cause = this.#lacks();
      if (signal.aborted || cause === undefined) return;
      await this.#tryAgain(cause, signal);
    }
  }

  #lacks(): string | undefined {
    const { Bridge, Interface } = this.#options.database.tables;
    if (this.#isBridgeAway && Bridge.find('name', this.#options.bridge)) return 'the bridge is not there';
    for (const row of Interface.rows()) if (isBusy(row)) return row.error;
    return undefined;
  }

  async #tryAgain(cause: string, signal: AbortSignal): Promise<void> {
    const { database, lock, tried } = this.#options;
    const { Open_vSwitch: root } = database.tables;
    const [row] = root.rows();
    if (!row) return;
    const hasRead = row.cur_cfg >= row.next_cfg;
    try {
      if (hasRead) {
        await database.transact((tx) => {
          tx.assertLock(lock);
          tx.mutate('Open_vSwitch', [], ['next_cfg', '+=', 1n]);
        }, signal);
        tried?.(cause);
      }
      const wanted = hasRead ? row.next_cfg + 1n : row.next_cfg;
      await root.when(row._uuid, (now) => (!now || now.cur_cfg >= wanted ? true : undefined), signal);
    } catch (thrown) {
      // Another agent has the lock, or OVSDB is not reachable: check again later.
      const error = SeineError.from(thrown, 'request a retry by OVS');
      if (error.remedy === 'crash') throw error;
    }
  }
}

function isBusy(row: { readonly error?: string | undefined } | undefined): boolean {
  return row?.error?.includes(busy) ?? false;
}
