import { idle } from '../../base/async/pause.ts';
import { within } from '../../base/async/time-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { Ip } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { Neighbour } from '../../netlink/routing/neighbours.ts';

/** Interval between two rounds (ms). */
const ROUND_MS = 1_000;
/** Interval between verifications of a next hop's Ethernet address (ms), unless there are more of them than rounds have room for. */
const VERIFY_EVERY_MS = 3_000;
/** Number of tunnel addresses whose next hop is verified in one round. */
const VERIFIED_AT_ONCE = 32;
/** Time for which the kernel queries a neighbour before the attempt counts as unanswered (ms). Then the next one begins. */
const ANSWER_MS = 10_000;
/** Timeout of a request (ms): a stopped ovs-vswitchd accepts it, and may never answer. */
const SET_MS = 10_000;
/** Time without use by a tunnel after which a next hop is dropped (ms). */
const FORGOTTEN_AFTER_MS = 600_000;

/** Next hop of a tunnel address in the kernel: the other node itself, or a router. */
export type TunnelNextHop = Pick<Neighbour, 'link' | 'address'>;

export type ResolvedHop = TunnelNextHop & { readonly mac: Mac };

/** Access to neighbours of the node's kernel and its Open vSwitch. */
export interface NeighbourPorts {
  /** Undefined if the kernel has no route. */
  readonly nextHopOf: (address: Ip) => TunnelNextHop | undefined;
  /** Returns neighbours on the links of these hops, as the kernel knows them. */
  readonly list: (hops: readonly TunnelNextHop[]) => Promise<readonly Neighbour[]>;
  /** Makes the kernel verify a neighbour's Ethernet address. */
  readonly verify: (hop: TunnelNextHop) => void;
  /** Makes the kernel query the whole link for this address. */
  readonly resolve: (hop: TunnelNextHop) => void;
  /** Makes Open vSwitch send tunnel packets for these next hops to these Ethernet addresses. */
  readonly set: (hops: readonly ResolvedHop[], signal: AbortSignal) => Promise<void>;
}

interface TunnelNeighboursOptions extends NeighbourPorts {
  /** Returns tunnel addresses of other nodes; the same array until they change. */
  readonly addresses: () => readonly Ip[];
  /** Monotonic time (ms). */
  readonly now: () => number;
  readonly log: Log;
}

interface NextHopLookup {
  readonly address: Ip;
  readonly atMs: number;
}

interface NeighbourQuestion {
  readonly hop: TunnelNextHop;
  readonly sinceMs: number;
  /** True if the kernel was made to query: its previous information no longer counts. */
  isAsked: boolean;
}

/**
 * Keeps the Ethernet addresses to which the userspace data path sends tunnel packets up to date.
 *
 * Open vSwitch learns a neighbour from ARP and ND messages that pass its bridge, and keeps the entry as long as packets are sent there. A
 * node or router whose network card was replaced need not announce its new address, and the node's kernel queries it only when the node
 * itself sends packets there. So the agent makes the kernel verify every next hop every few seconds, and gives the answers to Open vSwitch.
 */
export class TunnelNeighbours {
  readonly #options: TunnelNeighboursOptions;
  /** Tunnel addresses with the time of their last next-hop lookup (ms), the oldest first. */
  #lookups = new Map<string, NextHopLookup>();
  #addresses: readonly Ip[] = [];
  readonly #questions = new Map<string, NeighbourQuestion>();
  /** Last answer by next hop; without an Ethernet address if there was none. */
  readonly #answers = new Map<string, { readonly mac: Mac | undefined; readonly atMs: number }>();

  constructor(options: TunnelNeighboursOptions) {
    this.#options = options;
  }

