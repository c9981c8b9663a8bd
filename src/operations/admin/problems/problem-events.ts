import type { Problem } from '../../../api/problem.ts';
import { problemName } from './problem-ledger.ts';

/** Minimum duration of a problem for an event: others are fixed automatically before. */
const LASTS_SECONDS = 60;
/** Maximum number of open problems with events: the rest is in `seinectl status`. */
const EVENTS_MAX = 20;

/** Problems that have events of their own, or are the cluster's and would be reported by every node at once. */
const hasOwnEvent = new Set<Problem['kind']>(['agent.ready', 'agent.repair', 'policy.suspended', 'source', 'source.object', 'object']);

type PostEvent = (reason: string, message: string, type: 'Normal' | 'Warning') => void;

/** Posts an event of the Node for each problem that lasts a minute, and one when it is over. */
export class ProblemEvents {
  readonly #post: PostEvent;
  readonly #posted = new Map<string, string>();

  constructor(post: PostEvent) {
    this.#post = post;
  }

  /** Receives all current problems. */
  note(problems: readonly Problem[]): void {
    const present = new Map(problems.map((problem) => [problemName(problem), problem]));
    for (const [name, message] of this.#posted)
      if (!present.has(name)) {
        this.#posted.delete(name);
        this.#post('NodeNetworkProblemOver', message, 'Normal');
      }
    for (const [name, { kind, ageSeconds, message }] of present) {
      if (ageSeconds < LASTS_SECONDS || hasOwnEvent.has(kind) || this.#posted.has(name) || this.#posted.size >= EVENTS_MAX) continue;
      this.#posted.set(name, message);
      this.#post('NodeNetworkProblem', message, 'Warning');
    }
  }
}
