import { mkdtemp, rm } from 'node:fs/promises';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { serverCredentials } from '../../../lab/apiserver/access/certificates.ts';
import { json, ScriptedApiServer, status, watch } from '../testing/scripted-api-server.ts';
import type { KubeAccess } from './config.ts';
import { KubeHttp, segment } from './http-client.ts';

const soon = () => AbortSignal.timeout(5_000);

describe('KubeHttp', () => {
  let server: ScriptedApiServer;
  let access: KubeAccess;
  let client: KubeHttp;

  beforeEach(async () => {
    server = new ScriptedApiServer();
    access = await server.listen();
    client = new KubeHttp(access, 'test');
  });

  afterEach(async () => {
    client.close();
    await server.close();
  });

  it('returns the JSON of the answer', async () => {
    server.answer(json({ gitVersion: 'v1' }));
    expect(await client.json({ path: '/version' }, soon())).toEqual({ gitVersion: 'v1' });
  });

  it('reports the server’s reason of a rejection', async () => {
    server.answer(status(409, 'Conflict', { retryAfterSeconds: 2, causes: [{ reason: 'Why' }] }));
    await expect(client.json({ method: 'POST', path: '/x', body: {} }, soon())).rejects.toMatchObject({
      code: 'REFUSED',
      message: '[REFUSED] the API server answered 409 Conflict: said Conflict',
      context: { method: 'POST', path: '/x', status: 409, reason: 'Conflict', causes: ['Why'], retryAfterMs: 2_000 },
    });
  });

  it('reports an unknown outcome after 5xx, and reads Retry-After', async () => {
    server.answer((_request, response) => void response.writeHead(503, { 'retry-after': '7' }).end('<html>'));
    await expect(client.json({ path: '/x' }, soon())).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      context: { status: 503, reason: '', retryAfterMs: 7_000 },
    });
  });

  it('requests new credentials after 401', async () => {
    server.answer(status(401, 'Unauthorized'));
    await expect(client.json({ path: '/x' }, soon())).rejects.toMatchObject({ code: 'REFUSED' });
    expect(server.requests).toContain('distrust');
  });

  it('distinguishes a timeout from an abort', async () => {
    await expect(client.json({ path: '/x', timeoutMs: 20 }, soon())).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    await expect(client.json({ path: '/x' }, AbortSignal.abort())).rejects.toMatchObject({ code: 'CANCELLED' });
    const stop = new AbortController();
    const request = client.json({ path: '/stopped' }, stop.signal);
    await vi.waitFor(() => expect(server.requests).toContain('GET /stopped'), { timeout: 10_000 });
    stop.abort();
    await expect(request).rejects.toMatchObject({ code: 'CANCELLED' });
  });

  it.each([301, 302, 307, 308])('follows no redirect with its token: %i', async (code) => {
    server.answer((_request, response) => void response.writeHead(code, { location: '/stolen' }).end());
    await expect(client.json({ path: '/x' }, soon())).rejects.toMatchObject({ code: 'REFUSED', context: { status: code } });
    expect(server.requests).toEqual(['GET /x']);
  });

  it('names no credential in errors', async () => {
    const token = 'Bearer very-secret';
    const bearing = new KubeHttp({ ...access, credentials: async () => ({ headers: { Authorization: token }, tls: {} }) }, 'test');
    server.answer(status(403, 'Forbidden'), (_request, response) => void response.destroy(), json('no object'.repeat(1 << 19)));
    for (let times = 0; times < 3; times++) {
      const thrown: unknown = await bearing.json({ path: '/x' }, soon()).catch((error: unknown) => error);
      expect(inspect(thrown, { depth: 10, showHidden: true })).not.toContain('very-secret');
    }
    bearing.close();
  });

  it('reads no more than 4 MiB', async () => {
    server.answer(json({ x: 'y'.repeat(5 << 20) }));
    await expect(client.json({ path: '/x' }, soon())).rejects.toMatchObject({ code: 'PROTOCOL' });
  });

  it('frees the connection when the reader leaves', async () => {
    let left = false;
    server.answer(async (request, response, signal) => {
      signal.addEventListener('abort', () => (left = true));
      await watch([{ a: 1 }])(request, response, signal);
    });
    for await (const chunk of client.stream({ path: '/x' }, soon())) {
      expect(Buffer.from(chunk).toString()).toBe('{"a":1}\n');
      break;
    }
    await vi.waitFor(() => expect(left).toBe(true), { timeout: 10_000 });
  });

  it('survives an abort at any moment of an answer', async () => {
    for (let round = 0; round < 200; round++) {
      server.answer(watch([{ a: 1 }], 'end'));
      const stop = new AbortController();
      const reading = (async () => {
        for await (const _ of client.stream({ path: '/x' }, stop.signal)) if (round % 4 === 0) stop.abort();
      })();
      if (round % 4 === 1) setImmediate(() => stop.abort());
      if (round % 4 === 2) queueMicrotask(() => stop.abort());
      await reading.catch((thrown: unknown) => expect(thrown).toMatchObject({ code: 'CANCELLED' }));
      stop.abort();
    }
  });

  it('retries when a kept connection turns out to be closed, unless that might repeat an effect', async () => {
    server.answer(json({}), (request) => void request.socket.destroy(), json({ second: true }));
    await client.json({ path: '/x' }, soon());
    expect(await client.json({ path: '/x' }, soon())).toEqual({ second: true });
    server.answer((request) => void request.socket.destroy());
    await expect(client.json({ method: 'POST', path: '/x', body: {} }, soon())).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(server.requests).toHaveLength(4);
  });

  it('keeps connections', async () => {
    const ports = new Set<number | undefined>();
    for (let count = 0; count < 3; count++) {
      server.answer((request, response, signal) => {
        ports.add(request.socket.remotePort);
        return json({})(request, response, signal);
      });
      await client.json({ path: '/x' }, soon());
    }
    expect(ports.size).toBe(1);
  });
});

