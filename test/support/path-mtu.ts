import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { download, upload } from '../../lab/probe/probe.ts';
import type { Responder } from '../../lab/probe/responder.ts';
import { forgetPaths, NARROW_MTU, NarrowLink, pathMtu } from './narrow-link.ts';
import { eventually, families, protocols, type ServiceLab } from './service-lab.ts';
import { slowness, testDatapath } from './test-datapath.ts';

const size = 250_000;
/** Longer than the path's MTU, and shorter than that of pods and nodes. */
const longDatagram = 1_350;
const timeoutMs = 8_000 * slowness;
const signal = AbortSignal.timeout(900_000 * slowness);
/** The port of a pod that forwards to its own host. */
const nestedPort = 8_088;
const balancerAddress = { ipv4: '198.51.100.77', ipv6: '2001:db8:51::77' } as const;
const endpoints = [
  ['on the node that is asked', 'web-1'],
  ['on another node', 'web-2'],
] as const;

/**
 * Declares tests of transfers over paths with a link of smaller MTU, of which only an ICMP error informs the sender, in a lab of three
 * nodes.
 */
export function testPathMtu(labOf: () => ServiceLab): void {
  let outside: NarrowLink;
  const links: NarrowLink[] = [];
  const servers: Responder[] = [];

  beforeAll(async () => {
    const lab = labOf();
    const [external, ...nested] = await Promise.all([
      NarrowLink.add(lab.place('external'), 'outside', signal),
      ...['web-1', 'web-2'].map((pod) => NarrowLink.add(lab.place(pod), 'behindPod', signal)),
    ]);
    if (external === undefined) throw new Error('there is no link to the outside');
    outside = external;
    links.push(external, ...nested);
    servers.push(...(await Promise.all(links.map((link) => link.serve('behind', 80)))));
    await Promise.all(nested.map((link) => link.forward(nestedPort, 80)));
  }, 60_000 * slowness);
  afterAll(async () => {
    for (const server of servers) server.close();
    for (const link of links) await link.remove();
  });

  describe.each(families)('over %s', (family) => {
    it('a pod uploads to a host outside', async () => {
      await arrives({ from: labOf().place('client-1'), address: outside.address(family), port: 80 });
    });

    it.each(endpoints.toReversed())('a pod uploads to a host behind a pod %s', async (_, pod) => {
      await arrives({ from: labOf().place('client-1'), address: labOf().ip(pod, family), port: nestedPort });
    });

    it.each(endpoints)('a host outside downloads by a node port from an endpoint %s', async (_, pod) => {
      const { name, port } = await nodePort(labOf(), pod, 'tcp');
      await downloads(labOf(), outside, pod, { address: labOf().ip('node-1', family), port });
      await labOf().delete('services', name);
    });

    it.each(endpoints)('a host outside downloads by a load balancer’s address from an endpoint %s', async (_, pod) => {
      const lab = labOf();
      const name = lab.name('narrow');
      await lab.service(name, { type: 'LoadBalancer' });
      await lab.endpoints(name, [{ pod }]);
      const address = balancerAddress[family];
      await lab.route(address, 'node-1');
      await lab.change(name, { status: { loadBalancer: { ingress: [{ ip: address }] } } }, '/status');
      await downloads(lab, outside, pod, { address, port: 80 });
      await lab.delete('services', name);
    });

    // The rest is a limit of Open vSwitch's userspace tracker (`docs/limits.md`).
    it.each(family === 'ipv6' && testDatapath === 'netdev' ? [] : endpoints)(
      'a host outside gets a long datagram by a node port from an endpoint %s',
      async (_, pod) => {
        const lab = labOf();
        const { name, port } = await nodePort(lab, pod, 'udp');
        const aim = { from: outside.netns, protocol: 'udp', address: lab.ip('node-1', family), port } as const;
        await eventually(async () => expect(await upload({ ...aim, timeoutMs: 1_000 * slowness }, 10)).toMatchObject({ is: 'OK' }));
        await forgetPaths(lab.place(pod), signal);
        expect(await upload({ ...aim, timeoutMs }, longDatagram)).toMatchObject({ is: 'OK' });
        await lab.delete('services', name);
      },
    );

    it.each(protocols)('a pod sends to a Service with an endpoint outside, over %s', async (protocol) => {
      const lab = labOf();
      const name = lab.name('narrow');
      const service = await lab.service(name, {});
      await lab.endpoints(name, [{ address: { [family]: outside.address(family) } }]);
      const address = service.spec.clusterIPs?.find((ip) => ip.includes(':') === (family === 'ipv6')) ?? '';
      const probe = { from: lab.place('client-1'), protocol, address, port: 80 };
      await eventually(async () => expect(await upload({ ...probe, timeoutMs: 1_000 * slowness }, 10)).toMatchObject({ is: 'OK' }));
      if (protocol === 'tcp') await arrives(probe);
      // The kernel rejects a datagram that is too long for its path once the error has arrived.
      else expect(await upload({ ...probe, timeoutMs }, longDatagram)).toMatchObject({ is: 'UNREACHABLE', errno: 'EMSGSIZE' });
      expect(await pathMtu(probe.from, address, signal)).toBe(NARROW_MTU);
      await lab.delete('services', name);
    });
  });
}

/** Uploads, completely, and with the path's MTU. */
async function arrives(probe: { readonly from: string; readonly address: string; readonly port: number }): Promise<void> {
  await forgetPaths(probe.from, signal);
  expect(await upload({ ...probe, protocol: 'tcp', timeoutMs }, size)).toMatchObject({ is: 'OK' });
  expect(await pathMtu(probe.from, probe.address, signal)).toBe(NARROW_MTU);
}

async function nodePort(lab: ServiceLab, pod: string, protocol: 'tcp' | 'udp'): Promise<{ readonly name: string; readonly port: number }> {
  const name = lab.name('narrow');
  const service = await lab.service(name, { type: 'NodePort' });
  await lab.endpoints(name, [{ pod }]);
  return { name, port: lab.nodePort(service, protocol) };
}

/** The endpoint learns the MTU of the path to the host outside from the first long segments that it sends. */
async function downloads(
  lab: ServiceLab,
  host: NarrowLink,
  pod: string,
  at: { readonly address: string; readonly port: number },
): Promise<void> {
  const aim = { ...at, from: host.netns, protocol: 'tcp' } as const;
  // A Service that is deleted, and had the same address, may answer until the agent has followed.
  const answered = { is: 'OK', answer: { pod: `demo/${pod}` } };
  await eventually(async () => expect(await upload({ ...aim, timeoutMs: 1_000 * slowness }, 10)).toMatchObject(answered));
  await forgetPaths(lab.place(pod), signal);
  expect(await download({ ...aim, timeoutMs }, size)).toBe(size);
}
