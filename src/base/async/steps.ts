/** Work in bounded steps. Its caller may do other work between two of them. */
export type Steps<T = void> = Generator<undefined, T>;

/** Number of tiny operations in one step: yielding after each would cost more than the operation. */
export const tinyWork = 16;

/** Runs all steps one after another. */
export function finish<T>(steps: Steps<T>): T {
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value;
}
