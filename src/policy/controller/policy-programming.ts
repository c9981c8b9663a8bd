interface PolicyProgrammingOptions {
  readonly bridge: {
    /** As it is wanted. */
    readonly revision: () => number;
    /** Resolves once the switch has acknowledged a revision. */
    readonly realized: (revision: number) => Promise<unknown>;
  };
  /** @param seconds from the first news of a round to the acknowledgement of all of it */
  readonly observe: (seconds: number) => void;
  /** Milliseconds, from any fixed moment; never goes back. */
  readonly now: () => number;
}

/** How long changes that policies look at take, from the news of them to the switch's acknowledgement. News that change no flow are not counted. */
export class PolicyProgramming {
  readonly #options: PolicyProgrammingOptions;
  #first: { readonly atMs: number; readonly revision: number } | undefined;
  #isRunning = false;

  constructor(options: PolicyProgrammingOptions) {
    this.#options = options;
  }

  /** What was known at the start is worked off: what comes now is news. */
  begin(): void {
    this.#isRunning = true;
    this.#first = undefined;
  }

  noted(): void {
    if (this.#isRunning) this.#first ??= { atMs: this.#options.now(), revision: this.#options.bridge.revision() };
  }

  /** All news are in what is wanted. */
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
