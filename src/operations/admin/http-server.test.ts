import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { silentLog } from '../../base/log/log.ts';
import { type ApiRoutes, itemsAnswer, json, text } from './answer.ts';
import { type ApiOptions, ApiServer } from './http-server.ts';

const patience = { requestMs: 200, answerMs: 300 };
let folder = '';
let socketPath = '';
let server: ApiServer | undefined;
let abandoned = 0;

async function* endless(signal: AbortSignal): AsyncGenerator<string> {
  try {
    while (!signal.aborted) yield 'x'.repeat(64 * 1024);
  } finally {
    abandoned++;
  }
}

function* laborious(): Generator<number> {
  for (let at = 0; at < 400; at++) {
    for (const until = performance.now() + 1; performance.now() < until; ) Math.sqrt(at);
    yield at;
  }
}

let hold = Promise.withResolvers<void>();
const routes: ApiRoutes = {
  '/ok': (query) => json({ name: query.get('name') }),
  '/bad': () => {
    throw new SeineError('INVALID_INPUT', 'no such table');
  },
  '/away': () => {
    throw new SeineError('UNAVAILABLE', 'the switch is away');
  },
  '/bug': () => {
    throw new TypeError('undefined is not a function');
  },
  '/items': () =>
    itemsAnswer(
      Array.from({ length: 50_000 }, (_, at) => ({ at, text: 'something of some length' })),
      new LoopTurns(8),
    ),
  '/laborious': () => itemsAnswer(laborious(), new LoopTurns(8)),
  '/endless': (_, signal) => ({ status: 200, contentType: 'text/plain', body: endless(signal) }),
  '/slow': async () => {
    await hold.promise;
    return text('at last');
  },
};

async function start(options: Partial<ApiOptions> = {}): Promise<void> {
  server = await ApiServer.start({ routes, timeouts: patience, ...options }, { socketPath, log: silentLog, checkMs: 20 });
}

function get(path: string, method = 'GET'): Promise<{ status: number; body: string; type: string }> {
  return new Promise((resolve, reject) => {
    request({ socketPath, path, method, agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (piece: string) => (body += piece));
      response.once('end', () => resolve({ status: response.statusCode ?? 0, body, type: response.headers['content-type'] ?? '' }));
      response.once('error', reject);
    })
      .once('error', reject)
      .end();
  });
}

/** Returns the answer to these bytes, until the server closes. */
function raw(bytes: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(socketPath, () => socket.write(bytes));
    let heard = '';
    socket.setEncoding('latin1').on('data', (piece: string) => (heard += piece));
    socket.on('error', () => undefined);
    socket.once('close', () => resolve(heard));
  });
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-api-'));
  socketPath = join(folder, 'run', 'agent.sock');
  abandoned = 0;
  hold = Promise.withResolvers();
});
afterEach(async () => {
  await server?.close();
  server = undefined;
  rmSync(folder, { recursive: true, force: true });
});

describe('a request', () => {
  it('answers GET, and HEAD without a body', async () => {
    await start();
    expect(await get('/ok?name=a%20b')).toEqual({ status: 200, body: '{"name":"a b"}\n', type: 'application/json' });
    expect(await get('/ok', 'HEAD')).toMatchObject({ status: 200, body: '' });
  });

  it.each(['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'])('does not serve %s', async (method) => {
    await start();
    expect(await get('/ok', method)).toMatchObject({ status: 405 });
  });

  it.each(['//', '/../../etc/passwd', '/constructor', '/__proto__', '/ok/', '*'])('returns 404 for %s', async (path) => {
    await start();
    expect([400, 404]).toContain((await get(path)).status);
  });

  it('distinguishes errors of client and server by the status', async () => {
    await start();
    expect(await get('/bad')).toMatchObject({ status: 400, body: '[INVALID_INPUT] no such table\n' });
    expect(await get('/away')).toMatchObject({ status: 503 });
    expect(await get('/bug')).toMatchObject({ status: 500 });
  });

  it('writes long lists as JSON', async () => {
    await start();
    const { items } = JSON.parse((await get('/items')).body) as { items: { at: number }[] };
    expect(items).toHaveLength(50_000);
    expect(items.at(-1)?.at).toBe(49_999);
  });

  it('lets everything else run while it makes a long list', async () => {
    await start();
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    await get('/laborious');
    clearInterval(timer);
    expect(turns).toBeGreaterThan(20); // 400 ms of work in slices of 8
  });
});

