import { randomBytes } from 'node:crypto';
import { createNetns, deleteNetns, ipBatch, runIn } from '../../lab/machine/netns.ts';
import { Responder } from '../../lab/probe/responder.ts';
import type { Family } from '../../src/base/net/ip.ts';

/** The MTU of the link towards the host: more than IPv6 requires of every link (RFC 8200 section 5), and less than any pod's. */
export const NARROW_MTU = 1300;
/** Two networks, because the same addresses must not be at both ends of a path. */
const ends = {
  outside: { ipv4: ['192.0.2.1', '192.0.2.2'], ipv6: ['2001:db8:1300::1', '2001:db8:1300::2'] },
  behindPod: { ipv4: ['192.0.2.5', '192.0.2.6'], ipv6: ['2001:db8:1301::1', '2001:db8:1301::2'] },
} as const;
const families = ['ipv4', 'ipv6'] as const;
const lengths = { ipv4: 30, ipv6: 64 } as const;
type Where = keyof typeof ends;

/**
 * A host behind a router whose link to it has the smallest MTU of the path. The host itself announces a maximum TCP segment of 1,460 bytes,
 * so only an ICMP error of the router informs a sender of the MTU.
 *
 * The router is an existing namespace: the outside of a cluster, or a pod.
 */
export class NarrowLink {
  /** The namespace of the host. */
  readonly netns: string;
  readonly #router: string;
  readonly #where: Where;
  readonly #signal: AbortSignal;

  private constructor(router: string, where: Where, netns: string, signal: AbortSignal) {
    this.#router = router;
    this.#where = where;
    this.netns = netns;
    this.#signal = signal;
  }

  static async add(router: string, where: Where, signal: AbortSignal): Promise<NarrowLink> {
    const link = new NarrowLink(router, where, `seine-narrow-${randomBytes(3).toString('hex')}`, signal);
    await createNetns(link.netns, signal);
    await link.#wire();
    return link;
  }

  address(family: Family): string {
    return ends[this.#where][family][1];
  }

  /** Starts a server on the host. */
  async serve(name: string, port: number): Promise<Responder> {
    const wildcards = ['0.0.0.0', '::'];
    return await Responder.start(
      { pod: name, node: 'none' },
      this.netns,
      { tcp: wildcards, udp: families.map((family) => this.address(family)) },
      [
        { protocol: 'tcp', port },
        { protocol: 'udp', port },
      ],
      this.#signal,
    );
  }

  /** Makes the router forward a port of its own to the host, like a pod that runs containers of its own. */
  async forward(port: number, to: number): Promise<void> {
    const chain = '{ type nat hook prerouting priority -100; }';
    const rules = (
      [
        ['ip', this.address('ipv4')],
        ['ip6', this.address('ipv6')],
      ] as const
    ).flatMap(([table, far]) => [
      `add table ${table} narrow`,
      `add chain ${table} narrow in ${chain}`,
      `add rule ${table} narrow in tcp dport ${port} dnat to ${withPort(far, to)}`,
    ]);
    await runIn(this.#router, 'nft', [rules.join('; ')], {}, this.#signal);
  }

  async remove(): Promise<void> {
    await deleteNetns(this.netns, this.#signal);
  }

  #near(family: Family): string {
    return ends[this.#where][family][0];
  }

  async #wire(): Promise<void> {
    await runIn(this.#router, 'sysctl', ['-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1'], {}, this.#signal);
    const addresses = families.map((family) => `addr add ${this.#near(family)}/${lengths[family]} dev narrow${nodad(family)}`);
    await ipBatch(
      this.#router,
      [
        `link add narrow type veth peer name eth0 netns ${this.netns}`,
        ...addresses,
        'link set narrow up',
        // A router applies the MTU of a route if it is locked. Towards the router the link takes any packet.
        ...families.map((family) => `route add ${this.address(family)} dev narrow mtu lock ${NARROW_MTU}`),
      ],
      this.#signal,
    );
    await ipBatch(
      this.netns,
      [
        ...families.map((family) => `addr add ${this.address(family)}/${lengths[family]} dev eth0${nodad(family)}`),
        'link set eth0 up',
        ...families.map((family) => `route add default via ${this.#near(family)} dev eth0`),
      ],
      this.#signal,
    );
  }
}

function nodad(family: Family): string {
  return family === 'ipv6' ? ' nodad' : '';
}

/** Makes a namespace forget path MTUs from ICMP errors. */
export async function forgetPaths(netns: string, signal: AbortSignal): Promise<void> {
  await runIn(netns, 'ip', ['route', 'flush', 'cache'], {}, signal);
  await runIn(netns, 'ip', ['-6', 'route', 'flush', 'cache'], {}, signal);
}

/** The MTU of the path to an address, learned from ICMP errors. Undefined without any. */
export async function pathMtu(netns: string, address: string, signal: AbortSignal): Promise<number | undefined> {
  const [, mtu] = /\bmtu (\d+)/.exec(await runIn(netns, 'ip', ['route', 'get', address], {}, signal)) ?? [];
  return mtu === undefined ? undefined : Number(mtu);
}

function withPort(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
