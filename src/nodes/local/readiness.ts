import { EventEmitter, once } from 'node:events';
import { SeineError } from '../../base/errors/seine-error.ts';

/**
 * State of the node:
 * - `ready` pods are served
 * - `starting` not yet, or not now; existing pods keep their network (STATUS 50)
 * - `impaired` existing pods are affected as well, e.g. no vswitchd (STATUS 51)
 */
export type ReadyState = { readonly state: 'ready' } | { readonly state: 'starting' | 'impaired'; readonly reason: string };

/** Readiness to serve pods, and the reasons against it. One place, for STATUS, `/readyz`, ADD and the operator. */
export class Readiness {
  readonly #changed = new EventEmitter().setMaxListeners(0);
  readonly #obstacles = new Map<string, Exclude<ReadyState, { state: 'ready' }>>();

  /** @param what names the obstacle, for `clear` */
  obstruct(what: string, state: 'starting' | 'impaired', reason: string): void {
    this.#obstacles.set(what, { state, reason });
    this.#changed.emit('change');
  }

  clear(what: string): void {
    if (this.#obstacles.delete(what)) this.#changed.emit('change');
  }

  state(): ReadyState {
    const obstacles = [...this.#obstacles.values()];
    const worst = obstacles.find(({ state }) => state === 'impaired') ?? obstacles[0];
    return worst ? { state: worst.state, reason: obstacles.map(({ reason }) => reason).join('; ') } : { state: 'ready' };
  }

  /** @throws SeineError `CANCELLED`, with the reason, if `signal` comes first */
  async whenReady(signal: AbortSignal): Promise<void> {
    for (let state = this.state(); state.state !== 'ready'; state = this.state()) {
      try {
        await once(this.#changed, 'change', { signal });
      } catch (cause) {
        throw new SeineError('CANCELLED', `the agent is not ready: ${state.reason}`, { cause });
      }
    }
  }
}
