import { beforeEach, expect, it } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { CallerReview } from './caller-review.ts';

interface Asked {
  readonly path: string;
  readonly body: unknown;
}

const never = new AbortController().signal;
let asked: Asked[] = [];
let nowMs = 0;
let answers: (request: Asked) => unknown = () => ({});
let review: CallerReview;

const scraper = { username: 'prometheus', uid: 'u', groups: ['g'], extra: { a: ['b'] } };
const knows = (allowed: boolean) => (request: Asked) =>
  request.path.endsWith('tokenreviews') ? { status: { authenticated: true, user: scraper } } : { status: { allowed } };
const away = () => {
  throw new SeineError('UNAVAILABLE', 'no answer');
};

beforeEach(() => {
  asked = [];
  nowMs = 0;
  const http = {
    json: async (request: { readonly path: string; readonly body?: unknown }) => {
      const one = { path: request.path, body: request.body };
      asked.push(one);
      return answers(one);
    },
  };
  review = new CallerReview({ http, path: '/metrics', nowMs: () => nowMs });
});

it('authenticates, then authorizes', async () => {
  answers = knows(true);
  expect(await review.verdict('secret', never)).toBe('allowed');
  const { username, ...more } = scraper;
  expect(asked.map(({ body }) => (body as { readonly spec: unknown }).spec)).toEqual([
    { token: 'secret' },
    { user: username, ...more, nonResourceAttributes: { path: '/metrics', verb: 'get' } },
  ]);
});

it('does not authorize an unknown user', async () => {
  answers = () => ({ status: { authenticated: false, error: 'expired' } });
  expect(await review.verdict('old', never)).toBe('unknown');
  expect(await review.verdict('', never)).toBe('unknown');
  expect(await review.verdict('x'.repeat(20_000), never)).toBe('unknown');
  expect(asked).toHaveLength(1);
});

it('caches a yes for a minute and a no for ten seconds', async () => {
  answers = knows(true);
  await review.verdict('a', never);
  answers = knows(false);
  nowMs = 59_000;
  expect([await review.verdict('a', never), await review.verdict('b', never)]).toEqual(['allowed', 'forbidden']);
  answers = knows(true);
  nowMs = 68_000;
  expect(await review.verdict('b', never)).toBe('forbidden');
  nowMs = 70_000;
  expect(await review.verdict('b', never)).toBe('allowed');
  answers = knows(false);
  expect(await review.verdict('a', never)).toBe('forbidden');
});

it('keeps a yes while the API server is away, for ten minutes, and no other answer', async () => {
  answers = knows(true);
  await review.verdict('known', never);
  answers = away;
  nowMs = 599_000;
  expect(await review.verdict('known', never)).toBe('allowed');
  await expect(review.verdict('stranger', never)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  nowMs = 601_000;
  await expect(review.verdict('known', never)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
});

it('drops a yes when the agent lacks permission to review', async () => {
  answers = knows(true);
  await review.verdict('known', never);
  answers = () => {
    throw new SeineError('REFUSED', 'forbidden');
  };
  nowMs = 61_000;
  await expect(review.verdict('known', never)).rejects.toMatchObject({ code: 'REFUSED' });
});

it('sends one request for all callers with one token, and few requests for unknown tokens at a time', async () => {
  const hold = Promise.withResolvers<void>();
  answers = async (request) => {
    await hold.promise;
    return knows(true)(request);
  };
  const same = ['a', 'a', 'b', 'c', 'd'].map((token) => review.verdict(token, never));
  await expect(review.verdict('e', never)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  hold.resolve();
  expect(await Promise.all(same)).toEqual(same.map(() => 'allowed'));
  expect(asked).toHaveLength(8);
  expect(await review.verdict('e', never)).toBe('allowed');
});

it('rejects an answer that is not a review', async () => {
  answers = () => ({ kind: 'Status' });
  await expect(review.verdict('a', never)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  answers = (request) =>
    request.path.endsWith('tokenreviews') ? { status: { authenticated: true, user: {} } } : { status: { allowed: 'yes' } };
  expect(await review.verdict('b', never)).toBe('unknown');
});
