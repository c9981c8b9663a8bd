/** Work in pieces: each is bounded, whatever there is to do. Whoever runs it may do something else between two of them. */
export type Steps<T = void> = Generator<undefined, T>;

/** Of what is tiny so much is one piece: to stop costs more than it does. */
export const tinyWork = 16;

/** Runs all pieces one after another. */
export function finish<T>(steps: Steps<T>): T {
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value;
}
