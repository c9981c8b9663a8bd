/** Event of a node: something that changed, with the objects that it concerns. */
export interface HistoryEvent {
  /** Time by the clock of the node (RFC 3339, UTC). */
  readonly time: string;
  /** Name of the kind; later releases may have others. */
  readonly kind: string;
  /** Objects: `pod/NS/NAME`, `service/NS/NAME`, `node/NAME`, `policy/NS/NAME`, `policy/NAME`, `namespace/NAME`. */
  readonly subjects: readonly string[];
  /** The event in one sentence. The wording changes between releases. */
  readonly text: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Kinds of objects that events are about. */
export const historySubjects = ['pod', 'service', 'node', 'policy'] as const;
