interface Checkout {
  readonly manifest: string;
  readonly lock: string;
  readonly changelog: string;
  readonly commit: string;
  readonly recorded: readonly string[];
}
export declare function releaseOf(checkout: Checkout): { readonly version: string; readonly commit: string; readonly date: string };
