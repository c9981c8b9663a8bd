import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { silentLog } from '../../src/base/log/log.ts';
import { parseIp } from '../../src/base/net/ip.ts';
import { NetworkNamespace } from '../../src/netlink/namespace.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { OpenFlowConnection } from '../../src/openflow/connection/connection.ts';
import { ConnectionCleaner } from '../../src/services/controller/effects/connection-cleaner.ts';
import { HostConnections } from '../../src/services/controller/effects/host-connections.ts';
import { type Stale, wholeAddress } from '../../src/services/controller/effects/stale-connections.ts';
import { startSwitch, type TestSwitch } from '../support/open-vswitch.ts';

const UDP = 17;
const zone = 65_520;
const [first, second] = [
  { ip: parseIp('10.10.0.1'), port: 5353 },
  { ip: parseIp('10.10.0.2'), port: 5353 },
];
const cluster = { kind: 'cluster', ip: parseIp('10.96.0.10'), port: 53 } as const;

describe('connections of Services', () => {
  let ovs: TestSwitch;
  let bridge: OpenFlowConnection;
  const stop = new AbortController();
  let host: NetlinkSocket;

  beforeAll(async () => {
    ovs = startSwitch('--enable-dummy');
    const ports = ['p1', 'p2'].flatMap((name, at) => [
      '--',
      'add-port',
      'br-int',
      name,
      '--',
      'set',
      'Interface',
      name,
      'type=dummy',
      `ofport_request=${at + 1}`,
    ]);
    ovs.exec('ovs-vsctl', 'add-br', 'br-int', '--', 'set', 'bridge', 'br-int', 'datapath_type=dummy', 'fail_mode=secure', ...ports);
    for (const [port, endpoint] of [
      [40_001, first],
      [40_002, second],
    ] as const) {
      const nat = `ct(commit,zone=${zone},nat(dst=${endpoint.ip.text}:${endpoint.port}),table=1)`;
      ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'add-flow', 'br-int', `table=0,udp,nw_dst=10.96.0.10,tp_src=${port},actions=${nat}`);
      ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'add-flow', 'br-int', `table=0,udp,nw_dst=10.96.0.11,tp_src=${port},actions=${nat}`);
    }
    ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'add-flow', 'br-int', `table=0,priority=0,udp,actions=ct(commit,zone=${zone},table=1)`);
    ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'add-flow', 'br-int', 'table=1,actions=output:2');
    bridge = new OpenFlowConnection({ endpoint: `unix:${ovs.runDir}/br-int.mgmt` });
    void bridge.run(stop.signal);
    await bridge.untilUp(stop.signal);
    host = NetlinkSocket.open({ protocol: 'netfilter', namespace: NetworkNamespace.open(`/run/netns/${ovs.netns}`) });
  });
  afterAll(async () => {
    stop.abort();
    host.close();
    await ovs.stop();
  });

  function send(dst: string, srcPort: number, dstPort = 53): void {
    const packet = `in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(src=10.10.0.9,dst=${dst},proto=17,tos=0,ttl=64,frag=no),udp(src=${srcPort},dst=${dstPort})`;
    ovs.exec('ovs-appctl', 'netdev-dummy/receive', 'p1', packet);
  }

  /** `DESTINATION PORT-OF-CLIENT > RESPONDER`. */
  function tracked(): string[] {
    const lines = ovs
      .exec('ovs-appctl', 'dpctl/dump-conntrack', `zone=${zone}`)
      .split('\n')
      .filter((line) => line.startsWith('udp'));
    return lines
      .flatMap((line) => {
        const found = /orig=\(src=[^,]*,dst=([^,]*),sport=(\d+),.*reply=\(src=([^,]*),/.exec(line);
        return found ? [`${found[1]} ${found[2]} > ${found[3]}`] : [];
      })
      .toSorted();
  }

  const ofNode = () => new HostConnections(host, ({ text }) => text === '127.0.0.1');

  async function clean(stale: Stale): Promise<number> {
    const cleaner = new ConnectionCleaner({ bridge, host: ofNode(), log: silentLog, signal: stop.signal });
    const begin = performance.now();
    const size = tracked().length;
    cleaner.clean(stale, Promise.resolve());
    while (tracked().length === size && performance.now() - begin < 5_000) await sleep(1);
    const tookMs = performance.now() - begin;
    while (cleaner.counters.bridge < stale.bridge.reduce((sum, { endpoint }) => sum + (endpoint ? 3 : 2), 0)) await sleep(5);
    expect(cleaner.counters.failures).toBe(0);
    return tookMs;
  }

  function sendAll(): void {
    for (const dst of ['10.96.0.10', '10.96.0.11']) for (const port of [40_001, 40_002, 40_003]) send(dst, port);
  }

  it('to one endpoint are deleted, and no others', async () => {
    sendAll();
    expect(tracked()).toEqual([
      '10.96.0.10 40001 > 10.10.0.1',
      '10.96.0.10 40002 > 10.10.0.2',
      '10.96.0.10 40003 > 10.96.0.10',
      '10.96.0.11 40001 > 10.10.0.1',
      '10.96.0.11 40002 > 10.10.0.2',
      '10.96.0.11 40003 > 10.96.0.11',
    ]);
    const before = tracked();
    const tookMs = await clean({ bridge: [{ zone, ipProtocol: UDP, address: cluster, endpoint: first }], host: [] });
    expect(tracked()).toEqual(before.filter((line) => line !== '10.96.0.10 40001 > 10.10.0.1'));
    expect(tookMs).toBeLessThan(1_000);
  });

  it('to an address are deleted, translated or not', async () => {
    sendAll();
    await clean({ bridge: [{ zone, ipProtocol: UDP, address: cluster }], host: [] });
    expect(tracked().filter((line) => line.startsWith('10.96.0.10 '))).toEqual([]);
    expect(tracked()).toHaveLength(3);
  });

  it('to all ports of an address are deleted by one request', async () => {
    sendAll();
    send('10.96.0.10', 40_001, 54);
    await clean({ bridge: [wholeAddress({ zone, ipProtocol: UDP, address: cluster })], host: [] });
    expect(tracked().filter((line) => line.startsWith('10.96.0.10 '))).toEqual([]);
    expect(tracked()).toHaveLength(3);
  });

  it('of the node itself are deleted for the added or removed ports, and for no others', async () => {
    ovs.exec('nft', 'table inet t {\n chain o {\n type filter hook output priority 0;\n ct state new accept\n }\n}');
    ovs.exec('ip', 'addr', 'add', '127.0.0.2/32', 'dev', 'lo');
    const send = `const d = require('dgram'); for (const [ip, port] of [['127.0.0.1', 30053], ['127.0.0.2', 30053], ['127.0.0.1', 30054]]) { const s = d.createSocket('udp4'); s.on('error', () => {}); s.send('x', port, ip, () => s.close()); }`;
    ovs.exec(process.execPath, '-e', send);
    const list = () =>
      execFileSync('nsenter', [`--net=/run/netns/${ovs.netns}`, 'conntrack', '-L', '-p', 'udp'], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      });
    const ends = () =>
      list()
        .split('\n')
        .flatMap((line) => /dst=(\S+) sport=\d+ dport=(\d+)/.exec(line)?.slice(1).join(' ') ?? [])
        .toSorted();
    expect(ends()).toEqual(['127.0.0.1 30053', '127.0.0.1 30054', '127.0.0.2 30053']);
    const nodePort = { kind: 'nodePort', ip: parseIp('169.254.0.252'), port: 30_053 } as const;
    const cleaner = new ConnectionCleaner({ bridge, host: ofNode(), log: silentLog, signal: stop.signal });
    cleaner.clean({ bridge: [], host: [{ ipProtocol: UDP, address: nodePort }] }, Promise.resolve());
    await expect.poll(ends).toEqual(['127.0.0.1 30054', '127.0.0.2 30053']);
    expect(cleaner.counters.host).toBe(1);
  });
});
