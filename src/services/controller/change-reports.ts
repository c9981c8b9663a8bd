import { SeineError } from '../../base/errors/seine-error.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { ServedState } from './ports.ts';
import type { ServiceChange, ServiceResult, ServiceSubscriber } from './service-changes.ts';

/** Change whose entries all overtake those of others that wait to be written. */
interface ChangeAhead {
  /** Revision of the bridge's desired state that has the change. */
  readonly revision: number;
  /** Owners whose entries changed. */
  readonly owners: ReadonlySet<Owner>;
}

interface PendingReport {
  readonly change: ServiceChange;
  readonly ahead: ChangeAhead | undefined;
}

/** Changes of Services that are in the desired state, until subscribers are notified. */
export class ChangeReports {
  readonly #options: { readonly nodeState: Pick<ServedState, 'bridge' | 'reconcilers'>; readonly signal: AbortSignal };
  readonly #subscribers: ServiceSubscriber[] = [];
  #pending: PendingReport[] = [];

  constructor(options: { readonly nodeState: Pick<ServedState, 'bridge' | 'reconcilers'>; readonly signal: AbortSignal }) {
    this.#options = options;
  }

  subscribe(subscriber: ServiceSubscriber): void {
    this.#subscribers.push(subscriber);
  }

  compared(result: ServiceResult): void {
    for (const subscriber of this.#subscribers) subscriber.compared?.(result);
  }

  /** @param ahead undefined if a part of the change waits for others */
  add(change: ServiceChange, ahead: ChangeAhead | undefined): void {
    this.#pending.push({ change, ahead });
  }

  /** Reports changes to the subscribers, with one wait for the acknowledgement of those that waited for others. */
  flush(): void {
    const pending = this.#pending;
    if (pending.length === 0) return;
    this.#pending = [];
    const { nodeState, signal } = this.#options;
    const all = handled(nodeState.reconcilers.bridge.realized(nodeState.bridge.revision, signal));
    for (const { change, ahead } of pending) {
      const acknowledged = ahead ? handled(this.#realizedAhead(change, ahead)) : all;
      for (const subscriber of this.#subscribers) subscriber.changed?.(change, acknowledged);
    }
  }

  /** Resolves once the bridge has the change or refuses it; rejects only when the agent stops. */
  async #realizedAhead({ ports }: ServiceChange, { revision, owners }: ChangeAhead): Promise<void> {
    const { nodeState, signal } = this.#options;
    for (const { owner } of ports)
      if (owners.has(owner)) await nodeState.reconcilers.bridge.realizedFor(owner, revision, signal).catch(unlessRefused);
  }
}

/** Marks the rejection as handled. Only an abort causes it; subscribers that wait receive it. */
function handled(acknowledged: Promise<void>): Promise<void> {
  acknowledged.catch(() => undefined);
  return acknowledged;
}

function unlessRefused(thrown: unknown): void {
  if (!(thrown instanceof SeineError && thrown.code === 'REFUSED')) throw thrown;
}
