/** Item of Seine on this node, and the function that removes it. */
export interface Leftover {
  readonly what: string;
  readonly remove: (signal: AbortSignal) => Promise<void> | void;
}
