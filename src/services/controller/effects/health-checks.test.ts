import { get } from 'node:http';
import { createServer } from 'node:net';
import { afterEach, expect, it, vi } from 'vitest';
import { silentLog } from '../../../base/log/log.ts';
import { ServiceHealthChecks } from './health-checks.ts';

const checks = new ServiceHealthChecks({ log: silentLog });
afterEach(() => checks.close());

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, () => resolve()));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address ? address.port : 0;
}

function ask(port: number): Promise<readonly [status: number | undefined, weight: unknown, body: unknown]> {
  return new Promise((resolve, reject) => {
    const asking = get({ host: '127.0.0.1', port, path: '/', agent: false }, (answer) => {
      let text = '';
      answer.on('data', (part) => (text += part));
      answer.on('end', () => resolve([answer.statusCode, answer.headers['x-load-balancing-endpoint-weight'], JSON.parse(text)]));
    });
    asking.on('error', reject);
  });
}

it('answers as kube-proxy does, by the endpoints of this node', async () => {
  const port = await freePort();
  const check = { namespace: 'default', name: 'web', port, localEndpoints: 2 };
  const service = { namespace: 'default', name: 'web' };
  checks.set('default/web', check);
  await vi.waitFor(async () => expect(await ask(port)).toEqual([200, '2', { service, localEndpoints: 2, serviceProxyHealthy: true }]));
  checks.set('default/web', { ...check, localEndpoints: 0 });
  expect(await ask(port)).toEqual([503, '0', { service, localEndpoints: 0, serviceProxyHealthy: true }]);
});

it('moves with the port, and is removed with the Service', async () => {
  const [first, second] = [await freePort(), await freePort()];
  const check = { namespace: 'default', name: 'web', localEndpoints: 1 };
  checks.set('default/web', { ...check, port: first });
  await vi.waitFor(() => ask(first));
  checks.set('default/web', { ...check, port: second });
  await vi.waitFor(() => ask(second));
  await expect(ask(first)).rejects.toThrow('ECONNREFUSED');
  checks.set('default/web', undefined);
  await expect(ask(second)).rejects.toThrow('ECONNREFUSED');
  expect(checks.size).toBe(0);
});
