import type { SeineError } from '../../../base/errors/seine-error.ts';
import type { SnapshotDraft } from '../replica/snapshot-draft.ts';
import type { FailureKind, ReflectorAction, WatchAction } from './reflector-machine.ts';
import { failureKind } from './watch-event.ts';
import { Watchdog } from './watchdog.ts';

/** The state of one watch request. */
export class RunningWatch<T> {
  readonly action: WatchAction;
  readonly watchdog = new Watchdog();
  /** Aborted when we go, not the server. */
  readonly leave = new AbortController();
  /** The snapshot, while the initial events arrive. */
  draft: SnapshotDraft<T> | undefined;
  /** It has brought a bookmark, beside the one that ends the initial events: silence means something. */
  bringsBookmarks = false;
  /** When it has outlived its own time (`performance.now()`); unset while the initial events arrive. */
  endsAtMs: number | undefined;
  /** Whether silence until the watchdog expires is no failure: the server may not support bookmarks, or may be frozen. */
  isRenewedWhenExpired = false;
  #next: ReflectorAction | undefined;

  constructor(action: WatchAction, draft: SnapshotDraft<T> | undefined) {
    this.action = action;
    this.draft = draft;
  }

  /** The step that ends this watch. */
  get next(): ReflectorAction | undefined {
    return this.#next;
  }

  /** Whether the watch has ended for a new one, which a frozen server does not accept. */
  get isRenewed(): boolean {
    return this.#next === undefined && this.watchdog.expired && this.isRenewedWhenExpired;
  }

  leaveFor(action: ReflectorAction): void {
    this.#next = action;
    this.leave.abort();
  }

  failureKind(error: SeineError): FailureKind {
    // A server that does not know `sendInitialEvents`, and does not say so, never ends them.
    if (this.draft && this.watchdog.expired) return 'unsupported';
    return failureKind(error, this.draft ? 'watchList' : 'watch');
  }
}
