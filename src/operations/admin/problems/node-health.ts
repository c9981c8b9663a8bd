import { freshnessOf, type LookRecord, roundMs } from '../../../api/health/check-deadline.ts';
import type { LookCourseRecord, Looks } from '../../../api/health/health-checks.ts';
import type { FoundProblem, HealthReport, LookStatus, Problem } from '../../../api/problem.ts';
import { restMs } from '../../../dataplane/reconcile/periodic-check.ts';
import type { NodeState } from '../../../dataplane/targets/node-state.ts';
import { parts } from '../../../dataplane/targets/target-options.ts';
import { failure } from '../../diagnose/entries/compare.ts';
import type { AgentRecord } from '../metrics/record.ts';
import { agentProblems } from './agent-problems.ts';
import { ProblemEvents } from './problem-events.ts';
import { ProblemLedger } from './problem-ledger.ts';
import { type FactsNode, type FactsPort, statusFacts } from './status-facts.ts';
import { namedWarnings, type WarningsPort } from './warnings.ts';

/** So that the age of a problem is right to the second, whether or not anyone asks. */
const EVERY_MS = 1_000;

/** A loss so great that it waits for a second look. */
interface HeldRemovals {
  /** What would be removed. */
  readonly what: string;
  readonly count: number;
}

export interface HealthPort extends FactsPort {
  readonly nodeState: NodeState;
  readonly node: () => (FactsNode & NonNullable<ReturnType<WarningsPort['node']>>) | undefined;
  readonly warnings: WarningsPort['warnings'];
  /** At everything beside the parts of the node. */
  readonly looks: Pick<Looks, 'records' | 'problems'>;
  readonly held: () => readonly HeldRemovals[];
  /** Of this node's Node object. */
  readonly postNodeEvent: (reason: string, message: string, type: 'Normal' | 'Warning') => void;
}

/** What is wrong with the node, since when, and how old the answer is. One place, for status, check, metrics and events alike. */
export class NodeHealth {
  readonly #agent: HealthPort;
  readonly #record: AgentRecord;
  readonly #ledger = new ProblemLedger();
  readonly #events: ProblemEvents;

  constructor(agent: HealthPort, record: AgentRecord) {
    this.#agent = agent;
    this.#record = record;
    this.#events = new ProblemEvents(agent.postNodeEvent);
  }

  /** Notes every second what there is, and tells the cluster of what lasts, until `signal`. */
  start(signal: AbortSignal): void {
    const timer = setInterval(() => this.#events.note(this.problems()), EVERY_MS).unref();
    signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  }

  report(): HealthReport {
    const problems = this.problems();
    const looks = this.looks();
    return { problems, looks, verdict: verdictOf(problems, looks) };
  }

  problems(): readonly Problem[] {
    const agent = this.#agent;
    return this.#ledger.note([
      ...agentProblems(statusFacts(agent, this.#record)),
      ...agent.looks.problems(),
      ...agent.held().map(heldRemovals),
      ...namedWarnings(agent).map(([about, message]): FoundProblem => ({ kind: 'node', about, message })),
    ]);
  }

  looks(): readonly LookStatus[] {
    const { nodeState } = this.#agent;
    const ofParts = parts.map((name) => {
      const { lastLook } = nodeState.reconcilers[name];
      return { name, everyMs: restMs(lastLook?.tookMs ?? 0), last: lastLook };
    });
    return [...ofParts, ...this.#agent.looks.records()].map(lookStatus);
  }
}

function verdictOf(problems: readonly Problem[], looks: readonly LookStatus[]): HealthReport['verdict'] {
  if (problems.length > 0) return 'problems';
  return looks.every(({ state }) => state === 'fresh') ? 'no problems' : 'not all looked at';
}

function lookStatus(look: LookRecord & Partial<LookCourseRecord>): LookStatus {
  const { name, everyMs, last, repaired, lastError } = look;
  return {
    name,
    state: freshnessOf(look),
    ageSeconds: last === undefined ? null : seconds(last.ageMs),
    everySeconds: seconds(everyMs),
    roundSeconds: seconds(roundMs(look)),
    tookMs: last === undefined ? null : Math.round(last.tookMs * 10) / 10,
    ...(repaired === undefined ? {} : { repaired }),
    ...(lastError ? { lastError: failure(lastError, undefined, 0) } : {}),
  };
}

/** To a tenth. */
function seconds(ms: number): number {
  return Math.round(ms / 100) / 10;
}

function heldRemovals({ what, count }: HeldRemovals): FoundProblem {
  return { kind: 'held', about: what, message: `${count} ${what} would go at once; they are kept until a second look comes to the same` };
}
