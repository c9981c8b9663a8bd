interface PolicyProgrammingOptions {
  readonly bridge: {
    /** Revision of the desired state. */
    readonly revision: () => number;
    /** Resolves once OVS has acknowledged a revision. */
    readonly realized: (revision: number) => Promise<unknown>;
  };
  /** Records a duration. @param seconds from the first change of a round to the acknowledgement of all of it */
  readonly observe: (seconds: number) => void;
  /** Milliseconds, from any fixed moment; never goes back. */
  readonly now: () => number;
}

/**
 * Measures the time from a change of policies, or of objects that they select, to the acknowledgement by OVS. Changes without an effect on
 * flows are not counted.
 */
export class PolicyProgramming {
  readonly #options: PolicyProgrammingOptions;
  #first: { readonly atMs: number; readonly revision: number } | undefined;
  #isRunning = false;

  constructor(options: PolicyProgrammingOptions) {
    this.#options = options;
  }

  /** Starts the measurement: what was known at the start is processed, and changes from now on count. */
  begin(): void {
    this.#isRunning = true;
    this.#first = undefined;
  }

  noted(): void {
    if (this.#isRunning) this.#first ??= { atMs: this.#options.now(), revision: this.#options.bridge.revision() };
  }

  /** Notes that all changes are in the desired state. */
  workedOff(): void {
    const { bridge, observe, now } = this.#options;
    const [first, revision] = [this.#first, bridge.revision()];
    this.#first = undefined;
    if (first === undefined || first.revision === revision) return;
    bridge.realized(revision).then(
      () => observe((now() - first.atMs) / 1_000),
      () => undefined, // the agent ends
    );
  }
}
