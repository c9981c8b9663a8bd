import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { inNetns } from '../../src/lab/machine/netns.ts';
import { transportInterface } from '../../src/lab/node/topology.ts';
import { nodePaths } from '../../src/lab/plan/names.ts';
import { type Ip, parseIp } from '../../src/net/ip.ts';
import { type Mac, parseMac } from '../../src/net/mac.ts';
import type { Packet } from '../model/packet.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { encodeFrame } from '../support/frame.ts';
import { RawSocket } from '../support/raw-socket.ts';
import { slowness, testDatapath } from '../support/test-datapath.ts';

const execute = promisify(execFile);

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

  /** What a tunnel packet carries: a frame as if one pod wrote to another. */
  function carried({ header }: Tunnel, mark: Uint8Array, by = 'client-1', to = 'web-2'): Buffer {
    const link = { ethSrc: parseMac('0e:00:00:00:02:01'), ethDst: parseMac('aa:bb:cc:dd:ee:ff') };
    const ports = { protocol: 'udp', portSrc: 4000, portDst: 9 } as const;
    const inner = encodeFrame({ ...link, payload: family, ipSrc: ipOf(by), ipDst: ipOf(to), ttl: 64, ...ports }, mark);
    return Buffer.concat([Buffer.from(header, 'hex'), inner]);
  }

  /** A frame as if `client-1` wrote to `web-2`, or another pod, in a tunnel packet. */
  function tunnelled(
    tunnel: Tunnel,
    outer: Pick<Packet, 'ethSrc' | 'ethDst' | 'ipSrc' | 'ipDst'>,
    mark: Uint8Array,
    by = 'client-1',
  ): Uint8Array {
    const { port } = tunnel;
    const data = carried(tunnel, mark, by);
    const carrier = port === undefined ? ({ protocol: 'gre' } as const) : ({ protocol: 'udp', portSrc: 50_000, portDst: port } as const);
    return encodeFrame({ ...outer, payload: family, ttl: 64, ...carrier }, data);
  }

  /** Runs a command as an ordinary user without capabilities, and returns its output. */
  async function asUser(netns: string, input: Uint8Array | string, command: string, ...args: readonly string[]): Promise<string> {
    const words = ['--reuid=65534', '--regid=65534', '--clear-groups', '--no-new-privs', command, ...args];
    const inside = inNetns(netns, 'setpriv', words);
    const running = execute(inside.command, inside.args, { timeout: 30_000 * slowness });
    running.child.stdin?.end(input);
    return (await running).stdout;
  }

  const socatAddress = ({ text }: Ip): string => (family === 'ipv4' ? text : `[${text}]`);

  /** Sends one datagram as an ordinary user of node 1, from `source` if it is given. The error of a dropped packet is expected. */
  async function userSends(target: Ip, port: number, data: Uint8Array, source?: Ip): Promise<void> {
    const bound = source === undefined ? '' : `,freebind,bind=${socatAddress(source)}:0`;
    const protocol = family === 'ipv4' ? 'UDP4-SENDTO' : 'UDP6-SENDTO';
    await asUser(lab.node(1).netns, data, 'socat', '-u', '-', `${protocol}:${socatAddress(target)}:${port}${bound}`).catch(
      (thrown: unknown) => {
        if (!String(thrown).includes('Operation not permitted')) throw thrown;
      },
    );
  }

  /** Asks a pod who it is, as an ordinary user. */
  async function userAsks(netns: string, target: Ip): Promise<string> {
    const place = `${family === 'ipv4' ? 'TCP4' : 'TCP6'}:${socatAddress(target)}:80,connect-timeout=10`;
    return await asUser(netns, 'who\n', 'socat', '-t', '10', '-', place);
  }

  it.each(tunnels)(
    '$type carries pods, and only the kernel and Open vSwitch of nodes can use it',
    { timeout: 90_000 * slowness },
    async (tunnel) => {
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
      const byUser = { toPeer: randomBytes(12), asPeer: randomBytes(12), elsewhere: randomBytes(12) };
      const neighbour = open(lab.pod('web-1').netns, 'eth0');

      // GRE has no port: only processes that may open raw sockets can send it.
      if (tunnel.port !== undefined) {
        await userSends(there, tunnel.port, carried(tunnel, byUser.toPeer));
        // IPv6 lets any user choose a source address that the node does not have.
        if (family === 'ipv6') await userSends(here, tunnel.port, carried(tunnel, byUser.asPeer, 'client-2', 'web-1'), there);
        await userSends(worldIp, tunnel.port, byUser.elsewhere);
        await world.hears(byUser.elsewhere);
      }
      // Their packets, and those of an ordinary user in a pod, are carried: in the kernel with the sockets of their processes.
      for (const netns of [lab.node(1).netns, lab.pod('client-1').netns]) expect(await userAsks(netns, ipOf('web-2'))).toContain('web-2');

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
      expect({ toPeer: victim.heard(byUser.toPeer), asPeer: neighbour.heard(byUser.asPeer) }).toEqual({ toPeer: false, asPeer: false });
    },
  );
});
