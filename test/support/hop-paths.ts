import { describe, expect, it } from 'vitest';
import { runIn } from '../../lab/machine/netns.ts';
import type { Family } from '../../src/base/net/ip.ts';
import { type Hop, timeExceeded, traceHops } from './hops.ts';
import { eventually, families, protocols, type ServiceLab } from './service-lab.ts';
import { slowness } from './test-datapath.ts';

const signal = AbortSignal.timeout(900_000 * slowness);
const unusedPort = 9;
const portUnreachable = { ipv4: { type: 3, code: 3 }, ipv6: { type: 1, code: 4 } } as const;

/** Declares tests of the hops that a path shows, in a lab of three nodes with agents. */
export function testHopPaths(labOf: () => ServiceLab): void {
  describe.each(families)('hops over %s', (family) => {
    it('of a path to a pod of another node are both nodes', async () => {
      const lab = labOf();
      const both = [await hopOf(lab, 'client-1', family), await hopOf(lab, 'web-2', family)];
      const address = lab.ip('web-2', family);
      const traced = await traceHops(lab.place('client-1'), { protocol: 'udp', address, port: unusedPort });
      expect(traced).toEqual([...both, { from: address, ...portUnreachable[family] }]);
    });

    it.each(protocols)('of a path through a Service are both nodes, over %s', async (protocol) => {
      const lab = labOf();
      const name = lab.name('hops');
      const service = await lab.service(name, {});
      await lab.endpoints(name, [{ pod: 'web-2' }]);
      const address = service.spec.clusterIPs?.find((ip) => ip.includes(':') === (family === 'ipv6')) ?? '';
      const both = [await hopOf(lab, 'client-1', family), await hopOf(lab, 'web-2', family)];
      await eventually(async () =>
        expect(await traceHops(lab.place('client-1'), { protocol, address, port: 80, last: 3, seconds: slowness })).toMatchObject([
          ...both,
          answer,
        ]),
      );
      await lab.delete('services', name);
    });

    it('of a path from outside to an endpoint on another node than the one that is asked are both nodes', async () => {
      const lab = labOf();
      const name = lab.name('hops');
      const service = await lab.service(name, { type: 'NodePort' });
      await lab.endpoints(name, [{ pod: 'web-2' }]);
      const at = { protocol: 'tcp', address: lab.ip('node-1', family), port: lab.nodePort(service, 'tcp') } as const;
      const hop = { from: expect.any(String), ...timeExceeded[family] };
      await eventually(async () =>
        expect(await traceHops(lab.place('external'), { ...at, last: 3, seconds: slowness })).toEqual([hop, hop, { reply: 'connected' }]),
      );
      await lab.delete('services', name);
    });
  });
}

/** Answer of an endpoint: a connection, or a datagram. */
const answer = { reply: expect.any(String) };

/** Returns the answer of the node of a pod: the address of its gateway. */
async function hopOf(lab: ServiceLab, pod: string, family: Family): Promise<Hop> {
  const version = family === 'ipv4' ? '-4' : '-6';
  const text = await runIn(lab.place(pod), 'ip', ['-j', version, 'route', 'show', 'default'], {}, signal);
  const [route]: readonly { readonly gateway?: string }[] = JSON.parse(text);
  return { from: route?.gateway ?? '', ...timeExceeded[family] };
}
