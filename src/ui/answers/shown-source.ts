/** Origin of the answers of a page. */
export type ShownSource =
  | { readonly kind: 'cluster' }
  | {
      readonly kind: 'bundles';
      readonly bundles: readonly ShownBundle[];
      /** Objects of the cluster that the bundles do not have; a sentence each, without a full stop. */
      readonly lacks: readonly string[];
    };

/** Support bundle of one node. */
export interface ShownBundle {
  /** Name of the file, as it was given. */
  readonly file: string;
  readonly node: string;
  /** Version of Seine that collected it. */
  readonly seine: string;
  /** Time at which it was complete (RFC 3339). */
  readonly collected: string;
  /** Whether its bridge had the flows that its inputs compile to; a sentence without a full stop. */
  readonly flows: string;
}
