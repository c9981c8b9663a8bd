import { expect, it } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { silentLog } from '../../base/log/log.ts';
import { Readiness } from './readiness.ts';
import { retryUntilAccepted } from './retry-until-accepted.ts';

function trying(...outcomes: readonly (SeineError | 'taken')[]) {
  const readiness = new Readiness();
  const said: string[] = [];
  const log = { ...silentLog, error: (_: string, fields?: Readonly<Record<string, unknown>>) => void said.push(String(fields?.['cause'])) };
  const states: string[] = [];
  const left = [...outcomes];
  const work = async (): Promise<void> => {
    const state = readiness.state();
    states.push(state.state === 'ready' ? 'ready' : state.reason);
    const outcome = left.shift();
    if (outcome instanceof SeineError) throw outcome;
  };
  const stop = new AbortController();
  return {
    readiness,
    said,
    states,
    stop,
    run: () => retryUntilAccepted({ what: 'gateway', work, readiness, log, retryMs: 1 }, stop.signal),
  };
}
const refused = (why: string): SeineError => new SeineError('REFUSED', why);

it('retries a rejection, is not ready meanwhile, and logs each reason once', async () => {
  const t = trying(refused('no'), refused('no'), refused('still no'), 'taken');
  await t.run();
  expect(t.states).toEqual(['ready', '[REFUSED] no', '[REFUSED] no', '[REFUSED] still no']);
  expect(t.said).toEqual(['[REFUSED] no', '[REFUSED] still no']);
  expect(t.readiness.state()).toEqual({ state: 'ready' });
});

it('does not retry after any other failure, nor after the signal', async () => {
  await expect(trying(new SeineError('INVARIANT', 'bug')).run()).rejects.toMatchObject({ code: 'INVARIANT' });
  const t = trying(refused('no'), 'taken');
  t.stop.abort();
  await expect(t.run()).rejects.toMatchObject({ code: 'CANCELLED' });
  expect(t.states).toEqual(['ready']);
});
