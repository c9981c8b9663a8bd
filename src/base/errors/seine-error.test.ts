import { expect, it } from 'vitest';
import { SeineError, withoutCode } from './seine-error.ts';

it('has its code in the message, and the message without it', () => {
  const error = new SeineError('REFUSED', 'port 5: [sic] no such row');
  expect(error.message).toBe('[REFUSED] port 5: [sic] no such row');
  expect(error.rawMessage).toBe('port 5: [sic] no such row');
  expect(withoutCode('[sic] no code')).toBe('[sic] no code');
});

it('has instances of another copy of this module, and no foreign ones', async () => {
  const { SeineError: Copy } = (await import(`${'./seine-error.ts'}?copy`)) as typeof import('./seine-error.ts');
  expect(Copy).not.toBe(SeineError);
  expect(new Copy('REFUSED', 'x')).toBeInstanceOf(SeineError);
  expect(new SeineError('REFUSED', 'x')).toBeInstanceOf(Copy);
  expect(SeineError.from(new Copy('REFUSED', 'x'), 'copying').code).toBe('REFUSED');
  for (const foreign of [new Error('x'), null, undefined, 'x', {}]) expect(foreign instanceof SeineError).toBe(false);
});

it('leaves a class that extends it its own instances', () => {
  class Narrower extends SeineError {}
  expect(new Narrower('REFUSED', 'x')).toBeInstanceOf(SeineError);
  expect(new Narrower('REFUSED', 'x')).toBeInstanceOf(Narrower);
  expect(new SeineError('REFUSED', 'x') instanceof Narrower).toBe(false);
});
