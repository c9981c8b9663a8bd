import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { inNetns } from '../../lab/machine/netns.ts';
import { addressNode, transportInterface } from '../../lab/node/topology.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { type Ip, parseIp } from '../../src/base/net/ip.ts';
import { type Mac, parseMac } from '../../src/base/net/mac.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { encodeFrame } from '../support/frame.ts';
import { RawSocket } from '../support/raw-socket.ts';
import { slowness, testDatapath } from '../support/test-datapath.ts';

const execute = promisify(execFile);
/** Within this time a node sends to a neighbour's new Ethernet address (ms). */
const NEIGHBOUR_LEARNED_MS = 15_000;

interface Tunnel {
  readonly type: 'geneve' | 'vxlan' | 'gre';
  /** UDP port; undefined: the protocol has none. */
  readonly port?: number;
  readonly config: Readonly<Record<string, unknown>>;
  /** Header between the outer header and the frame; GRE has its own. */
  readonly header: string;
}

const tunnels: readonly Tunnel[] = [
  { type: 'vxlan', port: 7471, config: { tunnelType: 'vxlan', tunnelPort: 7471, tunnelCsum: true }, header: '0800000000000000' },
  { type: 'gre', config: { tunnelType: 'gre', tunnelPort: 0, tunnelCsum: false }, header: '' },
  { type: 'geneve', port: 6081, config: { tunnelType: 'geneve', tunnelPort: 0, tunnelCsum: false }, header: '0000655800000000' },
];

