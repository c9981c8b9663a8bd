import type { Problem } from '../../../api/problem.ts';
import { problemName } from './problem-ledger.ts';

/** Minimum duration of a problem for an event: others are fixed automatically before. */
const LASTS_SECONDS = 60;
/** Maximum number of open problems with events: the rest is in `seinectl status`. */
const TOLD_MAX = 20;

/** Problems that have events of their own, or are the cluster's and would be reported by every node at once. */
const toldElsewhere = new Set<Problem['kind']>(['agent.ready', 'agent.repair', 'policy.suspended', 'source', 'source.object', 'object']);

type Tell = (reason: string, message: string, type: 'Normal' | 'Warning') => void;

/** Posts an event of the Node for each problem that lasts a minute, and one when it is over. */
export class ProblemEvents {
  readonly #tell: Tell;
  readonly #told = new Map<string, string>();

  constructor(tell: Tell) {
    this.#tell = tell;
  }

  /** Receives all current problems. */
  note(problems: readonly Problem[]): void {
    const present = new Map(problems.map((problem) => [problemName(problem), problem]));
    for (const [name, message] of this.#told)
      if (!present.has(name)) {
        this.#told.delete(name);
        this.#tell('NodeNetworkProblemOver', message, 'Normal');
      }
    for (const [name, { kind, ageSeconds, message }] of present) {
      if (ageSeconds < LASTS_SECONDS || toldElsewhere.has(kind) || this.#told.has(name) || this.#told.size >= TOLD_MAX) continue;
      this.#told.set(name, message);
      this.#tell('NodeNetworkProblem', message, 'Warning');
    }
  }
}
