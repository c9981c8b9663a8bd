import { request } from 'node:http';
import { connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import { afterEach, expect, it } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { startUiServer, type UiServer, type UiServerOptions } from './ui-server.ts';

const servers: UiServer[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function start(more: Partial<UiServerOptions> = {}): Promise<UiServer> {
  const server = await startUiServer({
    routes: {
      fine: (query) => Promise.resolve({ asked: query.get('name') }),
      invalid: () => Promise.reject(new SeineError('INVALID_INPUT', 'name: required')),
      forbidden: () => Promise.reject(new SeineError('REFUSED', 'pods is forbidden')),
      away: () => Promise.reject(new SeineError('UNAVAILABLE', 'connection refused')),
    },
    actions: { trace: () => Promise.resolve({ traced: true }), length: (_, __, body) => Promise.resolve(body.length) },
    files: new Map([['/', { type: 'text/html', content: '<!doctype html>' }]]),
    port: 0,
    idleMs: 60_000,
    ...more,
  });
  servers.push(server);
  return server;
}

interface Answer {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: string;
}

function send(
  { port }: UiServer,
  path: string,
  headers: Record<string, string> = {},
  method = 'GET',
  { host = '127.0.0.1', text = '' } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request({ host, port, path, method, headers, agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (part: string) => (body += part));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }));
    });
    asked.on('error', reject).end(text);
  });
}

async function enter(server: UiServer): Promise<string> {
  const { pathname, search } = new URL(server.url);
  const { status, headers } = await send(server, pathname + search);
  expect([status, headers['location']]).toEqual([303, '/']);
  return headers['set-cookie']?.[0] ?? '';
}

/** Name and value of a cookie. */
const pairOf = (cookie: string): string => cookie.split(';')[0] ?? '';

it('exchanges the token of the address once, for a cookie that neither scripts nor other sites get', async () => {
  const server = await start();
  const cookie = await enter(server);
  expect(cookie.split('; ').slice(1)).toEqual(['Path=/', 'HttpOnly', 'SameSite=Strict']);
  expect((await send(server, '/', { cookie: pairOf(cookie) })).body).toBe('<!doctype html>');
  const again = await send(server, new URL(server.url).pathname + new URL(server.url).search);
  expect([again.status, again.headers['set-cookie']]).toEqual([403, undefined]);
});

it('keeps the rest of the address', async () => {
  const server = await start();
  const { search } = new URL(server.url);
  expect((await send(server, `/${search}&view=trace&from=a%2Fb`)).headers['location']).toBe('/?view=trace&from=a%2Fb');
});

it.each([
  ['no cookie', '/', {}],
  ['another cookie', '/', { cookie: 'seine-ui=1' }],
  ['another token', '/?token=abc', {}],
  ['no cookie for an answer', '/api/fine', {}],
])('refuses a request with %s', async (_, path, headers) => {
  expect((await send(await start(), path, headers)).status).toBe(403);
});

it.each([
  ['a Host that resolves to this host', { host: 'evil.example' }],
  ['another port', { host: '127.0.0.1:1' }],
  ['localhost', { host: 'localhost' }],
  ['another Origin', { origin: 'https://evil.example' }],
  ['the Origin of a sandboxed frame', { origin: 'null' }],
  ['another site', { 'sec-fetch-site': 'cross-site' }],
  ['another port of this host', { 'sec-fetch-site': 'same-site' }],
])('refuses a request with the right cookie from %s', async (_, headers) => {
  const server = await start();
  const cookie = pairOf(await enter(server));
  expect((await send(server, '/api/fine', { cookie, ...headers })).status).toBe(403);
  expect((await send(server, '/', { cookie, ...headers })).status).toBe(403);
});

it('does not exchange the token for another Host', async () => {
  const server = await start();
  expect((await send(server, new URL(server.url).search.replace('?', '/?'), { host: 'evil.example' })).status).toBe(403);
  expect(pairOf(await enter(server))).toMatch(/^seine-ui-\d+=[\w-]{43}$/);
});

it('answers questions, and names the kind of a failure', async () => {
  const server = await start();
  const cookie = pairOf(await enter(server));
  const ask = async (path: string) => {
    const { status, body } = await send(server, path, { cookie });
    return [status, JSON.parse(body) as unknown];
  };
  expect(await ask('/api/fine?name=x')).toEqual([200, { asked: 'x' }]);
  expect(await ask('/api/invalid')).toEqual([400, { error: { kind: 'invalid', message: 'name: required' } }]);
  expect(await ask('/api/forbidden')).toEqual([403, { error: { kind: 'forbidden', message: 'pods is forbidden' } }]);
  expect(await ask('/api/away')).toEqual([503, { error: { kind: 'unavailable', message: 'connection refused' } }]);
  expect((await ask('/api/toString'))[0]).toBe(404);
  expect((await ask('/api/trace'))[0]).toBe(404);
});

it('traces only by POST with a header that no form of another site can send', async () => {
  const server = await start();
  const cookie = pairOf(await enter(server));
  expect((await send(server, '/api/trace', { cookie }, 'POST')).status).toBe(403);
  expect((await send(server, '/api/trace', { cookie, 'x-seine-action': '1' }, 'POST')).body).toBe('{"traced":true}');
  expect((await send(server, '/api/fine', { cookie, 'x-seine-action': '1' }, 'POST')).status).toBe(404);
  for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS'])
    expect((await send(server, '/api/fine', { cookie }, method)).status).toBe(405);
  expect((await send(server, '/', { cookie }, 'POST')).status).toBe(405);
});

it('reads the text of an action, up to 4 MiB', async () => {
  const server = await start();
  const headers = { cookie: pairOf(await enter(server)), 'x-seine-action': '1' };
  const posted = async (text: string) => await send(server, '/api/length', headers, 'POST', { text });
  expect((await posted('ä'.repeat(1_000))).body).toBe('1000');
  expect((await posted('x'.repeat(4 * 1024 * 1024))).body).toBe(String(4 * 1024 * 1024));
  const tooLong = await posted('x'.repeat(4 * 1024 * 1024 + 1));
  expect([tooLong.status, tooLong.body]).toEqual([400, expect.stringContaining('the text has more than 4194304 bytes')]);
});

it('sends strict headers with every answer', async () => {
  const server = await start();
  const cookie = pairOf(await enter(server));
  for (const { headers } of [await send(server, '/', { cookie }), await send(server, '/api/fine', { cookie }), await send(server, '/')]) {
    const policy = String(headers['content-security-policy']);
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|https?:|\*|data:/);
    expect(headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-resource-policy': 'same-origin',
      'cache-control': 'no-store',
    });
    expect(headers['access-control-allow-origin']).toBeUndefined();
  }
});

it('listens on loopback only', async () => {
  const { port } = await start();
  const others = Object.values(networkInterfaces()).flatMap((each) =>
    (each ?? []).filter(({ internal, family }) => !internal && family === 'IPv4'),
  );
  for (const { address } of others) {
    const outcome = await new Promise<string>((resolve) => {
      const socket = connect(port, address, () => resolve('connected')).on('error', () => resolve('refused'));
      socket.on('close', () => socket.destroy());
    });
    expect(outcome).toBe('refused');
  }
});

it('ends when it is idle', async () => {
  const server = await start({ idleMs: 50 });
  await server.ended;
  await expect(send(server, '/')).rejects.toThrow();
});
