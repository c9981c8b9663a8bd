import { createServer, type Server } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { silentLog } from '../../../base/log/log.ts';
import { UnservedReasons } from '../../../base/log/unserved-reasons.ts';
import type { KubeEvent } from '../../../kubernetes/client/events.ts';
import type { Service } from '../../../kubernetes/resources/service.ts';
import type { ServiceResult } from '../service-changes.ts';
import { HealthCheckNodePorts } from './health-check-node-ports.ts';

const posted: KubeEvent[] = [];
const events = { post: (event: KubeEvent) => void posted.push(event) };
const taken = new UnservedReasons('Service', silentLog);
const health = new HealthCheckNodePorts({ nodeName: 'node-1', isEnabled: () => true, events, taken, log: silentLog, retryMs: 10 });
const other: Server = createServer();
afterEach(() => {
  health.close();
  other.close();
});

function resultOf(port: number | undefined): ServiceResult {
  const service = {
    ...{ namespace: 'default', name: 'web', uid: 'u', type: 'LoadBalancer', externalTrafficPolicy: 'Local' },
    ...(port === undefined ? {} : { healthCheckNodePort: port }),
  } as Service;
  return { key: 'default/web', service, slices: [], ports: new Map([[1, undefined]]) as never, objections: [] };
}

it('reports a port of another process by an event and a problem, and opens it when it is free', async () => {
  await new Promise<void>((resolve) => other.listen(0, () => resolve()));
  const address = other.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  health.compared(resultOf(port));
  await expect.poll(() => taken.first(1)).toMatchObject([{ kind: 'Service', name: 'default/web' }]);
  expect(taken.of('default/web')[0]).toMatch(new RegExp(`^healthCheckNodePort ${port} cannot be opened .*EADDRINUSE`));
  expect(posted).toMatchObject([
    { type: 'Warning', reason: 'HealthCheckNodePortTaken', about: { kind: 'Service', name: 'web', uid: 'u' } },
  ]);
  expect(posted[0]?.message).toContain('node node-1: healthCheckNodePort');
  health.compared(resultOf(port));
  other.close();
  await expect.poll(() => taken.size).toBe(0);
  expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(503);
  expect(posted).toHaveLength(1);
});

it('drops a port that is no longer desired', async () => {
  const holder = createServer();
  await new Promise<void>((resolve) => holder.listen(0, () => resolve()));
  const address = holder.address();
  health.compared(resultOf(typeof address === 'object' && address ? address.port : 0));
  await expect.poll(() => taken.size).toBe(1);
  health.compared(resultOf(undefined));
  expect(taken.size).toBe(0);
  holder.close();
});