describe('misbehaving clients', () => {
  it('rejects a request line that is too long', async () => {
    await start();
    expect(await get(`/${'x'.repeat(20_000)}`)).toMatchObject({ status: 431 });
  });

  it('closes a connection with a part of a request', async () => {
    await start();
    expect(await raw('GET /ok HTTP/1.1\r\nHost: a\r\n')).toBe('');
  });

  it('closes the slowest readers where the number of answers is at its bound', async () => {
    await start({ timeouts: { requestMs: 60_000, answerMs: 60_000 } });
    const open = Array.from({ length: 8 }, () => {
      const socket: Socket = connect(socketPath, () => socket.write('GET /endless HTTP/1.1\r\nHost: a\r\n\r\n'));
      return socket.pause().on('error', () => undefined);
    });
    await expect.poll(() => get('/ok')).toMatchObject({ status: 200 });
    await expect.poll(() => abandoned).toBeGreaterThan(0);
    for (const socket of open) socket.destroy();
  });

  it('closes an idle connection', async () => {
    await start();
    expect(await raw('')).toBe('');
  });

  it('answers malformed HTTP with an error', async () => {
    await start();
    expect(await raw('\u0016\u0003\u0001 hello\r\n\r\n')).toContain('400');
  });

  it('closes a client that does not read its answer, and stops producing it', async () => {
    await start();
    const socket: Socket = connect(socketPath, () => socket.write('GET /endless HTTP/1.1\r\nHost: a\r\n\r\n'));
    socket.pause().on('error', () => undefined);
    await expect.poll(() => abandoned, { timeout: 5_000 }).toBe(1);
    socket.destroy();
  });

  it('produces few answers at a time', async () => {
    await start();
    const waiting = Array.from({ length: 8 }, () => get('/slow'));
    await expect.poll(async () => (await get('/ok')).status).toBe(503);
    hold.resolve();
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect(await get('/ok')).toMatchObject({ status: 200 });
  });

  it('rejects peers that it does not admit', async () => {
    await start({ admits: () => false });
    await expect(get('/ok')).rejects.toThrow(/socket hang up|ECONNRESET|EPIPE/);
  });
});

describe('its socket', () => {
  it('is for its owner only, in a folder for its owner only', async () => {
    await start();
    expect(statSync(socketPath).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, 'run')).mode & 0o777).toBe(0o700);
  });

  it('replaces the remains of an earlier agent', async () => {
    mkdirSync(dirname(socketPath), { recursive: true });
    const dead = createServer().listen(`${socketPath}.old`);
    await once(dead, 'listening');
    renameSync(`${socketPath}.old`, socketPath); // so that closing does not remove it
    await new Promise((resolve) => dead.close(resolve));
    expect(statSync(socketPath).isSocket()).toBe(true);
    await start();
    expect(await get('/ok')).toMatchObject({ status: 200 });
  });

  it('does not replace that of a live agent', async () => {
    await start();
    const first = server;
    await expect(start()).rejects.toMatchObject({ code: 'REFUSED' });
    expect(await get('/ok')).toMatchObject({ status: 200 });
    await first?.close();
  });

  it('does not delete another file', async () => {
    socketPath = join(folder, 'file');
    writeFileSync(socketPath, 'mine');
    await expect(start()).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  it.each([
    ['alone', () => rmSync(socketPath)],
    ['with its folder', () => rmSync(dirname(socketPath), { recursive: true })],
  ])('is recreated when another process removes it %s, without losing answers in progress', async (_, remove) => {
    let connected = 0;
    await start({ admits: () => ++connected > 0, timeouts: { requestMs: 60_000, answerMs: 60_000 } });
    const waiting = get('/slow');
    const silent = raw('GET /ok');
    await expect.poll(() => connected).toBe(2);
    remove();
    await expect.poll(() => existsSync(socketPath)).toBe(true);
    expect(await get('/ok')).toMatchObject({ status: 200 });
    expect(await silent).toBe(''); // no deadline would ever end it
    hold.resolve();
    expect(await waiting).toMatchObject({ status: 200, body: 'at last\n' });
    expect([statSync(socketPath).mode & 0o777, statSync(dirname(socketPath)).mode & 0o777]).toEqual([0o600, 0o700]);
    await server?.close();
    expect(existsSync(socketPath)).toBe(false);
  });

  it('may be an address instead', async () => {
    server = await ApiServer.start({ routes }, { host: '127.0.0.1', port: 0 });
    const response = await fetch(`http://127.0.0.1:${server.port}/ok`);
    expect(response.status).toBe(200);
    await response.body?.cancel();
    await sleep(0);
  });
});
