import { Debouncer } from '../../base/async/debouncer.ts';
import { type Cidr, cidrContains, type Ip } from '../../base/net/ip.ts';
import { KernelEvents } from '../../netlink/events.ts';
import type { IfIndex } from '../../netlink/interface-name.ts';
import { getLink } from '../../netlink/links.ts';
import { type Address, listAddresses } from '../../netlink/routing/addresses.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';

/** Which of the node's addresses node ports are opened on. */
interface NodePortChoice {
  /** `proxy.nodePortAddresses`: networks, or `primary` for those that the Node object has. Empty means all. */
  readonly among: readonly (Cidr | 'primary')[];
  /** Addresses of the Node object, in canonical text. */
  readonly primary: readonly string[];
}

/** Addresses that are the node's own for the world; not those of the bridge's gateway, nor loopback and link-local ones. */
export function ownAddresses(addresses: readonly Address[], gateway: IfIndex | undefined): readonly Ip[] {
  return addresses
    .filter(({ link, scope, duplicateDetection }) => link !== gateway && scope === 'global' && duplicateDetection !== 'failed')
    .map(({ address }) => address);
}

export function nodePortAddresses(own: readonly Ip[], { among, primary }: NodePortChoice): readonly Ip[] {
  if (among.length === 0) return own;
  return own.filter((ip) => among.some((choice) => (choice === 'primary' ? primary.includes(ip.text) : cidrContains(choice, ip))));
}

/** More changes within this time are one (ms). */
const SETTLE_MS = 5;

/** The node's own addresses as they come and go, until the signal. */
export class NodeAddresses {
  readonly #socket: NetlinkSocket;
  readonly #gateway: string;
  #own: readonly Ip[] = [];
  #texts: ReadonlySet<string> = new Set();

  /** @param gateway name of the interface whose addresses are the bridge's */
  constructor(socket: NetlinkSocket, gateway: string) {
    this.#socket = socket;
    this.#gateway = gateway;
    this.#look();
  }

  get own(): readonly Ip[] {
    return this.#own;
  }

  has({ text }: Ip): boolean {
    return this.#texts.has(text);
  }

  /**
   * Calls back after the addresses have changed, with all that came or went.
   *
   * @param reported is called before that, and at each change that the kernel reports, also of addresses that are not the node's own here
   */
  follow(changed: (which: readonly Ip[]) => void, signal: AbortSignal, reported: () => void = () => undefined): void {
    const compare = (): void => {
      reported();
      this.#compare(changed);
    };
    const debouncer = new Debouncer({ waitMs: SETTLE_MS, restMs: () => 0 }, compare, signal);
    const events = KernelEvents.open({ kinds: ['address'] }, () => debouncer.ring());
    signal.addEventListener('abort', () => events.close(), { once: true });
    compare();
  }

  #compare(changed: (which: readonly Ip[]) => void): void {
    const before = new Map(this.#own.map((ip) => [ip.text, ip]));
    this.#look();
    const which = [...this.#own.filter(({ text }) => !before.has(text)), ...[...before.values()].filter((ip) => !this.has(ip))];
    if (which.length > 0) changed(which);
  }

  #look(): void {
    this.#own = ownAddresses(listAddresses(this.#socket), getLink(this.#socket, this.#gateway)?.index);
    this.#texts = new Set(this.#own.map(({ text }) => text));
  }
}
