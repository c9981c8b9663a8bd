import type { CheckName, Finding } from '../../../api/check.ts';
import { abortable } from '../../../base/async/abortable.ts';
import { Doorbell } from '../../../base/async/wake-signal.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { type Check, type CheckContext, trouble } from './check.ts';

/** Report of a running check. */
export type CheckNews = { readonly kind: 'finding'; readonly finding: Finding } | { readonly kind: 'progress'; readonly says: string };

/**
 * Runs all checks in parallel and yields their findings as they arrive. Ends when the last has ended, or with `signal`: unfinished checks
 * are then reported as `unknown`. A caller that stops reading ends them as well.
 */
export async function* runChecks(
  checks: readonly Check[],
  context: CheckContext,
  signal: AbortSignal,
): AsyncGenerator<CheckNews, void, undefined> {
  const left = new AbortController();
  const until = AbortSignal.any([signal, left.signal]);
  const news: CheckNews[] = [];
  const bell = new Doorbell();
  const report = (each: CheckNews): void => {
    news.push(each);
    bell.ring();
  };
  let running = checks.length;
  for (const check of checks)
    void runOne(check, context, report, until).then(() => {
      running--;
      bell.ring();
    });
  try {
    while (running > 0 || news.length > 0) {
      if (news.length === 0) await bell.wait();
      yield* news.splice(0);
    }
  } finally {
    left.abort();
  }
}

/** Never rejects: a check that fails does not affect the others. */
async function runOne({ name, run }: Check, context: CheckContext, report: (news: CheckNews) => void, signal: AbortSignal): Promise<void> {
  let silent = false;
  const reporter = {
    finding: (finding: Finding) => silent || report({ kind: 'finding', finding }),
    progress: (says: string) => silent || report({ kind: 'progress', says }),
  };
  try {
    await abortable(
      Promise.resolve().then(() => run(context, reporter, signal)),
      signal,
    );
  } catch (thrown) {
    const error = SeineError.from(thrown, name);
    const why = signal.aborted ? 'it was not finished in time' : error.rawMessage;
    report({ kind: 'finding', finding: notKnown(name, why, signal.aborted) });
  } finally {
    silent = true; // the work may continue after the caller has stopped waiting
  }
}

function notKnown(name: CheckName, why: string, late: boolean): Finding {
  return trouble(name, 'unknown', {
    what: `not known: ${why}`,
    effect: 'whether this is in order is not known',
    ...(late ? { remedy: 'seinectl check --timeout 2m' } : { remedy: 'seinectl status' }),
  });
}
