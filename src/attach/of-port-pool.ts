import { SeineError } from '../errors/seine-error.ts';
import { podOfPorts } from '../pipeline/well-known.ts';

/**
 * Lends OpenFlow ports to pods, next-fit: a number that was given back is the last to be lent again, so that nothing that
 * still names it meets a new pod.
 */
export class OfPortPool {
  readonly #lent = new Map<number, string>();
  #next: number = podOfPorts.first;

  /** @throws SeineError `REFUSED` if all are lent */
  lend(borrower: string): number {
    const size = podOfPorts.last - podOfPorts.first + 1;
    for (let tries = 0; tries < size; tries++) {
      const candidate = this.#next;
      this.#next = candidate === podOfPorts.last ? podOfPorts.first : candidate + 1;
      if (this.#lent.has(candidate)) continue;
      this.#lent.set(candidate, borrower);
      return candidate;
    }
    throw new SeineError('REFUSED', `all ${size} OpenFlow ports for pods are in use`);
  }

  /** The number `borrower` had before a restart, if it can have it again; else another. */
  lendAgain(borrower: string, ofPort: number | undefined): number {
    if (ofPort === undefined || ofPort < podOfPorts.first || ofPort > podOfPorts.last || this.#lent.has(ofPort)) return this.lend(borrower);
    this.#lent.set(ofPort, borrower);
    if (ofPort >= this.#next) this.#next = ofPort === podOfPorts.last ? podOfPorts.first : ofPort + 1;
    return ofPort;
  }

  /**
   * Lends the number again once all of this is acknowledged: that the port is gone, and that every flow is that names it. The next pod
   * must inherit nothing of the last one, least of all what that was allowed. A number of which this is not known stays lent.
   *
   * @param gone rejected where the waiting was given up
   */
  giveBackAfter(ofPort: number, gone: readonly Promise<void>[]): void {
    void Promise.all(gone).then(
      () => this.#lent.delete(ofPort),
      () => undefined, // the agent stops, and the pool with it
    );
  }

  get lentCount(): number {
    return this.#lent.size;
  }
}
