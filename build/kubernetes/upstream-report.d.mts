interface Summary {
  readonly minutes: number;
  readonly tests: readonly {
    readonly group: string;
    readonly name: string;
    readonly state: 'passed' | 'failed' | 'skipped' | 'left out';
    readonly said?: string;
    readonly why?: string;
    readonly again?: string;
  }[];
}

export declare function summaryOf<About extends object>(file: string, about: About): About & Summary;
export declare function ranAgain<Recorded extends Summary>(recorded: Recorded, later: Summary & { readonly date: string }): Recorded;
export declare function isWhole(file: string): boolean;
