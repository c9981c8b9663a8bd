/** An item of Seine's on this node, and how it is removed. */
export interface Leftover {
  readonly what: string;
  readonly remove: (signal: AbortSignal) => Promise<void> | void;
}
