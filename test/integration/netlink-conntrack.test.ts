import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { parseIp } from '../../src/base/net/ip.ts';
import { deleteConnection, listConnections } from '../../src/netlink/conntrack.ts';
import { errnoOf } from '../../src/netlink/errno.ts';
import { Batch } from '../../src/netlink/message.ts';
import { Nftables } from '../../src/netlink/nftables/nftables.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { type Lab, withNamespaces } from './netlink-fixture.ts';

const TCP = 6;
const UDP = 17;

/** Sends one datagram to a port of the namespace itself, which conntrack tracks. */
function send(lab: Lab, to: string, srcPort: number, dstPort: number): void {
  const code = `const s = require('dgram').createSocket(${JSON.stringify(to.includes(':') ? 'udp6' : 'udp4')});
    s.on('error', () => {}); s.bind(${srcPort}, ${JSON.stringify(to.includes(':') ? '::1' : '127.0.0.1')}, () => s.send('x', ${dstPort}, ${JSON.stringify(to)}, () => s.close()));`;
  execFileSync('nsenter', [`--net=${lab.path}`, process.execPath, '-e', code]);
}

interface TrackerScene {
  readonly lab: Lab;
  readonly nftables: Nftables;
  readonly socket: NetlinkSocket;
}

/** A namespace whose packets are tracked once a table matches connections. */
function withTracker(use: (scene: TrackerScene) => void): ReturnType<typeof withNamespaces> {
  return withNamespaces(1, (lab) => {
    const nftables = Nftables.open(lab.namespace);
    const socket = NetlinkSocket.open({ protocol: 'netfilter', namespace: lab.namespace });
    try {
      execFileSync('ip', ['-n', lab.name, 'link', 'set', 'lo', 'up']);
      use({ lab, nftables, socket });
    } finally {
      socket.close();
      nftables.close();
    }
  });
}

it('lists connections of one protocol and port, translated ones with both ends, and deletes one of them', () =>
  withTracker(({ lab, nftables, socket }) => {
    nftables.run(`table inet t {
      chain o { type nat hook output priority -100;
        ip daddr 127.0.0.9 udp dport 53 dnat ip to 127.0.0.1:5353
      }
      chain f { type filter hook output priority 0;
        ct state new accept
      }
    }`);
    send(lab, '127.0.0.9', 4000, 53);
    send(lab, '127.0.0.9', 4001, 53);
    send(lab, '127.0.0.8', 4001, 54);
    send(lab, '::1', 4002, 53);
    const found = listConnections(socket, { family: 'ipv4', ipProtocol: UDP, dstPort: 53 });
    expect(found.map(({ original, reply }) => [original.srcPort, original.dst.text, reply.src.text, reply.srcPort]).toSorted()).toEqual([
      [4000, '127.0.0.9', '127.0.0.1', 5353],
      [4001, '127.0.0.9', '127.0.0.1', 5353],
    ]);
    const all = listConnections(socket, { family: 'ipv4', ipProtocol: UDP }).map(({ original }) => original.dstPort);
    // The kernel's own "port unreachable" answers belong to the same connections.
    expect(all.toSorted()).toEqual([53, 53, 54]);
    expect(listConnections(socket, { family: 'ipv6', ipProtocol: UDP, dstPort: 53 })[0]?.original.dst).toEqual(parseIp('::1'));
    const [first] = found;
    if (!first) throw new Error('nothing found');
    const batch = new Batch();
    deleteConnection(batch, first);
    deleteConnection(batch, first);
    const [done, again] = socket.attempt(batch);
    expect([done, errnoOf(again)]).toEqual([undefined, 'ENOENT']);
    expect(listConnections(socket, { family: 'ipv4', ipProtocol: UDP, dstPort: 53 })).toHaveLength(1);
  }));

it('reads the mark of a connection, and the state of TCP', () =>
  withTracker(({ lab, nftables, socket }) => {
    nftables.run(`table inet t {
      chain o { type filter hook output priority 0;
        tcp dport 4003 ct mark set 0x84
      }
    }`);
    const code = `const net = require('net');
      const server = net.createServer({ allowHalfOpen: true }).listen(4003, '127.0.0.1', () => net.connect(4003, '127.0.0.1', () => process.exit()));`;
    execFileSync('nsenter', [`--net=${lab.path}`, process.execPath, '-e', code]);
    const [found] = listConnections(socket, { family: 'ipv4', ipProtocol: TCP, dstPort: 4003 });
    expect(found).toMatchObject({ mark: 0x84, tcpState: expect.any(Number) });
    send(lab, '::1', 4002, 53);
    expect(listConnections(socket, { family: 'ipv6', ipProtocol: UDP })[0]).not.toHaveProperty('tcpState');
  }));