/** The same pods, carried by one tunnel protocol after another: they are never recreated, and neither are their connections' addresses. */
describe.each(['ipv4', 'ipv6'] as const)('tunnels over %s', (family) => {
  let lab: ConvergeLab;
  const wires: RawSocket[] = [];

  beforeAll(async () => {
    lab = await ConvergeLab.start(2, undefined, { families: family === 'ipv4' ? ['ipv4', 'ipv6'] : ['ipv6'] });
    await lab.startPods();
    await addAddresses();
  });
  afterAll(async () => {
    for (const wire of wires) wire.close();
    await lab?.remove();
  });

  const furtherAddresses = family === 'ipv4' ? ['192.168.77.102', '192.168.77.103'] : ['fd00:77::102', 'fd00:77::103'];

  /** Node 2 receives tunnel packets at these as well. */
  async function addAddresses(): Promise<void> {
    const path = `/api/v1/nodes/${lab.node(2).name}`;
    const signal = AbortSignal.timeout(10_000 * slowness);
    const { status } = (await lab.api.send({ method: 'GET', path }, signal)) as { status: { addresses: readonly object[] } };
    const more = furtherAddresses.map((address, index) => ({ type: index === 0 ? 'InternalIP' : 'ExternalIP', address }));
    const body = { status: { addresses: [...status.addresses, ...more] } };
    await lab.api.send({ method: 'PATCH', path: `${path}/status`, body, contentType: 'application/merge-patch+json' }, signal);
    const length = family === 'ipv4' ? '32' : '128'; // of no network, so that the node does not send from them
    for (const address of furtherAddresses)
      await lab.exec(
        2,
        'ip',
        'address',
        'add',
        `${address}/${length}`,
        'dev',
        transportInterface(lab.plan),
        ...(family === 'ipv6' ? ['nodad'] : []),
      );
  }

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

  /** Content of a tunnel packet: a frame from one pod to another. */
  function carried({ header }: Tunnel, mark: Uint8Array, by = 'client-1', to = 'web-2'): Buffer {
    const link = { ethSrc: parseMac('0e:00:00:00:02:01'), ethDst: parseMac('aa:bb:cc:dd:ee:ff') };
    const ports = { protocol: 'udp', portSrc: 4000, portDst: 9 } as const;
    const inner = encodeFrame({ ...link, payload: family, ipSrc: ipOf(by), ipDst: ipOf(to), ttl: 64, ...ports }, mark);
    return Buffer.concat([Buffer.from(header, 'hex'), inner]);
  }

  /** A frame from `client-1` to `web-2`, or another pod, in a tunnel packet. */
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

  /** Sends one datagram as an ordinary user of node 1, from `source` if given. The error of a dropped packet is expected. */
  async function userSends(target: Ip, port: number, data: Uint8Array, source?: Ip): Promise<void> {
    const bound = source === undefined ? '' : `,freebind,bind=${socatAddress(source)}:0`;
    const protocol = family === 'ipv4' ? 'UDP4-SENDTO' : 'UDP6-SENDTO';
    await asUser(lab.node(1).netns, data, 'socat', '-u', '-', `${protocol}:${socatAddress(target)}:${port}${bound}`).catch(
      (thrown: unknown) => {
        if (!String(thrown).includes('Operation not permitted')) throw thrown;
      },
    );
  }

  /** Requests a pod's identity, as an ordinary user. */
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
      const [node1, pod, external] = [
        open(lab.node(1).netns, transportInterface(lab.plan)),
        open(lab.pod('client-1').netns, 'eth0'),
        open(lab.plan.external.netns, 'ul0'),
      ];
      const [nodeMac, otherMac, gatewayMac, podMac, outsideMac] = await Promise.all([
        macIn(1, 'link', 'show', transportInterface(lab.plan)),
        macIn(2, 'link', 'show', transportInterface(lab.plan)),
        macIn(1, 'link', 'show', 'antrea-gw0'),
        macIn(1, '-n', basename(lab.pod('client-1').netns), 'link', 'show', 'eth0'),
        macIn(1, '-n', lab.plan.external.netns, 'link', 'show', 'ul0'),
      ]);
      const outsideIp = parseIp(lab.plan.external.ips.find((ip) => parseIp(ip).family === family) ?? '');
      const marks = {
        node: randomBytes(12),
        pod: randomBytes(12),
        gateway: randomBytes(12),
        liar: randomBytes(12),
        outsider: randomBytes(12),
        anothersName: randomBytes(12),
      };
      const [here, there] = [transportOf(1), transportOf(2)];
      const byUser = { toPeer: randomBytes(12), toInternalIp: randomBytes(12), toExternalIp: randomBytes(12), asPeer: randomBytes(12) };
      const elsewhere = randomBytes(12);
      const neighbour = open(lab.pod('web-1').netns, 'eth0');

      // GRE has no port: only processes that may open raw sockets can send it.
      if (tunnel.port !== undefined) {
        const [internalIp = '', externalIp = ''] = furtherAddresses;
        await userSends(there, tunnel.port, carried(tunnel, byUser.toPeer));
        await userSends(parseIp(internalIp), tunnel.port, carried(tunnel, byUser.toInternalIp));
        await userSends(parseIp(externalIp), tunnel.port, carried(tunnel, byUser.toExternalIp));
        // IPv6 lets any user choose a source address that the node does not have.
        if (family === 'ipv6') await userSends(here, tunnel.port, carried(tunnel, byUser.asPeer, 'client-2', 'web-1'), there);
        await userSends(outsideIp, tunnel.port, elsewhere);
        await external.hears(elsewhere);
      }
      // Their packets, and those of an ordinary user in a pod, are carried: in the kernel with the sockets of their processes.
      for (const netns of [lab.node(1).netns, lab.pod('client-1').netns]) expect(await userAsks(netns, ipOf('web-2'))).toContain('web-2');

      pod.send(tunnelled(tunnel, { ethSrc: podMac, ethDst: gatewayMac, ipSrc: ipOf('client-1'), ipDst: there }, marks.pod));
      pod.send(tunnelled(tunnel, { ethSrc: podMac, ethDst: gatewayMac, ipSrc: ipOf('client-1'), ipDst: here }, marks.gateway));
      pod.send(tunnelled(tunnel, { ethSrc: podMac, ethDst: gatewayMac, ipSrc: here, ipDst: there }, marks.liar));
      external.send(tunnelled(tunnel, { ethSrc: outsideMac, ethDst: otherMac, ipSrc: outsideIp, ipDst: there }, marks.outsider));
      node1.send(tunnelled(tunnel, { ethSrc: nodeMac, ethDst: otherMac, ipSrc: here, ipDst: there }, marks.anothersName, 'client-2'));
      // The same packet of a node arrives: a packet that was sent before it and has not arrived never will.
      node1.send(tunnelled(tunnel, { ethSrc: nodeMac, ethDst: otherMac, ipSrc: here, ipDst: there }, marks.node));
      await victim.hears(marks.node);
      await lab.untilReached(lab.pod('client-1'), lab.pod('web-2'));
      for (const [who, mark] of Object.entries(marks)) expect([who, victim.received(mark)]).toEqual([who, who === 'node']);
      const received = Object.entries(byUser).flatMap(([to, mark]) => ((to === 'asPeer' ? neighbour : victim).received(mark) ? [to] : []));
      expect(received).toEqual([]);
    },
  );

  describe('while pods send', () => {
    const transport = transportInterface;
    let sending: ReturnType<typeof execute>;

    beforeAll(() => {
      const { netns } = lab.pod('client-1');
      const inside = inNetns(netns, 'ping', ['-n', '-q', '-i', '0.1', '-w', String(120 * slowness), ipOf('web-2').text]);
      sending = execute(inside.command, inside.args);
      sending.catch(() => undefined); // ended by the signal below
    });
    afterAll(() => {
      sending?.child.kill('SIGKILL');
    });

    /** Node 1 first: Open vSwitch also learns from tunnel packets that the other node sends by itself. @returns duration (ms) */
    async function resumed(): Promise<number> {
      const tookMs = await lab.untilReached(lab.pod('client-1'), lab.pod('web-2'), NEIGHBOUR_LEARNED_MS);
      await lab.untilReached(lab.pod('client-2'), lab.pod('web-1'), NEIGHBOUR_LEARNED_MS);
      return tookMs;
    }

    /** Replaces the Ethernet address like a new network card, without any announcement. */
    async function replaceMac(number: number, mac: string): Promise<void> {
      if (testDatapath === 'netdev') await lab.exec(number, 'ovs-vsctl', 'set', 'Bridge', 'br-phy', `other-config:hwaddr="${mac}"`);
      else await lab.exec(number, 'ip', 'link', 'set', transport(lab.plan), 'address', mac);
      await addressNode(lab.plan, lab.node(number), transport(lab.plan), AbortSignal.timeout(10_000 * slowness)); // the kernel has removed IPv6 addresses
    }

    it('learns the new MAC of another node, and the old one when that returns', { timeout: 60_000 * slowness }, async () => {
      await resumed();
      const before = await macIn(2, 'link', 'show', transport(lab.plan));
      await replaceMac(2, '0e:5e:00:00:00:02');
      console.log(`${family}: a new MAC is learned after ${await resumed()} ms`);
      if (family === 'ipv6') return; // the rest is the same in IPv6, and takes ten seconds
      await replaceMac(2, before);
      console.log(`${family}: the former MAC is learned after ${await resumed()} ms`);
    });

    it('learns the new MAC of the router to another node', { timeout: 60_000 * slowness }, async () => {
      const router = lab.plan.external.ips.find((ip) => parseIp(ip).family === family) ?? '';
      const [hostBits, length, ...more] = family === 'ipv4' ? [32, 24] : [128, 64, 'nodad'];
      const inExternal = (command: string, ...args: readonly string[]) =>
        lab.exec(1, 'nsenter', `--net=/run/netns/${lab.plan.external.netns}`, command, ...args);
      // Not the MAC of one of its ports, at which the bridge would still receive.
      const routerBecomes = async (mac: string): Promise<void> => {
        await inExternal('ip', 'link', 'set', 'ul0', 'address', mac);
        await inExternal('ip', 'address', 'replace', `${router}/${length}`, 'dev', 'ul0', ...more.map(String));
      };
      const forwarding = [
        'net.ipv4.ip_forward=1',
        'net.ipv4.conf.all.send_redirects=0',
        'net.ipv4.conf.ul0.send_redirects=0',
        'net.ipv6.conf.all.forwarding=1',
      ];
      await inExternal('sysctl', '-qw', ...forwarding);
      await routerBecomes('0e:5e:00:00:00:fd');
      await lab.exec(1, 'ip', 'neighbour', 'flush', 'to', router, 'dev', transport(lab.plan)); // it still answers at the MAC of its port
      await lab.exec(1, 'ip', 'route', 'replace', `${transportOf(2).text}/${hostBits}`, 'via', router, 'dev', transport(lab.plan));
      if (testDatapath === 'netdev')
        await until(
          async () => new RegExp(`^${router} .*:fd`, 'm').test(await lab.exec(1, 'ovs-appctl', 'tnl/neigh/show')),
          NEIGHBOUR_LEARNED_MS,
          () => 'tunnel packets do not go through the router',
        );
      await resumed();
      await routerBecomes('0e:5e:00:00:00:fe');
      console.log(`${family}: a new MAC of the router is learned after ${await resumed()} ms`);
    });
  });
});
