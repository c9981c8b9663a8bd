import { expect, it } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { OptionalApi } from './optional-api.ts';

const path = '/apis/example.org/v2/things';
const refusal = (status: number) => new SeineError('REFUSED', `status ${status}`, { context: { status } });

/** A server that offers these versions of the group; undefined: it has no such group. */
class Server {
  versions: readonly string[] | undefined;
  status = 200;
  readonly asked: string[] = [];

  async json(): Promise<unknown> {
    if (this.status !== 200) throw refusal(this.status);
    if (!this.versions) throw refusal(404);
    return { versions: this.versions.map((version) => ({ version })) };
  }

  async *stream(request: { readonly path: string }): AsyncGenerator<Uint8Array, void> {
    this.asked.push(request.path);
    if (this.versions?.includes('empty')) throw refusal(404);
    yield Buffer.from('as served');
  }
}

function scene(versions?: readonly string[]) {
  const server = new Server();
  server.versions = versions;
  const api = new OptionalApi({ http: server, group: 'example.org', versions: ['v2', 'v1'], idleMs: { min: 1, max: 1 } });
  const read = async (query: Readonly<Record<string, string>> = {}) => {
    let text = '';
    for await (const chunk of api.stream({ path, query }, AbortSignal.timeout(5_000))) text += Buffer.from(chunk).toString();
    return text;
  };
  return { server, read };
}

const watch = { watch: 'true', resourceVersion: '7' };
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
    expect(JSON.parse(await read())).toEqual({ metadata: { resourceVersion: '0' }, items: [] });
    expect(JSON.parse(await read(watchList))).toMatchObject({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '0' } } });
    expect(await read(watch)).toBe('');
  },
);

it('demands another list once the resource is served, and once it is not served any more', async () => {
  const { server, read } = scene();
  await read();
  server.versions = ['v2'];
  await expect(read(watch)).rejects.toMatchObject({ context: { status: 410 } });
  expect(await read()).toBe('as served');
  expect(await read(watch)).toBe('as served');
  server.versions = undefined;
  await expect(read(watch)).rejects.toMatchObject({ context: { status: 410 } });
  expect(JSON.parse(await read())).toMatchObject({ items: [] });
});

it.each([401, 403, 500])('does not take status %d for an empty list', async (status) => {
  const { server, read } = scene(['v2']);
  server.status = status;
  await expect(read()).rejects.toMatchObject({ context: { status } });
});
