import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { loadKubeAccess } from './config.ts';

describe('loadKubeAccess', () => {
  let dir: string;
  let path: string;

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'seine-config-'));
    path = join(dir, 'kubeconfig');
  });

  afterEach(async () => {
    vi.restoreAllMocks();
    await rm(dir, { recursive: true, force: true });
  });

  async function write(user: object, cluster: object = { server: 'https://api.example:6443/prefix/' }): Promise<void> {
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'c',
      clusters: [{ name: 'k', cluster }],
      users: [{ name: 'u', user }],
      contexts: [{ name: 'c', context: { cluster: 'k', user: 'u' } }],
    };
    await writeFile(path, JSON.stringify(config));
  }

  const load = () => loadKubeAccess({ from: 'file', path });
  const pem = (text: string) => Buffer.from(text).toString('base64');

  it('returns the server, the CA and the client certificate', async () => {
    await write(
      { 'client-certificate-data': pem('CERT'), 'client-key-data': pem('KEY') },
      { server: 'https://api.example:6443', 'certificate-authority-data': pem('CA'), 'tls-server-name': 'kube' },
    );
    const access = load();
    expect(access.server.href).toBe('https://api.example:6443/');
    expect(await access.credentials()).toEqual({
      headers: {},
      tls: { ca: Buffer.from('CA'), cert: Buffer.from('CERT'), key: Buffer.from('KEY'), servername: 'kube' },
    });
  });

  it('uses a configured address, with the same credentials', async () => {
    await write({ token: 'one' });
    const access = loadKubeAccess({ from: 'file', path, server: 'https://10.0.0.1:6443' });
    expect(access.server.href).toBe('https://10.0.0.1:6443/');
    expect((await access.credentials()).headers).toEqual({ Authorization: 'Bearer one' });
    expect(() => loadKubeAccess({ from: 'file', path, server: 'ftp://10.0.0.1' })).toThrow(/cannot speak ftp:/);
  });

  it.each(['tokenFile', 'token-file'])('reads a %s again after a minute, or when the server rejected the token', async (key) => {
    const token = join(dir, 'token');
    await writeFile(token, 'one\n');
    await write({ [key]: key === 'tokenFile' ? 'token' : token });
    const access = load();
    const header = async () => (await access.credentials()).headers['Authorization'];
    expect(await header()).toBe('Bearer one');
    await writeFile(token, 'two\n');
    expect(await header()).toBe('Bearer one');
    access.invalidate();
    expect(await header()).toBe('Bearer two');
    await writeFile(token, 'three\n');
    const nowMs = performance.now();
    vi.spyOn(performance, 'now').mockReturnValue(nowMs + 61_000);
    expect(await header()).toBe('Bearer three');
  });

  it('prefers a token file to a token, and names an unreadable file', async () => {
    await writeFile(join(dir, 'token'), 'of the file');
    await write({ token: 'of the text', tokenFile: 'token' });
    expect((await load().credentials()).headers).toEqual({ Authorization: 'Bearer of the file' });
    await write({ tokenFile: 'missing' });
    expect(load).toThrow(/\[INVALID_INPUT\] kubeconfig/);
  });

  it('runs an exec plug-in, and again when the server rejected its credentials', async () => {
    const plugin = join(dir, 'plugin');
    const count = join(dir, 'count');
    const credential = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t$N"}}';
    await writeFile(plugin, `#!/bin/sh\necho x >> ${count}\nN=$(wc -l < ${count})\ncat <<END\n${credential}\nEND\n`);
    await chmod(plugin, 0o700);
    await write({ exec: { apiVersion: 'client.authentication.k8s.io/v1', command: plugin, interactiveMode: 'Never' } });
    const access = load();
    expect((await access.credentials()).headers).toEqual({ Authorization: 'Bearer t1' });
    expect((await access.credentials()).headers).toEqual({ Authorization: 'Bearer t1' });
    access.invalidate();
    expect((await access.credentials()).headers).toEqual({ Authorization: 'Bearer t2' });
  });

  it('throws UNAVAILABLE, without a secret, if a credential is not available', async () => {
    await write({ exec: { apiVersion: 'client.authentication.k8s.io/v1', command: join(dir, 'missing') } });
    await expect(load().credentials()).rejects.toMatchObject({ code: 'UNAVAILABLE', context: { source: 'file' } });
  });

  it('keeps its credentials while the file is being replaced', async () => {
    await write({ token: 'one' });
    const access = load();
    await writeFile(path, '{"broken');
    access.invalidate();
    await expect(access.credentials()).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    await write({ token: 'two' });
    expect((await access.credentials()).headers).toEqual({ Authorization: 'Bearer two' });
  });

  it('rejects unsupported credentials immediately', async () => {
    expect(load).toThrow(/\[INVALID_INPUT\] kubeconfig/);
    await write({}, { server: 'not a url' });
    expect(load).toThrow(/is not a URL/);
    await write({}, { server: 'ftp://x' });
    expect(load).toThrow(/cannot speak ftp:/);
    await write({}, { server: 'https://x', 'proxy-url': 'http://proxy' });
    expect(load).toThrow(/proxy-url is not supported/);
    await write({ 'auth-provider': { name: 'oidc', config: { 'id-token': 'a.b.c' } } });
    expect(load).toThrow(/"oidc" is not supported: use a token/);
  });

  it('needs no credentials for plain http', async () => {
    await write({ token: 'secret' }, { server: 'http://127.0.0.1:8001' });
    expect(await load().credentials()).toEqual({ headers: {}, tls: {} });
  });
});
