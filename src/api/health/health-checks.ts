import { within } from '../../base/async/time-limit.ts';
import { Doorbell } from '../../base/async/wake-signal.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { FoundProblem } from '../problem.ts';
import type { HealthCheckTiming } from './check-deadline.ts';
import type { HealthCheck } from './health-check.ts';

/** Time limit of a check (ms). */
const PATIENCE_MS = 30_000;
/** Number of failures in a row from which they are a problem; a single one may be due to a replacement in progress. */
const FAILURES_REPORTED = 2;

interface HealthChecksOptions {
  readonly log: Log;
  /** Returns monotonic milliseconds. */
  readonly nowMs?: () => number;
}

interface RunningCheck {
  readonly check: HealthCheck;
  last: { readonly beganMs: number; readonly tookMs: number } | undefined;
  problems: readonly FoundProblem[];
  repaired: number;
  failures: number;
  lastError: SeineError | undefined;
}

/** Timing of a check, with the number of its repairs since the agent started. */
export interface HealthCheckRecord extends HealthCheckTiming {
  readonly repaired: number;
  readonly lastError: SeineError | undefined;
}

/** Runs periodic checks, each with its own interval, and stores their results. */
export class HealthChecks {
  readonly #log: Log;
  readonly #nowMs: () => number;
  readonly #checks: RunningCheck[] = [];

  constructor({ log, nowMs = () => performance.now() }: HealthChecksOptions) {
    this.#log = log;
    this.#nowMs = nowMs;
  }

  /** Runs this check at once, and then periodically until `signal` aborts. @throws SeineError `INVARIANT` */
  async follow(check: HealthCheck, signal: AbortSignal): Promise<void> {
    const running: RunningCheck = { check, last: undefined, problems: [], repaired: 0, failures: 0, lastError: undefined };
    this.#checks.push(running);
    const bell = new Doorbell();
    const ring = (): void => bell.ring();
    check.onChange?.(ring);
    while (!signal.aborted) {
      await this.#run(running, signal);
      const timer = setTimeout(ring, check.everyMs).unref();
      await bell.wait(signal);
      clearTimeout(timer);
    }
  }

  records(): readonly HealthCheckRecord[] {
    const nowMs = this.#nowMs();
    return this.#checks.map(({ check: { name, everyMs }, last, repaired, lastError }) => ({
      name,
      everyMs,
      last: last && { ageMs: nowMs - last.beganMs, tookMs: last.tookMs },
      repaired,
      lastError,
    }));
  }

  /** Problems found by the last checks. */
  problems(): readonly FoundProblem[] {
    return this.#checks.flatMap((running) => [...running.problems, ...failing(running)]);
  }

  async #run(running: RunningCheck, signal: AbortSignal): Promise<void> {
    const { name } = running.check;
    const beganMs = this.#nowMs();
    try {
      const { problems, repaired = [] } = await running.check.run(within(signal, PATIENCE_MS));
      running.last = { beganMs, tookMs: this.#nowMs() - beganMs };
      running.problems = problems;
      running.repaired += repaired.length;
      running.failures = 0;
      running.lastError = undefined;
      for (const what of repaired) this.#log.warn('repaired', { check: name, what });
      if (problems.length === 0) this.#log.working(`check ${name}`);
      else this.#log.failing(`check ${name}`, 'periodic check found problems', { check: name, cause: problems.map(sentence).join('; ') });
    } catch (thrown) {
      if (signal.aborted) return;
      const error = SeineError.from(thrown, `check ${name}`);
      if (error.remedy === 'crash') throw error;
      running.failures++;
      running.lastError = error;
      this.#log.failing(`check ${name}`, 'periodic check failed', { check: name, cause: error.message });
    }
  }
}

function sentence({ message }: FoundProblem): string {
  return message;
}

function failing({ check: { name }, failures, lastError }: RunningCheck): readonly FoundProblem[] {
  if (failures < FAILURES_REPORTED || lastError === undefined) return [];
  return [{ kind: 'check.failing', about: name, message: `periodic check ${name} fails: ${lastError.rawMessage}` }];
}
