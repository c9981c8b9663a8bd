import type { DeniedAttempt } from './denied-packet.ts';

/** Maximum number of pairs that are counted separately; packets of other pairs are counted together. */
const pairsMax = 1_000;

/** A pod, the other end, and the port or type requested. */
interface DeniedPair {
  /** `namespace/name`. */
  readonly pod: string;
  readonly packet: DeniedAttempt;
  /** Number of packets that OVS passed to the agent. */
  packets: number;
}

/** Counts of denied packets by pair, for the time of one observation. */
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

  /** Pairs, sorted by number of packets, the highest first. */
  get pairs(): readonly DeniedPair[] {
    return [...this.#pairs.values()].sort((a, b) => b.packets - a.packets);
  }

  /** Number of packets of pairs that are not counted separately. */
  get others(): number {
    return this.#others;
  }
}

/** Key of a pair; packets to the same destination port have the same key, whatever their source port. */
export function pairKey(pod: string, { direction, own, peer, protocol, ports, icmp }: DeniedAttempt): string {
  return [pod, direction, own.family, peer.text, protocol, ports?.destination ?? icmp?.type ?? ''].join(' ');
}
