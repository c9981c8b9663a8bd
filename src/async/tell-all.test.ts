import { expect, it } from 'vitest';
import { SeineError } from '../errors/seine-error.ts';
import { tellAll } from './tell-all.ts';

it('calls every listener, and takes what one throws for a bug', () => {
  const heard: string[] = [];
  const listeners = [
    () => {
      throw new SeineError('UNAVAILABLE', 'x');
    },
    (news: string) => heard.push(news),
  ];
  expect(() => tellAll(listeners, 'news')).toThrow('[INVARIANT] a listener failed: [UNAVAILABLE] x');
  expect(heard).toEqual(['news']);
});
