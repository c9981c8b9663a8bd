import { SeineError } from '../../base/errors/seine-error.ts';
import { podOfPorts } from '../../dataplane/pipeline/well-known.ts';

/**
 * Number of other allocations before a released number is allocated again. Open vSwitch keeps data for each number ever used on a bridge,
 * 130 bytes in 3.1: if all numbers were used in turn, it would grow by 4 MiB as that many pods are created and deleted.
 */
const QUARANTINED = 1_024;

const size = podOfPorts.last - podOfPorts.first + 1;

/**
 * Allocates OpenFlow port numbers to pods. A released number is quarantined first, so that a stale reference to it does not meet a new pod;
 * after that it is preferred to an unused number.
 */
export class OfPortPool {
  readonly #allocated = new Map<number, string>();
  /** Released numbers, the oldest first. */
  readonly #quarantined = new Set<number>();
  #next: number = podOfPorts.first;

  /** Allocates a number. @throws SeineError `REFUSED` if all are in use */
  allocate(user: string): number {
    const [rested] = this.#quarantined;
    const number = this.#quarantined.size >= QUARANTINED ? rested : (this.#unused() ?? rested);
    if (number === undefined) throw new SeineError('REFUSED', `all ${size} OpenFlow ports for pods are in use`);
    this.#quarantined.delete(number);
    this.#allocated.set(number, user);
    return number;
  }

  /** Returns the next number that is neither allocated nor quarantined. */
  #unused(): number | undefined {
    if (this.#allocated.size + this.#quarantined.size >= size) return undefined;
    let candidate = this.#next;
    while (this.#allocated.has(candidate) || this.#quarantined.has(candidate)) candidate = following(candidate);
    this.#next = following(candidate);
    return candidate;
  }

  /** Allocates the number that `borrower` had before a restart if it is free, else another one. */
  allocateAgain(user: string, ofPort: number | undefined): number {
    if (ofPort === undefined || ofPort < podOfPorts.first || ofPort > podOfPorts.last || this.#allocated.has(ofPort))
      return this.allocate(user);
    this.#quarantined.delete(ofPort);
    this.#allocated.set(ofPort, user);
    if (ofPort >= this.#next) this.#next = following(ofPort);
    return ofPort;
  }

  /**
   * Releases the number once all of `gone` are fulfilled: the port is removed, and every flow with the number. The next pod must inherit
   * nothing of the previous one, least of all its permissions. If this is not known, the number stays allocated.
   *
   * @param removals promises that reject if the wait was cancelled
   */
  releaseAfter(ofPort: number, removals: readonly Promise<void>[]): void {
    void Promise.all(removals).then(
      () => {
        this.#allocated.delete(ofPort);
        this.#quarantined.add(ofPort);
      },
      () => undefined, // the agent stops, and the pool with it
    );
  }

  get allocatedCount(): number {
    return this.#allocated.size;
  }
}

function following(number: number): number {
  return number === podOfPorts.last ? podOfPorts.first : number + 1;
}
