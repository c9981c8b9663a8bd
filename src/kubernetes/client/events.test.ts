import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { SeineError } from '../../base/errors/seine-error.ts';
import { setNodeCondition } from '../resources/node-condition.ts';
import { json, ScriptedApiServer, status } from '../testing/scripted-api-server.ts';
import { EventPoster, eventPacing, type KubeEvent } from './events.ts';
import { KubeHttp } from './http-client.ts';

const event = (name: string, more: Partial<KubeEvent> = {}): KubeEvent => ({
  type: 'Warning',
  reason: 'NotUnderstood',
  message: 'a field cannot be read',
  about: { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', namespace: 'shop', name, uid: `uid-${name}` },
  ...more,
});

describe('EventPoster', () => {
  let server: ScriptedApiServer;
  let http: KubeHttp;
  let failures: SeineError[];
  let nowMs: number;
  let stop: AbortController;
  let running: Promise<void>;
  let poster: EventPoster;

  beforeEach(async () => {
    server = new ScriptedApiServer();
    http = new KubeHttp(await server.listen(), 'test');
    failures = [];
    nowMs = Date.UTC(2026, 0, 1);
    poster = new EventPoster({
      http,
      component: 'seine-agent',
      instance: 'n1',
      onFailure: (error) => failures.push(error),
      nowMs: () => nowMs,
      pacing: { ...eventPacing, everyMs: 0, retryMs: 1, maxWaiting: 3 },
    });
    stop = new AbortController();
    running = poster.run(stop.signal);
  });

  afterEach(async () => {
    stop.abort();
    await running;
    http.close();
    await server.close();
  });

  const eventually = (check: () => void) => vi.waitFor(check, { timeout: 5_000, interval: 2 });
  const idle = () => eventually(() => expect(poster.waiting).toBe(0));

  it('posts an Event of the core API about the object', async () => {
    server.answer(json({}));
    poster.post(event('deny'));
    await idle();
    expect(server.requests).toEqual(['POST /api/v1/namespaces/shop/events']);
    expect(server.bodies).toEqual([
      {
        apiVersion: 'v1',
        kind: 'Event',
        metadata: { name: expect.stringMatching(/^deny\.[0-9a-f]{16}$/), namespace: 'shop' },
        involvedObject: { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', namespace: 'shop', name: 'deny', uid: 'uid-deny' },
        type: 'Warning',
        reason: 'NotUnderstood',
        message: 'a field cannot be read',
        source: { component: 'seine-agent', host: 'n1' },
        reportingComponent: 'seine-agent',
        reportingInstance: 'n1',
        firstTimestamp: '2026-01-01T00:00:00Z',
        lastTimestamp: '2026-01-01T00:00:00Z',
        count: 1,
      },
    ]);
  });

  it('posts the same once an hour, and something new immediately', async () => {
    server.answer(json({}), json({}), json({}));
    poster.post(event('deny'));
    await idle();
    poster.post(event('deny'));
    poster.post(event('deny', { occasion: 'generation 2' }));
    await idle();
    expect(server.requests).toHaveLength(2);
    nowMs += 3_600_001;
    poster.post(event('deny'));
    await idle();
    expect(server.requests).toHaveLength(3);
  });

  it('treats it as done when another agent was first', async () => {
    server.answer(status(409, 'AlreadyExists'));
    poster.post(event('deny'));
    await idle();
    expect(failures).toEqual([]);
  });

  it('retries without an answer, and reports a rejection once', async () => {
    server.answer(status(503, 'ServiceUnavailable'), status(429, 'TooManyRequests'), status(403, 'Forbidden'));
    poster.post(event('deny'));
    await idle();
    expect(failures.map(({ context }) => context['reason'])).toEqual(['ServiceUnavailable', 'TooManyRequests', 'Forbidden']);
    poster.post(event('deny'));
    expect(poster.waiting).toBe(0);
  });

  it('alternates between namespaces, and drops events of the one with most', async () => {
    const of = (namespace: string, at: number) =>
      event(`${namespace}-${at}`, { about: { ...event('').about, namespace, name: `e${at}`, uid: `${at}` } });
    server.answer(...Array.from({ length: 3 }, () => json({})));
    for (let at = 0; at < 50; at++) poster.post(of('loud', at));
    poster.post(of('quiet', 0));
    await idle();
    expect(server.requests).toEqual(['loud', 'quiet', 'loud'].map((namespace) => `POST /api/v1/namespaces/${namespace}/events`));
    expect(poster.dropped).toBe(48);
  });

  it('names an event of an object whose long name is cut at a dot', async () => {
    server.answer(json({}));
    poster.post(event(`${'a'.repeat(235)}.${'b'.repeat(10)}`));
    await idle();
    expect(server.bodies).toMatchObject([{ metadata: { name: expect.stringMatching(/^a{235}\.[0-9a-f]{16}$/) } }]);
  });

  it('keeps a bounded number waiting', async () => {
    for (let count = 0; count < 10; count++) poster.post(event(`p${count}`));
    expect(poster.waiting).toBe(3);
    expect(poster.dropped).toBe(7);
    server.answer(json({}), json({}), json({}), json({}));
    await idle();
  });
});

it('merges one condition into the status of a Node', async () => {
  const server = new ScriptedApiServer();
  const http = new KubeHttp(await server.listen(), 'test');
  server.answer(json({}));
  const condition = { type: 'NetworkUnavailable', status: 'False', reason: 'SeineIsUp', message: 'ready' } as const;
  await setNodeCondition(http, 'a/../b', condition, AbortSignal.timeout(5_000));
  expect(server.requests[0]).toMatch(/^PATCH \/api\/v1\/nodes\/a\/\.\.\/b\/status/); // decoded by the test server
  expect(server.bodies).toMatchObject([{ status: { conditions: [condition] } }]);
  http.close();
  await server.close();
});
