import { expect, it } from 'vitest';
import { SeineError } from '../errors/seine-error.ts';
import { notifyAll } from './notify-all.ts';

it('calls every listener, and reports an error of one as a bug', () => {
  const heard: string[] = [];
  const listeners = [
    () => {
      throw new SeineError('UNAVAILABLE', 'x');
    },
    (news: string) => heard.push(news),
  ];
  expect(() => notifyAll(listeners, 'news')).toThrow('[INVARIANT] a listener failed: [UNAVAILABLE] x');
  expect(heard).toEqual(['news']);
});
