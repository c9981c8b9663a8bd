/** Returns a function that calls `read` at most once in a turn of the event loop, for values that many callers of one turn share. */
export function oncePerTurn<T>(read: () => T): () => T {
  let known: { readonly value: T } | undefined;
  return () => {
    if (known === undefined) {
      known = { value: read() };
      setImmediate(() => (known = undefined));
    }
    return known.value;
  };
}
