import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, stop } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { withoutUnusedClients } from '../../build/esbuild/stub-unused.mjs';
import type { loadKubeAccess as LoadKubeAccess } from '../../src/kubernetes/client/config.ts';

const root = join(import.meta.dirname, '../..');

describe('a bundle without the clients we never use', () => {
  const folder = mkdtempSync(join(tmpdir(), 'seine-bundled-'));
  const path = join(folder, 'kubeconfig');
  let loadKubeAccess: typeof LoadKubeAccess;

  beforeAll(async () => {
    const outfile = join(folder, 'config.mjs');
    const require = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";
    const entryPoints = [join(root, 'src/kubernetes/client/config.ts')];
    await build({
      entryPoints,
      outfile,
      bundle: true,
      platform: 'node',
      format: 'esm',
      banner: { js: require },
      plugins: [withoutUnusedClients],
    });
    ({ loadKubeAccess } = (await import(pathToFileURL(outfile).href)) as { loadKubeAccess: typeof LoadKubeAccess });
  });

  afterAll(async () => {
    await stop();
    rmSync(folder, { recursive: true, force: true });
  });

  function load(user: object, cluster: object = {}): ReturnType<typeof LoadKubeAccess> {
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'c',
      clusters: [{ name: 'k', cluster: { server: 'https://api.example:6443', ...cluster } }],
      users: [{ name: 'u', user }],
      contexts: [{ name: 'c', context: { cluster: 'k', user: 'u' } }],
    };
    writeFileSync(path, JSON.stringify(config));
    return loadKubeAccess({ from: 'file', path });
  }

  const base64 = (text: string) => Buffer.from(text).toString('base64');

  it('has the credentials of tokens, certificates, passwords and exec plug-ins', async () => {
    expect(await load({ token: 'secret' }).credentials()).toMatchObject({ headers: { Authorization: 'Bearer secret' } });
    const pair = { 'client-certificate-data': base64('CERT'), 'client-key-data': base64('KEY') };
    expect(await load(pair, { 'certificate-authority-data': base64('CA') }).credentials()).toMatchObject({
      tls: { ca: Buffer.from('CA'), cert: Buffer.from('CERT'), key: Buffer.from('KEY') },
    });
    expect(await load({ username: 'u', password: 'p' }).credentials()).toMatchObject({
      headers: { Authorization: `Basic ${base64('u:p')}` },
    });
    const credential = JSON.stringify({ apiVersion: 'client.authentication.k8s.io/v1', kind: 'ExecCredential', status: { token: 'run' } });
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: 'echo', args: [credential], interactiveMode: 'Never' };
    expect(await load({ exec }).credentials()).toMatchObject({ headers: { Authorization: 'Bearer run' } });
  });

  it('rejects by name what would need them', () => {
    expect(() => load({}, { 'proxy-url': 'http://proxy' })).toThrow(/proxy-url is not supported/);
    expect(() => load({ 'auth-provider': { name: 'oidc', config: {} } })).toThrow(/"oidc" is not supported/);
  });
});
