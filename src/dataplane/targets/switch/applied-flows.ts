import { within } from '../../../base/async/time-limit.ts';
import { withDaemonControl } from './daemon-control.ts';
import { forgetMegaflows } from './stale-megaflows.ts';

/** Timeout for the answer (ms): a stopped ovs-vswitchd accepts the request and may never answer. */
const ANSWER_MS = 10_000;

interface AppliedFlowsOptions {
  /** OVS_RUNDIR */
  readonly runDir: string;
  readonly dataPath: 'system' | 'netdev';
  readonly signal: AbortSignal;
  /** Makes the data path use the present flows; through the control socket of ovs-vswitchd if omitted. */
  readonly apply?: (signal: AbortSignal) => Promise<void>;
}

/**
 * Waits until the data path forwards by the flows that the bridge has now. Open vSwitch acknowledges a change of flows before it has
 * revised the megaflows made from earlier ones, which takes up to half a second; the userspace data path may keep some for longer
 * (`StaleMegaflows`).
 */
export class AppliedFlows {
  readonly #options: AppliedFlowsOptions;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(options: AppliedFlowsOptions) {
    this.#options = options;
  }

  /** Callers that wait at the same time share a request that began after all of their calls. @throws SeineError `UNAVAILABLE`, `REFUSED` */
  whenApplied(): Promise<void> {
    if (this.#running === undefined) return this.#begin();
    return (this.#next ??= this.#running.then(
      () => this.#begin(),
      () => this.#begin(),
    ));
  }

  #begin(): Promise<void> {
    this.#next = undefined;
    const running = this.#apply().finally(() => {
      if (this.#running === running) this.#running = undefined;
    });
    this.#running = running;
    return running;
  }

  async #apply(): Promise<void> {
    const { runDir, dataPath, signal, apply } = this.#options;
    const patience = within(signal, ANSWER_MS);
    if (apply) await apply(patience);
    else if (dataPath === 'netdev') await forgetMegaflows(runDir, patience);
    else await waitForRevalidators(runDir, patience);
  }
}

/** Waits until all megaflows have been compared with the flows, like `ovs-appctl revalidator/wait`. */
export async function waitForRevalidators(runDir: string, signal: AbortSignal): Promise<void> {
  await withDaemonControl(runDir, (session) => session.call({ method: 'revalidator/wait', params: [] }, () => undefined, signal), signal);
}