it('escapes names in paths, and refuses those that would change the path', async () => {
  let seen: string | undefined;
  const server = http.createServer((request, response) => {
    seen = request.url;
    response.end('{}');
  });
  const access = await listen(server, 'http', {});
  const client = new KubeHttp({ ...access, server: new URL(`${access.server.href}prefix/`) }, 'test');
  await client.json({ path: `/api/${segment('a/../b?c=d')}`, query: { labelSelector: 'a=b&c' } }, soon());
  expect(seen).toBe('/prefix/api/a%2F..%2Fb%3Fc%3Dd?labelSelector=a%3Db%26c');
  expect(() => segment('..')).toThrow(/INVALID_INPUT/);
  client.close();
  server.close();
});

describe('TLS', () => {
  it('trusts the CA of the configuration and no other, and sends the token', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'seine-tls-'));
    const { caPem, certPem, keyPem } = serverCredentials(dir, ['127.0.0.1'], Date.now());
    await rm(dir, { recursive: true });
    const server = https.createServer({ key: keyPem, cert: certPem }, (request, response) =>
      response.end(JSON.stringify(request.headers.authorization)),
    );
    const trusted = new KubeHttp(await listen(server, 'https', { ca: caPem }), 'test');
    expect(await trusted.json({ path: '/' }, soon())).toBe('Bearer t');
    const stranger = new KubeHttp({ ...(await address(server, 'https')), credentials: async () => ({ headers: {}, tls: {} }) }, 'test');
    await expect(stranger.json({ path: '/' }, soon())).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    trusted.close();
    stranger.close();
    server.close();
  });
});

async function listen(server: http.Server, scheme: string, tls: object): Promise<KubeAccess> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { ...(await address(server, scheme)), credentials: async () => ({ headers: { Authorization: 'Bearer t' }, tls }) };
}

async function address(server: http.Server, scheme: string): Promise<KubeAccess> {
  const { port } = server.address() as AddressInfo;
  const url = new URL(`${scheme}://127.0.0.1:${port}`);
  return { server: url, credentials: async () => ({ headers: {}, tls: {} }), invalidate: () => {} };
}
