/** Answer of `seinectl explain`, or of `seinectl get` about a node. */
export interface Explained {
  readonly name: string;
  /** Node whose agent answered. */
  readonly node: string;
  readonly isFine: boolean;
  readonly lines: readonly string[];
  /** Policies of a pod, by direction. */
  readonly policies?: readonly { readonly direction: 'ingress' | 'egress'; readonly text: string; readonly by: readonly string[] }[];
}

/** FormNames for the forms of the page. Only the first of many. */
export interface FormNames {
  readonly names: readonly string[];
  readonly more: number;
}
