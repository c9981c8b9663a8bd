import { idle } from '../../base/async/pause.ts';
import { within } from '../../base/async/time-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { Ip } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { Peer } from '../../kubernetes/resources/peer-source.ts';
import type { Neighbour } from '../../netlink/routing/neighbours.ts';
import { transportOf } from '../local/node-environment.ts';

/** Interval between two rounds (ms). */
const ROUND_MS = 1_000;
/** How often the Ethernet address of a next hop is verified (ms), where there are not more of them than rounds have room for. */
const VERIFY_EVERY_MS = 3_000;
/** Tunnel addresses whose next hop is verified in one round. */
const VERIFIED_AT_ONCE = 32;
/** How long the kernel asks for a neighbour before this round of questions counts as unanswered (ms). Then the next one begins. */
const ANSWER_MS = 10_000;
/** A daemon that is frozen takes the request, and may never answer (ms). */
const SET_MS = 10_000;
/** Next hops that no tunnel has used for so long are forgotten (ms). */
const FORGOTTEN_AFTER_MS = 600_000;

/** Where the kernel sends packets for a tunnel address: the other node itself, or a router. */
export type TunnelNextHop = Pick<Neighbour, 'link' | 'address'>;

export type ResolvedHop = TunnelNextHop & { readonly mac: Mac };

/** The node's kernel and its Open vSwitch, as far as neighbours are concerned. */
export interface NeighbourPorts {
  /** Undefined if the kernel has no route. */
  readonly nextHopOf: (address: Ip) => TunnelNextHop | undefined;
  /** Neighbours of the links of these hops, as the kernel knows them. */
  readonly list: (hops: readonly TunnelNextHop[]) => readonly Neighbour[];
  /** Has the kernel ask a neighbour whether its Ethernet address is still the known one. */
  readonly verify: (hop: TunnelNextHop) => void;
  /** Has the kernel ask the whole link who has this address. */
  readonly resolve: (hop: TunnelNextHop) => void;
  /** Has Open vSwitch send tunnel packets for these next hops to these Ethernet addresses. */
  readonly set: (hops: readonly ResolvedHop[], signal: AbortSignal) => Promise<void>;
}

interface TunnelNeighboursOptions extends NeighbourPorts {
  /** Tunnel addresses of other nodes. */
  readonly addresses: () => readonly Ip[];
  /** Milliseconds, from any fixed moment; never goes back. */
  readonly now: () => number;
  readonly log: Log;
}

interface NeighbourQuestion {
  readonly hop: TunnelNextHop;
  readonly sinceMs: number;
  /** Whether the kernel was asked to ask: what it knew before counts for nothing. */
  isAsked: boolean;
}

/**
 * Keeps the Ethernet addresses to which the userspace data path sends tunnel packets up to date.
 *
 * Open vSwitch learns a neighbour from ARP and ND messages that pass its bridge, and keeps what it learned for as long as packets are sent there. A node
 * whose network card was replaced, or a router that was, need not announce its new address, and the node's kernel asks for it only when the node itself
 * sends packets there. So the agent has the kernel verify every next hop every few seconds, and gives Open vSwitch what was answered.
 */
export class TunnelNeighbours {
  readonly #options: TunnelNeighboursOptions;
  /** By tunnel address, when its next hop was looked up last (ms). */
  #lookedUpMs = new Map<string, number>();
  readonly #questions = new Map<string, NeighbourQuestion>();
  /** By next hop, the last answer; without an Ethernet address if there was none. */
  readonly #answers = new Map<string, { readonly mac: Mac | undefined; readonly atMs: number }>();

  constructor(options: TunnelNeighboursOptions) {
    this.#options = options;
  }

  /** Until the signal. */
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

  /** @throws SeineError as the ports */
  async round(signal: AbortSignal): Promise<void> {
    const { list, set, now } = this.#options;
    const nowMs = now();
    this.#forgetOld(nowMs);
    for (const address of this.#due(nowMs)) this.#begin(address, nowMs);
    if (this.#questions.size === 0) return;
    const known = new Map(list([...this.#questions.values()].map(({ hop }) => hop)).map((neighbour) => [keyOf(neighbour), neighbour]));
    const answered = [...this.#questions].flatMap(([key, question]) => this.#advance(key, question, known.get(key)));
    if (answered.length === 0) return;
    await set(answered, within(signal, SET_MS));
    for (const hop of answered) this.#note(hop, nowMs);
  }

  /** Those that were not looked up for the longest time. */
  #due(nowMs: number): readonly Ip[] {
    const current = this.#options.addresses();
    this.#lookedUpMs = new Map(current.map(({ text }) => [text, this.#lookedUpMs.get(text) ?? -Infinity]));
    const timeOf = ({ text }: Ip): number => this.#lookedUpMs.get(text) ?? -Infinity;
    const due = current
      .filter((address) => timeOf(address) <= nowMs - VERIFY_EVERY_MS)
      .toSorted((a, b) => (timeOf(a) === timeOf(b) ? 0 : timeOf(a) - timeOf(b)))
      .slice(0, VERIFIED_AT_ONCE);
    for (const { text } of due) this.#lookedUpMs.set(text, nowMs);
    return due;
  }

  /** Many nodes may have one router as their next hop. */
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
      this.#options.log.info('the next hop of tunnels has another Ethernet address', { address: hop.address.text, before, mac: hop.mac });
  }

  #forgetOld(nowMs: number): void {
    for (const [key, { atMs }] of this.#answers) if (nowMs - atMs > FORGOTTEN_AFTER_MS) this.#answers.delete(key);
  }
}

function keyOf({ link, address }: TunnelNextHop): string {
  return `${link} ${address.text}`;
}

/** Addresses to which tunnel packets for these nodes are sent. @param own addresses of this node's tunnels, of a family each */
export function tunnelAddresses(peers: Iterable<Pick<Peer, 'transport'>>, own: readonly Ip[]): readonly Ip[] {
  const families = new Set(own.map(({ family }) => family));
  return Array.from(peers, ({ transport }) => transportOf(transport).find(({ family }) => families.has(family))).flatMap((ip) => ip ?? []);
}
