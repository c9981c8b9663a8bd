import type { FoundProblem, Problem } from '../../../api/problem.ts';

/** Since when each problem is there. */
export class ProblemLedger {
  readonly #nowMs: () => number;
  #since = new Map<string, number>();

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Takes all problems that there are now: what is not among them is over. @returns them, each with its age */
  note(found: readonly FoundProblem[]): readonly Problem[] {
    const nowMs = this.#nowMs();
    const since = new Map(found.map((problem) => [problemName(problem), this.#since.get(problemName(problem)) ?? nowMs]));
    this.#since = since;
    return found.map((problem) => ({ ...problem, ageSeconds: Math.floor((nowMs - (since.get(problemName(problem)) ?? nowMs)) / 1_000) }));
  }
}

/** The sentence may change while it is the same problem, e.g. a count in it. */
export function problemName({ kind, part, about }: FoundProblem): string {
  return JSON.stringify([kind, part ?? null, about]);
}
