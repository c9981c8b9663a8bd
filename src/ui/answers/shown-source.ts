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
interface ShownBundle {
  /** Name of the file, as it was given. */
  readonly file: string;
  readonly node: string;
  /** Version of Seine that collected it. */
  readonly seine: string;
  /** Time at which it was complete (RFC 3339). */
  readonly collected: string;
  /** Sentence, without a full stop, that states whether its bridge had the flows of its inputs. */
  readonly flows: string;
}
