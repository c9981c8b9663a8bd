import { Debouncer } from '../../base/async/debouncer.ts';
import { type Cidr, cidrContains, type Ip } from '../../base/net/ip.ts';
import { KernelEvents } from '../../netlink/events.ts';
import type { IfIndex } from '../../netlink/interface-name.ts';
import { getLink } from '../../netlink/links.ts';
import { type Address, listAddresses } from '../../netlink/routing/addresses.ts';
import type { NetlinkSocket } from '../../netlink/socket.ts';

/** Addresses of the node on which node ports are opened. */
interface NodePortChoice {
  /** `proxy.nodePortAddresses`: networks, or `primary` for those that the Node object has. Empty means all. */
  readonly among: readonly (Cidr | 'primary')[];
  /** Addresses of the Node object, in canonical text. */
  readonly primary: readonly string[];
}

/** Returns addresses at which external clients reach the node; not those of the bridge's gateway, nor loopback and link-local ones. */
export function ownAddresses(addresses: readonly Address[], gateway: IfIndex | undefined): readonly Ip[] {
  return addresses
    .filter(({ link, scope, duplicateDetection }) => link !== gateway && scope === 'global' && duplicateDetection !== 'failed')
    .map(({ address }) => address);
}

export function nodePortAddresses(own: readonly Ip[], { among, primary }: NodePortChoice): readonly Ip[] {
  if (among.length === 0) return own;
  return own.filter((ip) => among.some((choice) => (choice === 'primary' ? primary.includes(ip.text) : cidrContains(choice, ip))));
}

/** Time for which changes are gathered (ms). */
const SETTLE_MS = 5;

/** Current addresses of the node, until the signal. */
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
   * Calls back after the addresses have changed, with all that were added or removed.
   *
   * @param reported called before that, and at each change that the kernel reports, also of addresses that are not the node's own here
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