  /** Runs until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const { log } = this.#options;
    while (!signal.aborted) {
      try {
        await this.round(signal);
        log.working('tunnel neighbours');
      } catch (thrown) {
        if (signal.aborted) return;
        const error = SeineError.from(thrown, 'verify tunnel neighbours');
        if (error.remedy === 'crash') throw error;
        log.failing('tunnel neighbours', 'Ethernet addresses of other nodes and routers are not verified', { cause: error.message });
      }
      await idle(ROUND_MS, signal);
    }
  }

  /** @throws SeineError like the ports */
  async round(signal: AbortSignal): Promise<void> {
    const { list, set, now } = this.#options;
    const nowMs = now();
    this.#forgetOld(nowMs);
    for (const address of this.#due(nowMs)) this.#begin(address, nowMs);
    if (this.#questions.size === 0) return;
    const neighbours = await list([...this.#questions.values()].map(({ hop }) => hop));
    const known = new Map(neighbours.map((neighbour) => [keyOf(neighbour), neighbour]));
    const answered = [...this.#questions].flatMap(([key, question]) => this.#advance(key, question, known.get(key)));
    if (answered.length === 0) return;
    await set(answered, within(signal, SET_MS));
    for (const hop of answered) this.#note(hop, nowMs);
  }

  /** Returns the addresses whose last lookup is the oldest. */
  #due(nowMs: number): readonly Ip[] {
    this.#followAddresses();
    const due: Ip[] = [];
    for (const { address, atMs } of this.#lookups.values()) {
      if (atMs > nowMs - VERIFY_EVERY_MS || due.length === VERIFIED_AT_ONCE) break;
      due.push(address);
    }
    for (const address of due) {
      this.#lookups.delete(address.text); // moves to the end
      this.#lookups.set(address.text, { address, atMs: nowMs });
    }
    return due;
  }

  /** Puts new addresses before all others, and removes those that are gone. */
  #followAddresses(): void {
    const addresses = this.#options.addresses();
    if (addresses === this.#addresses) return;
    this.#addresses = addresses;
    const before = this.#lookups;
    this.#lookups = new Map();
    const texts = new Set(addresses.map(({ text }) => text));
    for (const address of addresses) if (!before.has(address.text)) this.#lookups.set(address.text, { address, atMs: -Infinity });
    for (const [text, lookup] of before) if (texts.has(text)) this.#lookups.set(text, lookup);
  }

  /** Begins a verification. Many nodes may have one router as their next hop. */
  #begin(address: Ip, nowMs: number): void {
    const hop = this.#options.nextHopOf(address);
    if (hop === undefined) return;
    const key = keyOf(hop);
    const isRecent = nowMs - (this.#answers.get(key)?.atMs ?? -Infinity) < VERIFY_EVERY_MS;
    if (!isRecent && !this.#questions.has(key)) this.#questions.set(key, { hop, sinceMs: nowMs, isAsked: false });
  }

  /** @returns the answer, if there is one by now */
  #advance(key: string, question: NeighbourQuestion, neighbour: Neighbour | undefined): readonly ResolvedHop[] {
    const { verify, resolve, now } = this.#options;
    const { hop, sinceMs, isAsked } = question;
    switch (neighbour?.state) {
      case 'permanent':
      case 'noArp':
        this.#end(key, undefined); // an operator's entry, which the kernel does not verify
        return [];
      case 'incomplete':
      case 'probe':
        question.isAsked = true;
        break;
      case 'reachable':
        if (isAsked && neighbour.mac !== undefined) {
          this.#questions.delete(key);
          return [{ ...hop, mac: neighbour.mac }];
        }
        verify(hop);
        question.isAsked = true;
        break;
      case 'stale':
      case 'delay':
        verify(hop);
        question.isAsked = true;
        break;
      default:
        resolve(hop);
        question.isAsked = true;
    }
    if (now() - sinceMs > ANSWER_MS) this.#end(key, this.#answers.get(key)?.mac);
    return [];
  }

  #end(key: string, mac: Mac | undefined): void {
    this.#questions.delete(key);
    this.#answers.set(key, { mac, atMs: this.#options.now() });
  }

  #note(hop: ResolvedHop, nowMs: number): void {
    const key = keyOf(hop);
    const before = this.#answers.get(key)?.mac;
    this.#answers.set(key, { mac: hop.mac, atMs: nowMs });
    if (before !== undefined && before !== hop.mac)
      this.#options.log.info('MAC address of a tunnel next hop changed', { address: hop.address.text, before, mac: hop.mac });
  }

  #forgetOld(nowMs: number): void {
    for (const [key, { atMs }] of this.#answers) if (nowMs - atMs > FORGOTTEN_AFTER_MS) this.#answers.delete(key);
  }
}

function keyOf({ link, address }: TunnelNextHop): string {
  return `${link} ${address.text}`;
}
