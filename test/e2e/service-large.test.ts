import { execFileSync, spawnSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inNetns } from '../../lab/machine/netns.ts';
import { upload } from '../../lab/probe/probe.ts';
import { eventually, protocols, ServiceLab } from '../support/service-lab.ts';
import { slowness, testDatapath } from '../support/test-datapath.ts';

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
  ])('of 2000 bytes and more reach %s, also as the first datagram', async (_, selector, targetPort) => {
    const ports = protocols.map((protocol) => ({ name: protocol, port: 80, targetPort, protocol: protocol.toUpperCase() }));
    const service = await lab.service(lab.name('large'), { selector, ports });
    for (const { from, ...aim } of lab.clusterAims(service, ['client-1', 'node-3'])) {
      const probe = { from: lab.place(from), address: aim.address, port: 80, protocol: aim.protocol ?? 'tcp', timeoutMs: 2_500 } as const;
      await eventually(async () =>
        expect(await upload(probe, 2_000), `${from} ${aim.address} ${aim.protocol}`).toMatchObject({ is: 'OK' }),
      );
    }
  });

  it('of 2000 bytes pass node ports', async () => {
    const service = await lab.service(lab.name('large-port'), { selector: { app: 'web' }, type: 'NodePort' });
    for (const { from, address, port, protocol = 'tcp' } of lab.nodeAims(service, 'external', 'node-1')) {
      const probe = { from: lab.place(from), address, port, protocol, timeoutMs: 2_500 };
      await eventually(async () => expect(await upload(probe, 2_000), `${address} ${protocol}`).toMatchObject({ is: 'OK' }));
    }
  });
});

/**
 * Open vSwitch's userspace tracker reassembles up to 32 fragments (`docs/limits.md`). If this ever fails because all are answered, the
 * limit is gone: drop the row there. The kernel reassembles any number.
 */
it.runIf(testDatapath === 'netdev')(
  'a datagram of more than 32 fragments is lost on the userspace data path, in either family',
  async () => {
    const { command, args } = inNetns(lab.place('client-1'), 'ip', ['link', 'show', 'eth0']);
    const mtu = Number(/mtu (\d+)/.exec(execFileSync(command, [...args], { encoding: 'utf8' }))?.[1]);
    const answers = (address: string, size: number): boolean => {
      const ping = inNetns(lab.place('client-1'), 'ping', ['-c', '1', '-W', '1', '-s', `${size}`, address]);
      return spawnSync(ping.command, [...ping.args], { stdio: 'ignore' }).status === 0;
    };
    for (const address of lab.lab.pod('web-1').ips) {
      // A fragment carries a multiple of 8 bytes; IPv6 has a fragment header of 8 (RFC 8200 section 4.5), and the echo one of 8.
      const carried = Math.floor((mtu - (address.includes(':') ? 48 : 20)) / 8) * 8;
      await eventually(async () => expect([address, answers(address, 32 * carried - 8)]).toEqual([address, true]));
      expect([address, answers(address, 32 * carried)]).toEqual([address, false]);
    }
  },
);
