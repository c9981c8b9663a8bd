import type { DeniedAttempt } from './denied-packet.ts';

/** So many pairs are told apart; packets of others are counted together. */
const pairsMax = 1_000;

/** A pod, the other end, and what one of them asked the other for. */
interface DeniedPair {
  /** `namespace/name`. */
  readonly pod: string;
  readonly packet: DeniedAttempt;
  /** As far as they were shown to the agent. */
  packets: number;
}

/** Who was denied to talk with whom, for as long as somebody looks. */
export class DeniedPairs {
  readonly #pairs = new Map<string, DeniedPair>();
  #others = 0;

  note(pod: string, packet: DeniedAttempt): void {
    const key = pairKey(pod, packet);
    const known = this.#pairs.get(key);
    if (known) known.packets++;
    else if (this.#pairs.size < pairsMax) this.#pairs.set(key, { pod, packet, packets: 1 });
    else this.#others++;
  }

  /** Most packets first. */
  get pairs(): readonly DeniedPair[] {
    return [...this.#pairs.values()].sort((a, b) => b.packets - a.packets);
  }

  /** Packets of pairs that are not told apart. */
  get others(): number {
    return this.#others;
  }
}

/** Equal for packets that ask for the same: the port of who asks does not count. */
export function pairKey(pod: string, { direction, own, peer, protocol, ports, icmp }: DeniedAttempt): string {
  return [pod, direction, own.family, peer.text, protocol, ports?.destination ?? icmp?.type ?? ''].join(' ');
}
