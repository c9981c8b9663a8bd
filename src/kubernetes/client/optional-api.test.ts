import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { OptionalApi } from './optional-api.ts';
import { Reflector } from './reflector/reflector.ts';
import { reflectorPolicy } from './reflector/reflector-machine.ts';
import type { Resource } from './resource.ts';

const path = '/apis/example.org/v2/things';
const refusal = (status: number) => new SeineError('REFUSED', `status ${status}`, { context: { status } });

/** A server that offers these versions of the group; undefined: it has no such group. */
class Server {
  versions: readonly string[] | undefined;
  status = 200;
  readonly asked: string[] = [];
  objects: readonly object[] | undefined;
  discoveries = 0;
  readonly #withdrawn = Promise.withResolvers<void>();

  async json(): Promise<unknown> {
    this.discoveries++;
    await nextTurn();
    if (this.status !== 200) throw refusal(this.status);
    if (!this.versions) throw refusal(404);
    return { versions: this.versions.map((version) => ({ version })) };
  }

  async *stream(
    request: { readonly path: string; readonly query?: Readonly<Record<string, string>> },
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array, void> {
    this.asked.push(request.path);
    if (this.objects) {
      yield* this.#content(request.query ?? {}, signal);
      return;
    }
    if (this.versions?.includes('empty')) throw refusal(404);
    yield Buffer.from('as served');
  }

  /** Like a server whose watches end when the group is no longer served. */
  async *#content(query: Readonly<Record<string, string>>, signal: AbortSignal): AsyncGenerator<Uint8Array, void> {
    const metadata = { resourceVersion: '500', annotations: { 'k8s.io/initial-events-end': 'true' } };
    if (query['watch'] === undefined) {
      yield Buffer.from(JSON.stringify({ metadata, items: this.objects }));
      return;
    }
    if (query['sendInitialEvents'] !== undefined) {
      for (const each of this.objects ?? []) yield Buffer.from(`${JSON.stringify({ type: 'ADDED', object: each })}\n`);
      yield Buffer.from(`${JSON.stringify({ type: 'BOOKMARK', object: { metadata } })}\n`);
    }
    await Promise.race([this.#withdrawn.promise, once(signal, 'abort')]);
  }

  withdraw(): void {
    this.versions = undefined;
    this.#withdrawn.resolve();
  }
}

function scene(versions?: readonly string[]) {
  const server = new Server();
  server.versions = versions;
  const clock = { nowMs: 0 };
  const nowMs = () => clock.nowMs;
  const api = new OptionalApi({ http: server, group: 'example.org', versions: ['v2', 'v1'], idleMs: { min: 1, max: 1 }, nowMs });
  const read = async (query: Readonly<Record<string, string>> = {}) => {
    let text = '';
    for await (const chunk of api.stream({ path, query }, AbortSignal.timeout(5_000))) text += Buffer.from(chunk).toString();
    return text;
  };
  return { server, read, api, clock };
}

const watch = { watch: 'true', resourceVersion: '7' };
const anyList = { resourceVersion: '0' };
const watchList = { ...watch, sendInitialEvents: 'true' };

it.each([
  [['v1', 'v2', 'v3'], '/apis/example.org/v2/things'],
  [['v1'], '/apis/example.org/v1/things'],
])('reads the preferred version of %j', async (versions, asked) => {
  const { server, read } = scene(versions);
  for (const query of [{}, watch, watchList]) expect(await read(query)).toBe('as served');
  expect(server.asked).toEqual([asked, asked, asked]);
});

it.each([[undefined], [['v3']], [['v2', 'empty']]])(
  'is an empty list while the server does not serve the resource: %j',
  async (versions) => {
    const { read } = scene(versions);
    expect(JSON.parse(await read(anyList))).toEqual({ metadata: { resourceVersion: '0' }, items: [] });
    expect(JSON.parse(await read(watchList))).toMatchObject({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '0' } } });
    expect(await read(watch)).toBe('');
  },
);

it('demands another list once the resource is served, and once it is not served any more', async () => {
  const { server, read } = scene();
  await read(anyList);
  server.versions = ['v2'];
  await expect(read(watch)).rejects.toMatchObject({ context: { status: 410 } });
  expect(await read()).toBe('as served');
  expect(await read(watch)).toBe('as served');
  server.versions = undefined;
  await expect(read(watch)).rejects.toMatchObject({ context: { status: 410 } });
  expect(JSON.parse(await read(anyList))).toMatchObject({ items: [] });
});

it.each([401, 403, 500])('does not take status %d for an empty list', async (status) => {
  const { server, read } = scene(['v2']);
  server.status = status;
  await expect(read()).rejects.toMatchObject({ context: { status } });
});

it('confirms the absence of a resource only after a minute without it', async () => {
  const { server, read, clock } = scene(['v2']);
  await read();
  server.versions = undefined;
  await expect(read()).rejects.toMatchObject({ code: 'UNAVAILABLE', context: { status: 404 } });
  clock.nowMs = 59_999;
  await expect(read()).rejects.toMatchObject({ context: { status: 404 } });
  server.versions = ['v2'];
  await read();
  server.versions = undefined;
  clock.nowMs = 100_000;
  await expect(read()).rejects.toMatchObject({ context: { status: 404 } });
  clock.nowMs = 160_000;
  expect(JSON.parse(await read())).toMatchObject({ items: [] });
});

it('is an empty list at once for a reader that knows no objects from before', async () => {
  const { server } = scene();
  const api = new OptionalApi({ http: server, group: 'example.org', versions: ['v2'], confirmAfterMs: 0 });
  let text = '';
  for await (const chunk of api.stream({ path }, AbortSignal.timeout(5_000))) text += Buffer.from(chunk).toString();
  expect(JSON.parse(text)).toMatchObject({ items: [] });
});

describe('a reflector of an optional resource', () => {
  const hasty = { ...reflectorPolicy, minBackoffMs: 1, maxBackoffMs: 4, healthyWatchMs: 0 };
  const things: Resource<object> = { kind: 'Thing', path, revision: 1, project: () => ({ is: 'thing' }) };
  const object = (name: string) => ({ metadata: { name, resourceVersion: '500' } });

  it.each(['in this process', 'by an earlier agent'])('keeps objects that were known %s while the group answers 404', async (known) => {
    const { server, api, clock } = scene(['v2']);
    server.objects = [object('a'), object('b')];
    const stateDir = mkdtempSync(join(tmpdir(), 'seine-optional-'));
    const stop = new AbortController();
    onTestFinished(() => {
      stop.abort();
      rmSync(stateDir, { recursive: true });
    });
    const open = () =>
      new Reflector({
        http: api,
        resource: things,
        turns: new LoopTurns(5),
        onReport: () => undefined,
        stateDir,
        saveEveryMs: 1,
        policy: hasty,
      });
    let reflector = open();
    const first = new AbortController();
    const ended = reflector.run(first.signal);
    await reflector.replica.whenSynced(stop.signal);
    await expect.poll(() => readdirSync(stateDir).length).toBe(1);
    if (known === 'by an earlier agent') {
      first.abort();
      await ended;
      reflector = open();
    } else onTestFinished(() => first.abort());
    server.withdraw();
    const asked = server.discoveries;
    if (known === 'by an earlier agent') void reflector.run(stop.signal);
    await expect.poll(() => server.discoveries).toBeGreaterThan(asked + 10);
    expect([...reflector.replica.entries()].map(([name]) => name)).toEqual(['a', 'b']);
    clock.nowMs = 60_000;
    await expect.poll(() => reflector.replica.size).toBe(0);
  });
});
