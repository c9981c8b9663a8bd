import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { transportInterface } from '../../src/lab/node/topology.ts';
import { nodePaths } from '../../src/lab/plan/names.ts';
import { type Ip, parseIp } from '../../src/net/ip.ts';
import { type Mac, parseMac } from '../../src/net/mac.ts';
import type { Packet } from '../model/packet.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { encodeFrame } from '../support/frame.ts';
import { RawSocket } from '../support/raw-socket.ts';
import { slowness, testDatapath } from '../support/test-datapath.ts';

interface Tunnel {
  readonly type: 'geneve' | 'vxlan' | 'gre';
  /** UDP port; undefined: the protocol has none. */
  readonly port?: number;
  readonly config: Readonly<Record<string, unknown>>;
  /** What stands between the outer header and the frame; GRE has its own. */
  readonly header: string;
}

const tunnels: readonly Tunnel[] = [
  { type: 'vxlan', port: 7471, config: { tunnelType: 'vxlan', tunnelPort: 7471, tunnelCsum: true }, header: '0800000000000000' },
  { type: 'gre', config: { tunnelType: 'gre', tunnelPort: 0, tunnelCsum: false }, header: '' },
  { type: 'geneve', port: 6081, config: { tunnelType: 'geneve', tunnelPort: 0, tunnelCsum: false }, header: '0000655800000000' },
];

/** The same pods, carried in one way after another: they are never made anew, and neither are their connections' addresses. */
describe.each(['ipv4', 'ipv6'] as const)('tunnels over %s', (family) => {
  let lab: ConvergeLab;
  const wires: RawSocket[] = [];

  beforeAll(async () => {
    lab = await ConvergeLab.start(2, undefined, { families: family === 'ipv4' ? ['ipv4', 'ipv6'] : ['ipv6'] });
    await lab.startPods();
  });
  afterAll(async () => {
    for (const wire of wires) wire.close();
    await lab?.remove();
  });

  async function become({ type, config }: Tunnel): Promise<void> {
    const ofKernel = type === 'gre' && family === 'ipv6' && testDatapath === 'system';
    const portType = ofKernel ? 'ip6gre' : type;
    const restart = async (number: number): Promise<void> => {
      const { agentConfig } = nodePaths(lab.plan.dir, lab.node(number).name);
      writeFileSync(agentConfig, stringify({ ...parse(readFileSync(agentConfig, 'utf8')), ...config }));
      await lab.agent(number, 'stop');
      await lab.agent(number, 'start');
    };
    await Promise.all([restart(1), restart(2)]);
    for (const number of [1, 2]) {
      await lab.untilReady(number);
      await until(
        async () => (await lab.exec(number, 'ovs-vsctl', 'get', 'Interface', 'antrea-tun0', 'type')).trim() === portType,
        10_000,
        () => `the tunnel is not ${portType}`,
      );
    }
  }

  const open = (netns: string, name: string): RawSocket => {
    const wire = RawSocket.open(basename(netns), name);
    wires.push(wire);
    return wire;
  };
  const ipOf = (pod: string): Ip => parseIp(lab.pod(pod).ips.find((ip) => parseIp(ip).family === family) ?? '');
  const transportOf = (number: number): Ip => parseIp(lab.node(number).ips.find((ip) => parseIp(ip).family === family) ?? '');
  const macIn = async (number: number, ...where: readonly string[]): Promise<Mac> =>
    parseMac(/ether (\S+)/.exec(await lab.exec(number, 'ip', ...where))?.[1] ?? '');

  /** A frame as if `client-1` wrote to `web-2`, or another pod, in a tunnel packet. */
  function tunnelled(
    { port, header }: Tunnel,
    outer: Pick<Packet, 'ethSrc' | 'ethDst' | 'ipSrc' | 'ipDst'>,
    mark: Uint8Array,
    by = 'client-1',
  ): Uint8Array {
    const link = { ethSrc: parseMac('0e:00:00:00:02:01'), ethDst: parseMac('aa:bb:cc:dd:ee:ff') };
    const ports = { protocol: 'udp', portSrc: 4000, portDst: 9 } as const;
    const inner = encodeFrame({ ...link, payload: family, ipSrc: ipOf(by), ipDst: ipOf('web-2'), ttl: 64, ...ports }, mark);
    const data = Buffer.concat([Buffer.from(header, 'hex'), inner]);
    const carrier = port === undefined ? ({ protocol: 'gre' } as const) : ({ protocol: 'udp', portSrc: 50_000, portDst: port } as const);
    return encodeFrame({ ...outer, payload: family, ttl: 64, ...carrier }, data);
  }

  it.each(tunnels)('$type carries pods, and only nodes can use it', { timeout: 90_000 * slowness }, async (tunnel) => {
    await become(tunnel);
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-2'));
    await lab.untilReached(lab.pod('client-2'), lab.pod('web-1'));

    const victim = open(lab.pod('web-2').netns, 'eth0');
    const [node1, pod, world] = [
      open(lab.node(1).netns, transportInterface(lab.plan)),
      open(lab.pod('client-1').netns, 'eth0'),
      open(lab.plan.world.netns, 'ul0'),
    ];
    const [nodeMac, otherMac, gatewayMac, podMac, worldMac] = await Promise.all([
      macIn(1, 'link', 'show', transportInterface(lab.plan)),
      macIn(2, 'link', 'show', transportInterface(lab.plan)),
      macIn(1, 'link', 'show', 'antrea-gw0'),
      macIn(1, '-n', basename(lab.pod('client-1').netns), 'link', 'show', 'eth0'),
      macIn(1, '-n', lab.plan.world.netns, 'link', 'show', 'ul0'),
    ]);
    const worldIp = parseIp(lab.plan.world.ips.find((ip) => parseIp(ip).family === family) ?? '');
    const marks = {
      node: randomBytes(12),
      pod: randomBytes(12),
      gateway: randomBytes(12),
      liar: randomBytes(12),
      stranger: randomBytes(12),
      anothersName: randomBytes(12),
    };
    const [here, there] = [transportOf(1), transportOf(2)];

    pod.send(tunnelled(tunnel, { ethSrc: podMac, ethDst: gatewayMac, ipSrc: ipOf('client-1'), ipDst: there }, marks.pod));
    pod.send(tunnelled(tunnel, { ethSrc: podMac, ethDst: gatewayMac, ipSrc: ipOf('client-1'), ipDst: here }, marks.gateway));
    pod.send(tunnelled(tunnel, { ethSrc: podMac, ethDst: gatewayMac, ipSrc: here, ipDst: there }, marks.liar));
    world.send(tunnelled(tunnel, { ethSrc: worldMac, ethDst: otherMac, ipSrc: worldIp, ipDst: there }, marks.stranger));
    node1.send(tunnelled(tunnel, { ethSrc: nodeMac, ethDst: otherMac, ipSrc: here, ipDst: there }, marks.anothersName, 'client-2'));
    // The same packet of a node arrives: what was sent before it and has not, never will.
    node1.send(tunnelled(tunnel, { ethSrc: nodeMac, ethDst: otherMac, ipSrc: here, ipDst: there }, marks.node));
    await victim.hears(marks.node);
    await lab.untilReached(lab.pod('client-1'), lab.pod('web-2'));
    for (const [who, mark] of Object.entries(marks)) expect([who, victim.heard(mark)]).toEqual([who, who === 'node']);
  });
});
