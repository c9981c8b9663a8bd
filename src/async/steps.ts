/** Work in pieces: each is bounded, whatever there is to do. Whoever runs it may do something else between two of them. */
export type Steps<T = void> = Generator<undefined, T>;

/** Runs all pieces one after another. */
export function finish<T>(steps: Steps<T>): T {
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value;
}
