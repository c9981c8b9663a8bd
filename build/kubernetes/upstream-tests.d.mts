interface UpstreamTests {
  readonly focus: (part?: string) => string;
  readonly short: string;
  readonly skip: string;
}

interface Reason {
  readonly pattern: string;
  readonly why: string;
}

export interface Result {
  readonly name: string;
  readonly state: string;
  readonly seconds: number;
  readonly said: string;
}

export declare const leftOut: readonly Reason[];
export declare const expectedFailures: readonly Reason[];
export declare const sets: { readonly policy: UpstreamTests; readonly conformance: UpstreamTests; readonly e2e: UpstreamTests };
export declare function focusOf(
  set: keyof typeof sets,
  asked: { readonly short?: boolean; readonly focus?: string },
): { readonly focus: string; readonly skip: string };
export declare function readResults(file: string): readonly Result[];
export declare function surprises(results: readonly Result[]): readonly Result[];
