interface UpstreamTests {
  readonly focus: (part?: string) => string;
  readonly short: string;
  readonly skip: string;
}

export declare const sets: { readonly policy: UpstreamTests; readonly conformance: UpstreamTests };
export declare function focusOf(
  set: keyof typeof sets,
  asked: { readonly short?: boolean; readonly focus?: string },
): { readonly focus: string; readonly skip: string };
export declare function readResults(
  file: string,
): readonly { readonly name: string; readonly state: string; readonly seconds: number; readonly said: string }[];
