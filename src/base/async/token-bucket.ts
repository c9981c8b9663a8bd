/** Limits a rate: a number per second, and a burst after a pause. */
export class TokenBucket {
  readonly #rate: { readonly perSecond: number; readonly burst: number };
  #tokens: number;
  #refilledMs = performance.now();

  constructor(rate: { readonly perSecond: number; readonly burst: number }) {
    this.#rate = rate;
    this.#tokens = rate.burst;
  }

  /** Takes a token. @returns whether there was one */
  take(): boolean {
    const nowMs = performance.now();
    this.#tokens = Math.min(this.#rate.burst, this.#tokens + ((nowMs - this.#refilledMs) / 1_000) * this.#rate.perSecond);
    this.#refilledMs = nowMs;
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }
}
