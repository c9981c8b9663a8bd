import type { SeineError } from '../../../base/errors/seine-error.ts';
import type { SnapshotDraft } from '../replica/snapshot-draft.ts';
import type { FailureKind, ReflectorAction, WatchAction } from './reflector-machine.ts';
import { failureKind } from './watch-event.ts';
import { Watchdog } from './watchdog.ts';

/** State of one watch request. */
export class RunningWatch<T> {
  readonly action: WatchAction;
  readonly watchdog = new Watchdog();
  /** Aborted when the client, not the server, ends the watch. */
  readonly leave = new AbortController();
  /** Snapshot while the initial events arrive. */
  draft: SnapshotDraft<T> | undefined;
  /** True after a bookmark other than the one that ends the initial events: then silence is a failure. */
  bringsBookmarks = false;
  /** Time when it has outlived its own timeout (`performance.now()`); unset while the initial events arrive. */
  endsAtMs: number | undefined;
  /** True if silence until the watchdog expires is not a failure: the server may not support bookmarks, or may be frozen. */
  isRenewedWhenExpired = false;
  #next: ReflectorAction | undefined;

  constructor(action: WatchAction, draft: SnapshotDraft<T> | undefined) {
    this.action = action;
    this.draft = draft;
  }

  /** Step that ends this watch. */
  get next(): ReflectorAction | undefined {
    return this.#next;
  }

  /** True if the watch has ended to be replaced; a frozen server does not accept the new one. */
  get isRenewed(): boolean {
    return this.#next === undefined && this.watchdog.expired && this.isRenewedWhenExpired;
  }

  leaveFor(action: ReflectorAction): void {
    this.#next = action;
    this.leave.abort();
  }

  failureKind(error: SeineError): FailureKind {
    // A server that does not support `sendInitialEvents`, without reporting that, never ends them.
    if (this.draft && this.watchdog.expired) return 'unsupported';
    return failureKind(error, this.draft ? 'watchList' : 'watch');
  }
}
