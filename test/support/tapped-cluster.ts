import { randomBytes } from 'node:crypto';
import type { Family, Ip } from '../../src/base/net/ip.ts';
import { type Mac, parseMac } from '../../src/base/net/mac.ts';
import type { Packet } from '../../src/dataplane/switch-model/packet.ts';
import { addressOf, gatewayOf, macOf, nodes, port } from './cluster-plan.ts';
import { encodeFrame } from './frame.ts';
import { RawSocket } from './raw-socket.ts';
import { TestCluster } from './test-cluster.ts';

const interfaces = { a: 'eth0', b: 'eth0', c: 'eth0', n1: 'antrea-gw0', n2: 'antrea-gw0' } as const;
type Tapped = keyof typeof interfaces;

/** MAC of the gateway of pod `a`'s node. */
export const gatewayMac = nodes[0]?.environment.gateway.mac ?? parseMac('00:00:00:00:00:00');

/** A datagram that pod `a` may send, except for its content. */
export function honest(family: Family, to: { readonly ip: Ip; readonly mac: Mac; readonly port?: number }): Packet {
  const ports = { protocol: 'udp', portSrc: 4000, portDst: to.port ?? port.closed } as const;
  return { ethSrc: macOf('a'), ethDst: to.mac, payload: family, ipSrc: addressOf('a', family), ipDst: to.ip, ttl: 64, ...ports };
}

/**
 * A cluster in which pod `a` may send anything, and every frame is recorded that its neighbour `b`, pod `c` on the other node and the
 * gateways of both nodes receive.
 */
export class TappedCluster {
  readonly cluster: TestCluster;
  readonly wires: Readonly<Record<Tapped, RawSocket>>;

  private constructor(cluster: TestCluster) {
    this.cluster = cluster;
    const open = (who: Tapped) => RawSocket.open(cluster.place(who), interfaces[who]);
    this.wires = { a: open('a'), b: open('b'), c: open('c'), n1: open('n1'), n2: open('n2') };
  }

  static async start(): Promise<TappedCluster> {
    const cluster = await TestCluster.start();
    try {
      return new TappedCluster(cluster);
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    for (const wire of Object.values(this.wires)) wire.close();
    await this.cluster.stop();
  }

  /** All that received these bytes so far, except the sender. */
  receivedBy(bytes: Uint8Array): string[] {
    return (['b', 'c', 'n1', 'n2'] as const).filter((who) => this.wires[who].received(bytes));
  }

  /** Like `receivedBy`, after all frames of `a` have arrived or been dropped. */
  async hearers(bytes: Uint8Array): Promise<string[]> {
    await this.settled('ipv4');
    return this.receivedBy(bytes);
  }

  /** Sends a valid frame to each of the others, and waits for it: an earlier frame of `a` that is missing then never comes. */
  async settled(family: Family): Promise<void> {
    const marks = { b: randomBytes(12), c: randomBytes(12), n1: randomBytes(12) };
    const macs = { b: macOf('b'), c: gatewayMac, n1: gatewayMac };
    for (const who of ['b', 'c', 'n1'] as const) {
      const ip = who === 'n1' ? gatewayOf('n1', family) : addressOf(who, family);
      this.wires.a.send(encodeFrame(honest(family, { ip, mac: macs[who] }), marks[who]));
    }
    for (const who of ['b', 'c', 'n1'] as const) await this.wires[who].hears(marks[who]);
  }
}
