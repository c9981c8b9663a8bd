import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { upload } from '../../src/lab/probe/probe.ts';
import { eventually, protocols, ServiceLab } from '../support/service-lab.ts';
import { slowness } from '../support/test-datapath.ts';

let lab: ServiceLab;

beforeAll(async () => {
  lab = await ServiceLab.start();
}, 180_000 * slowness);
afterAll(async () => {
  await lab?.remove();
});

describe('large requests', () => {
  it.each([
    ['a pod', { app: 'web' }, 80],
    ['a pod of the host network', { app: 'host' }, 8081],
  ])('of 2000 octets and more reach %s, also as the first datagram', async (_, selector, targetPort) => {
    const ports = protocols.map((protocol) => ({ name: protocol, port: 80, targetPort, protocol: protocol.toUpperCase() }));
    const service = await lab.service(lab.name('large'), { selector, ports });
    for (const { from, ...aim } of lab.clusterAims(service, ['client-1', 'node-3'])) {
      const probe = { from: lab.place(from), address: aim.address, port: 80, protocol: aim.protocol ?? 'tcp', timeoutMs: 2_500 } as const;
      await eventually(async () =>
        expect(await upload(probe, 2_000), `${from} ${aim.address} ${aim.protocol}`).toMatchObject({ is: 'OK' }),
      );
    }
  });

  it('of 2000 octets come by node ports', async () => {
    const service = await lab.service(lab.name('large-port'), { selector: { app: 'web' }, type: 'NodePort' });
    for (const { from, address, port, protocol = 'tcp' } of lab.nodeAims(service, 'world', 'node-1')) {
      const probe = { from: lab.place(from), address, port, protocol, timeoutMs: 2_500 };
      await eventually(async () => expect(await upload(probe, 2_000), `${address} ${protocol}`).toMatchObject({ is: 'OK' }));
    }
  });
});
