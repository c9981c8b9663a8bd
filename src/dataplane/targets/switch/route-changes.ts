import { waitForRevalidators } from './applied-flows.ts';

/**
 * Time after a change of routes or flows in which Open vSwitch may still compare megaflows because of it (ms); 3.1 begins another comparison
 * after half a second at most.
 */
const COMPARED_MS = 1_000;
/** Timeout for the answer (ms): an ovs-vswitchd that does not answer does not keep routes from changing. */
const ANSWER_MS = 1_000;

interface RouteChangesOptions {
  /** OVS_RUNDIR */
  readonly runDir: string;
  /** Monotonic time (ms). */
  readonly now: () => number;
  /** Waits until megaflows have been compared; through the control socket of ovs-vswitchd if omitted. */
  readonly whenCompared?: (signal: AbortSignal) => Promise<void>;
}

/**
 * Separates changes of the node's routes for Open vSwitch on the userspace data path, which finds the way of tunnel packets in a copy of
 * these routes. After each change of a route it empties the copy, reads all routes again, and then compares all megaflows with the flows. A
 * megaflow that is compared while the copy is empty drops its packets until it is compared again, 10 to 20 ms later. So the comparison that
 * a change of routes or flows causes must have ended before the next change of routes (docs/adr/0113-routes-change-one-after-the-other.md).
 */
export class RouteChanges {
  readonly #options: RouteChangesOptions;
  /** An agent that starts has written to OVS, or soon does. */
  #changedMs: number;

  constructor(options: RouteChangesOptions) {
    this.#options = options;
    this.#changedMs = options.now();
  }

  /** Notifies that flows were changed. */
  flowsChanged(): void {
    this.#changedMs = this.#options.now();
  }

  /** Resolves when the next change of routes may be made; the caller makes it at once. Never throws. */
  async next(): Promise<void> {
    const { runDir, now, whenCompared = (signal) => waitForRevalidators(runDir, signal) } = this.#options;
    // Without an answer there is nothing to wait for: a daemon that does not run forwards nothing, and one that hangs uses neither routes.
    if (now() - this.#changedMs < COMPARED_MS) await whenCompared(AbortSignal.timeout(ANSWER_MS)).catch(() => undefined);
    this.#changedMs = now();
  }
}
