import { idle } from '../../base/async/pause.ts';
import { within } from '../../base/async/time-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { FoundProblem } from '../problem.ts';
import type { LookRecord } from './check-deadline.ts';
import type { Look } from './health-check.ts';

/** Time limit of a check (ms). */
const PATIENCE_MS = 30_000;
/** Number of failures in a row from which they are a problem; a single one may be due to a replacement in progress. */
const FAILURES_TOLD = 2;

interface LooksOptions {
  readonly log: Log;
  /** Returns monotonic milliseconds. */
  readonly nowMs?: () => number;
}

interface LookCourse {
  readonly look: Look;
  last: { readonly beganMs: number; readonly tookMs: number } | undefined;
  problems: readonly FoundProblem[];
  repaired: number;
  failures: number;
  lastError: SeineError | undefined;
}

/** Timing of a check, with the number of its repairs since the agent started. */
export interface LookCourseRecord extends LookRecord {
  readonly repaired: number;
  readonly lastError: SeineError | undefined;
}

/** Runs periodic checks, each with its own interval, and stores their results. */
export class Looks {
  readonly #log: Log;
  readonly #nowMs: () => number;
  readonly #courses: LookCourse[] = [];

  constructor({ log, nowMs = () => performance.now() }: LooksOptions) {
    this.#log = log;
    this.#nowMs = nowMs;
  }

  /** Runs this check at once, and then periodically until `signal` aborts. @throws SeineError `INVARIANT` */
  async follow(look: Look, signal: AbortSignal): Promise<void> {
    const course: LookCourse = { look, last: undefined, problems: [], repaired: 0, failures: 0, lastError: undefined };
    this.#courses.push(course);
    while (!signal.aborted) {
      await this.#take(course, signal);
      await idle(look.everyMs, signal);
    }
  }

  records(): readonly LookCourseRecord[] {
    const nowMs = this.#nowMs();
    return this.#courses.map(({ look: { name, everyMs }, last, repaired, lastError }) => ({
      name,
      everyMs,
      last: last && { ageMs: nowMs - last.beganMs, tookMs: last.tookMs },
      repaired,
      lastError,
    }));
  }

  /** Problems found by the last checks. */
  problems(): readonly FoundProblem[] {
    return this.#courses.flatMap((course) => [...course.problems, ...notLooked(course)]);
  }

  async #take(course: LookCourse, signal: AbortSignal): Promise<void> {
    const { name } = course.look;
    const beganMs = this.#nowMs();
    try {
      const { problems, repaired = [] } = await course.look.look(within(signal, PATIENCE_MS));
      course.last = { beganMs, tookMs: this.#nowMs() - beganMs };
      course.problems = problems;
      course.repaired += repaired.length;
      course.failures = 0;
      course.lastError = undefined;
      for (const what of repaired) this.#log.warn('repaired', { look: name, what });
      if (problems.length === 0) this.#log.working(`look ${name}`);
      else this.#log.failing(`look ${name}`, 'a look found something wrong', { look: name, cause: problems.map(sentence).join('; ') });
    } catch (thrown) {
      if (signal.aborted) return;
      const error = SeineError.from(thrown, `look at ${name}`);
      if (error.remedy === 'crash') throw error;
      course.failures++;
      course.lastError = error;
      this.#log.failing(`look ${name}`, 'something could not be looked at', { look: name, cause: error.message });
    }
  }
}

function sentence({ message }: FoundProblem): string {
  return message;
}

function notLooked({ look: { name }, failures, lastError }: LookCourse): readonly FoundProblem[] {
  if (failures < FAILURES_TOLD || lastError === undefined) return [];
  return [{ kind: 'look.failing', about: name, message: `${name} cannot be looked at: ${lastError.rawMessage}` }];
}
