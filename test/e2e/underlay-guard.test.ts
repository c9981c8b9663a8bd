import type { Socket } from 'node:dgram';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ipBatch } from '../../lab/machine/netns.ts';
import { transportInterface } from '../../lab/node/topology.ts';
import { addressing } from '../../lab/plan/plan.ts';
import { bindUdpIn } from '../../lab/probe/sockets.ts';
import { type Cidr, cidrAddress, cidrOf, type Family, parseIp } from '../../src/base/net/ip.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { networkPolicy } from '../support/guarded-lab.ts';
import { slowness } from '../support/test-datapath.ts';

const PORT = 7_000;
/** Datagrams of each kind: on the kernel's data path, the first packets of a flow may overtake each other. */
const ROUNDS = 3;
const signal = () => AbortSignal.timeout(60_000 * slowness);

/**
 * A host on the link between the nodes sends packets without a tunnel, with addresses of pods. Its own address is admitted by the policy of
 * the receiving pod, like all pods, so that only the guard distinguishes the two.
 */
describe('a host on the link between nodes', () => {
  let lab: ConvergeLab;
  const received = new Map<string, Set<string>>();
  const sockets: Socket[] = [];

  beforeAll(async () => {
    lab = await ConvergeLab.start(2);
    const link = lab.plan.external.ips.map((ip) => ({ ipBlock: { cidr: `${ip}/${parseIp(ip).family === 'ipv4' ? 32 : 128}` } }));
    const spec = {
      podSelector: { matchLabels: { app: 'web' } },
      policyTypes: ['Ingress'],
      ingress: [{ from: [{ podSelector: {} }, ...link] }],
    };
    await lab.startPods([networkPolicy('demo', 'pods-and-link', spec)]);
    await lab.exec(2, 'sysctl', '-qw', 'net.ipv4.conf.all.rp_filter=0', `net.ipv4.conf.${transportInterface(lab.plan)}.rp_filter=0`);
    await ipBatch(
      lab.plan.external.netns,
      [...routes(), ...forgedSources().map(({ source }) => `addr add ${source}${source.includes(':') ? '/128 nodad' : '/32'} dev lo`)],
      signal(),
    );
    for (const family of ['ipv4', 'ipv6'] as const) await receive('web-2', family);
  });
  afterAll(async () => {
    for (const socket of sockets) socket.close();
    await lab?.remove();
  });

  const ipOf = (pod: string, family: Family): string => lab.pod(pod).ips.find((ip) => parseIp(ip).family === family) ?? '';
  const linkOf = (family: Family): string => lab.plan.external.ips.find((ip) => parseIp(ip).family === family) ?? '';
  const transportOf = (family: Family): string => lab.node(2).ips.find((ip) => parseIp(ip).family === family) ?? '';

  function forgedSources(): readonly { readonly family: Family; readonly who: string; readonly source: string }[] {
    return (['ipv4', 'ipv6'] as const).flatMap((family) => [
      { family, who: 'a pod of another node', source: ipOf('client-1', family) },
      { family, who: 'a pod of the same node', source: ipOf('client-2', family) },
      { family, who: 'the gateway of another node', source: gatewayOf(1, family) },
      { family, who: 'the gateway of the same node', source: gatewayOf(2, family) },
    ]);
  }

  /** The gateway has the first address of its node's network. */
  function gatewayOf(node: 1 | 2, family: Family): string {
    return cidrAddress(networkOf(ipOf(`client-${node}`, family)), 1n).text;
  }

  /** Routes by which the host sends to the pods of node 2. */
  function routes(): readonly string[] {
    return (['ipv4', 'ipv6'] as const).map(
      (family) => `route replace ${networkOf(ipOf('web-2', family)).text} via ${transportOf(family)} dev ul0`,
    );
  }

  async function receive(pod: string, family: Family): Promise<void> {
    const socket = await bindUdpIn(lab.pod(pod).netns, ipOf(pod, family), PORT);
    const texts = new Set<string>();
    received.set(family, texts);
    socket.on('message', (message) => texts.add(message.toString()));
    sockets.push(socket);
  }

  async function sendFrom(source: string, target: string, text: string): Promise<void> {
    const socket = await bindUdpIn(lab.plan.external.netns, source, 0);
    try {
      await new Promise<void>((resolve, reject) => socket.send(text, PORT, target, (error) => (error ? reject(error) : resolve())));
    } finally {
      socket.close();
    }
  }

  /** Sends with a forged source and then with the host's own; returns which of the forged ones arrived before the last of its own. */
  async function arrivals(family: Family, forged: string): Promise<readonly string[]> {
    const texts = received.get(family) ?? new Set();
    texts.clear();
    for (let round = 0; round < ROUNDS; round++) {
      await sendFrom(forged, ipOf('web-2', family), `forged ${round}`);
      await sendFrom(linkOf(family), ipOf('web-2', family), `own ${round}`);
      await until(
        () => texts.has(`own ${round}`),
        10_000,
        () => `the pod does not hear ${linkOf(family)}`,
      );
    }
    return [...texts].filter((text) => text.startsWith('forged'));
  }

  /** Forged packets that arrived, by sender. */
  async function accepted(family: Family): Promise<readonly string[]> {
    const all: string[] = [];
    for (const { who, source } of forgedSources().filter((each) => each.family === family))
      all.push(...(await arrivals(family, source)).map((text) => `${text} of ${who}`));
    return all;
  }

  const drops = async (family: Family): Promise<number> => (await lab.metrics(2)).get(`plain_drops_total{family="${family}"}`) ?? 0;
  const protectedNetworks = async (): Promise<string> => await lab.exec(2, 'nft', 'list', 'set', 'inet', 'seine', 'pods4');

  describe.each(['ipv4', 'ipv6'] as const)('%s', (family) => {
    it('cannot send as any pod or gateway, and is counted', async () => {
      const before = await drops(family);
      expect(await accepted(family)).toEqual([]);
      expect((await drops(family)) - before).toBe(forgedSources().filter((each) => each.family === family).length * ROUNDS);
    });

    it('cannot while no agent runs, nor after its start', async () => {
      await lab.agent(2, 'stop');
      expect(await accepted(family)).toEqual([]);
      await lab.agent(2, 'start');
      await lab.untilReady(2);
      expect(await accepted(family)).toEqual([]);
    });
  });

  it('would reach the pod without the rules', async () => {
    await lab.agent(2, 'stop');
    await lab.exec(2, 'nft', 'flush', 'chain', 'inet', 'seine', 'prerouting-raw');
    for (const family of ['ipv4', 'ipv6'] as const) expect((await accepted(family)).length, family).toBeGreaterThanOrEqual(ROUNDS * 2); // at least as pods of both nodes
    await lab.agent(2, 'start');
    await lab.untilReady(2);
    await until(
      async () => (await lab.exec(2, 'nft', 'list', 'chain', 'inet', 'seine', 'prerouting-raw')).includes('pods-without-tunnel6'),
      20_000,
      () => 'the rules are not restored',
    );
    expect(await accepted('ipv6')).toEqual([]);
  });

  it('cannot after another program has emptied the set of networks', async () => {
    const before = await protectedNetworks();
    expect(before).toContain(networkOf(ipOf('client-1', 'ipv4')).text);
    await lab.exec(2, 'nft', 'flush', 'set', 'inet', 'seine', 'pods4');
    await until(
      async () => (await protectedNetworks()) === before,
      20_000,
      () => 'the networks are not restored',
    );
    expect(await accepted('ipv4')).toEqual([]);
  });
});

/** Pod network of a pod's node. */
function networkOf(address: string): Cidr {
  const ip = parseIp(address);
  return cidrOf(ip, addressing.nodeMask[ip.family]);
}
