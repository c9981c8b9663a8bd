import { expect, it } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { silentLog } from '../../base/log/log.ts';
import { Readiness } from './readiness.ts';
import { retryWhileHeld } from './retry-while-locked.ts';

it('takes the lock of another agent when it is released, and logs the wait', async () => {
  const readiness = new Readiness();
  const said: unknown[] = [];
  let tries = 0;
  const take = async (): Promise<string> => {
    said.push(readiness.state());
    if (++tries < 3) throw new SeineError('REFUSED', 'another agent has the journal');
    return 'taken';
  };
  expect(await retryWhileHeld(take, readiness, silentLog, AbortSignal.timeout(5_000))).toBe('taken');
  const waiting = { state: 'starting', reason: 'another agent has the journal' };
  expect([...said, readiness.state()]).toEqual([{ state: 'ready' }, waiting, waiting, { state: 'ready' }]);
});

it('rethrows every other failure immediately, and ends with the signal', async () => {
  const fail = (code: 'REFUSED' | 'INVALID_INPUT') => async (): Promise<never> => {
    throw new SeineError(code, 'no');
  };
  const never = new AbortController().signal;
  await expect(retryWhileHeld(fail('INVALID_INPUT'), new Readiness(), silentLog, never)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  const soon = AbortSignal.timeout(80);
  await expect(retryWhileHeld(fail('REFUSED'), new Readiness(), silentLog, soon)).rejects.toMatchObject({ code: 'CANCELLED' });
});
