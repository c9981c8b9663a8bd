import { freshnessOf, type HealthCheckTiming, roundMs } from '../../../api/health/check-deadline.ts';
import type { HealthCheckRecord, HealthChecks } from '../../../api/health/health-checks.ts';
import type { FoundProblem, HealthCheckStatus, HealthReport, Problem } from '../../../api/problem.ts';
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

/** Interval that makes the age of a problem exact to a second, without requests. */
const EVERY_MS = 1_000;

/** Removals so large that they wait for a second check. */
interface HeldRemovals {
  /** Description of the entries to remove. */
  readonly what: string;
  readonly count: number;
}

export interface HealthPort extends FactsPort {
  readonly nodeState: NodeState;
  readonly node: () => (FactsNode & NonNullable<ReturnType<WarningsPort['node']>>) | undefined;
  readonly warnings: WarningsPort['warnings'];
  /** Periodic checks of everything that is not a target. */
  readonly healthChecks: Pick<HealthChecks, 'records' | 'problems'>;
  readonly held: () => readonly HeldRemovals[];
  readonly history: { problems(): readonly FoundProblem[] };
  readonly mesh: { problems(): readonly FoundProblem[] };
  /** Receives all problems each second. */
  readonly problemRecord: { note(problems: readonly Problem[]): void };
  /** Posts an event of this node's Node object. */
  readonly postNodeEvent: (reason: string, message: string, type: 'Normal' | 'Warning') => void;
}

/** Problems of the node, with their age and that of the answer. The only source for status, check, metrics and events. */
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

  /** Updates the problems every second, and posts events of those that last, until `signal` is aborted. */
  start(signal: AbortSignal): void {
    const note = (): void => {
      const problems = this.problems();
      this.#events.note(problems);
      this.#agent.problemRecord.note(problems);
    };
    const timer = setInterval(note, EVERY_MS).unref();
    signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  }

  report(): HealthReport {
    const problems = this.problems();
    const healthChecks = this.healthChecks();
    return { problems, healthChecks, verdict: verdictOf(problems, healthChecks) };
  }

  problems(): readonly Problem[] {
    const agent = this.#agent;
    return this.#ledger.note([
      ...agentProblems(statusFacts(agent, this.#record)),
      ...agent.healthChecks.problems(),
      ...agent.held().map(heldRemovals),
      ...agent.history.problems(),
      ...agent.mesh.problems(),
      ...namedWarnings(agent).map(([about, message]): FoundProblem => ({ kind: 'node', about, message })),
    ]);
  }

  healthChecks(): readonly HealthCheckStatus[] {
    const { nodeState } = this.#agent;
    const ofParts = parts.map((name) => {
      const { lastCheck } = nodeState.reconcilers[name];
      return { name, everyMs: restMs(lastCheck?.tookMs ?? 0), last: lastCheck };
    });
    return [...ofParts, ...this.#agent.healthChecks.records()].map(healthCheckStatus);
  }
}

function verdictOf(problems: readonly Problem[], checks: readonly HealthCheckStatus[]): HealthReport['verdict'] {
  if (problems.length > 0) return 'problems';
  return checks.every(({ state }) => state === 'fresh') ? 'no problems' : 'not all checked';
}

function healthCheckStatus(check: HealthCheckTiming & Partial<HealthCheckRecord>): HealthCheckStatus {
  const { name, everyMs, last, repaired, lastError } = check;
  return {
    name,
    state: freshnessOf(check),
    ageSeconds: last === undefined ? null : seconds(last.ageMs),
    everySeconds: seconds(everyMs),
    roundSeconds: seconds(roundMs(check)),
    tookMs: last === undefined ? null : Math.round(last.tookMs * 10) / 10,
    ...(repaired === undefined ? {} : { repaired }),
    ...(lastError ? { lastError: failure(lastError, undefined, 0) } : {}),
  };
}

/** Seconds, to a tenth. */
function seconds(ms: number): number {
  return Math.round(ms / 100) / 10;
}

function heldRemovals({ what, count }: HeldRemovals): FoundProblem {
  return { kind: 'held', about: what, message: `mass removal of ${count} ${what} is delayed until a second check confirms it` };
}
