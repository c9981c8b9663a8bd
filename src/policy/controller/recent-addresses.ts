import { parseIp } from '../../base/net/ip.ts';
import type { PolicyEngine } from '../engine/policy-engine.ts';

/** Time for which an address has to be known as a pod's before connections to or from it are refused (ms): other nodes learn of pods meanwhile. */
const RECENT_MS = 3_000;

/** Addresses that pods of the cluster got a moment ago, as far as this node knows. */
export class RecentAddresses {
  readonly #engine: Pick<PolicyEngine, 'holderOf'>;
  readonly #now: () => number;
  /** Time since which each address is known, the oldest first. */
  readonly #since = new Map<string, number>();

  /** @param now milliseconds, from any fixed moment; never goes back */
  constructor(engine: Pick<PolicyEngine, 'holderOf'>, now: () => number) {
    this.#engine = engine;
    this.#now = now;
  }

  /** Notes the addresses of a pod before the engine gets it. @param pod `namespace/name` */
  note(pod: string, addresses: readonly string[]): void {
    const nowMs = this.#now();
    for (const address of addresses) {
      const ip = parseIp(address);
      if (this.#engine.holderOf(ip) === pod) continue;
      this.#since.delete(ip.text);
      this.#since.set(ip.text, nowMs);
    }
    for (const [address, sinceMs] of this.#since) {
      if (nowMs - sinceMs < RECENT_MS) return;
      this.#since.delete(address);
    }
  }

  has(address: string): boolean {
    const sinceMs = this.#since.get(address);
    return sinceMs !== undefined && this.#now() - sinceMs < RECENT_MS;
  }
}
