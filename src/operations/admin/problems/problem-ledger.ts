import type { FoundProblem, Problem } from '../../../api/problem.ts';

/** Start time of each problem. */
export class ProblemLedger {
  readonly #nowMs: () => number;
  #since = new Map<string, number>();

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Receives all current problems: others are over. @returns them, each with its age */
  note(found: readonly FoundProblem[]): readonly Problem[] {
    const nowMs = this.#nowMs();
    const since = new Map(found.map((problem) => [problemName(problem), this.#since.get(problemName(problem)) ?? nowMs]));
    this.#since = since;
    return found.map((problem) => ({ ...problem, ageSeconds: Math.floor((nowMs - (since.get(problemName(problem)) ?? nowMs)) / 1_000) }));
  }
}

/** The sentence of a problem may change, e.g. a count in it, without making it another problem. */
export function problemName({ kind, part, about }: FoundProblem): string {
  return JSON.stringify([kind, part ?? null, about]);
}
