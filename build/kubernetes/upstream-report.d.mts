/** Record of one of upstream's tests. */
export interface UpstreamTest {
  /** Upstream's outermost heading, such as `Services`. */
  readonly group: string;
  readonly name: string;
  /** `left out`: not requested; `skipped`: requested, and skipped by itself. */
  readonly state: 'passed' | 'failed' | 'skipped' | 'left out';
  /** Why it failed or was not run, in upstream's words, or in ours if it was left out. */
  readonly said?: string;
  /** The day on which it passed in a later run of a part, after it had failed in this one. */
  readonly again?: string;
}

interface Summary {
  readonly minutes: number;
  readonly tests: readonly UpstreamTest[];
}

export declare function summaryOf<About extends object>(file: string, about: About): About & Summary;
export declare function ranAgain<Recorded extends Summary>(recorded: Recorded, later: Summary & { readonly date: string }): Recorded;
export declare function isWhole(file: string): boolean;
export declare function knownReason(test: UpstreamTest): string | undefined;
