import { SeineError } from '../../base/errors/seine-error.ts';
import { podOfPorts } from '../../dataplane/pipeline/well-known.ts';

/**
 * So many other numbers are lent before one that was given back is lent again. Open vSwitch keeps something of each number that it has ever had on a bridge, 130 octets in
 * 3.1: with all numbers in turn it would grow by 4 MiB while as many pods come and go.
 */
const RESTING = 1_024;

const size = podOfPorts.last - podOfPorts.first + 1;

/**
 * Lends OpenFlow ports to pods. A number that was given back rests first, so that nothing that still names it meets a new pod; then it is lent rather than one that nobody
 * had yet.
 */
export class OfPortPool {
  readonly #lent = new Map<number, string>();
  /** Given back, the longest ago first. */
  readonly #resting = new Set<number>();
  #next: number = podOfPorts.first;

  /** @throws SeineError `REFUSED` if all are lent */
  lend(borrower: string): number {
    const [rested] = this.#resting;
    const number = this.#resting.size >= RESTING ? rested : (this.#unused() ?? rested);
    if (number === undefined) throw new SeineError('REFUSED', `all ${size} OpenFlow ports for pods are in use`);
    this.#resting.delete(number);
    this.#lent.set(number, borrower);
    return number;
  }

  /** The next that is neither lent nor resting. */
  #unused(): number | undefined {
    if (this.#lent.size + this.#resting.size >= size) return undefined;
    let candidate = this.#next;
    while (this.#lent.has(candidate) || this.#resting.has(candidate)) candidate = following(candidate);
    this.#next = following(candidate);
    return candidate;
  }

  /** The number `borrower` had before a restart, if it can have it again; else another. */
  lendAgain(borrower: string, ofPort: number | undefined): number {
    if (ofPort === undefined || ofPort < podOfPorts.first || ofPort > podOfPorts.last || this.#lent.has(ofPort)) return this.lend(borrower);
    this.#resting.delete(ofPort);
    this.#lent.set(ofPort, borrower);
    if (ofPort >= this.#next) this.#next = following(ofPort);
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
      () => {
        this.#lent.delete(ofPort);
        this.#resting.add(ofPort);
      },
      () => undefined, // the agent stops, and the pool with it
    );
  }

  get lentCount(): number {
    return this.#lent.size;
  }
}

function following(number: number): number {
  return number === podOfPorts.last ? podOfPorts.first : number + 1;
}
