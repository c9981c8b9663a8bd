import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { PolicyFlows } from '../flows/policy-flows.ts';

interface NumberReturnsOptions {
  readonly flows: Pick<PolicyFlows, 'acknowledged' | 'obsoleteRemoved'>;
  readonly nodeState: Pick<NodeState, 'hasPolicyLeftovers'> & {
    readonly reconcilers: { readonly bridge: Pick<NodeState['reconcilers']['bridge'], 'realizedRevision'> };
  };
  /** Milliseconds from any fixed moment. */
  readonly now: () => number;
}

/** Reports to the number pools which revisions the bridge has reached with their removals, so that numbers become free. */
export class NumberReturns {
  readonly #options: NumberReturnsOptions;
  #areRemovalsAllowed = false;
  /** True once the bridge was seen without obsolete rows of a previous agent. */
  #isSwept = false;

  constructor(options: NumberReturnsOptions) {
    this.#options = options;
  }

  /** Notes that removals are allowed. Before that, the bridge may reach a revision and still have rows that it does not contain. */
  removalsAllowed(): void {
    this.#areRemovalsAllowed = true;
  }

  /** Reports whether the bridge has no obsolete rows of a previous agent; this stays true. */
  get isSwept(): boolean {
    return this.#isSwept;
  }

  /**
   * Checks which numbers became free.
   *
   * @returns true if a round has work to do: rows without a number may get one, or rows kept of a previous agent can be removed
   */
  look(): boolean {
    const { flows, nodeState, now } = this.#options;
    const isFirst = !this.#isSwept;
    if (!this.#areRemovalsAllowed || (isFirst && nodeState.hasPolicyLeftovers())) return false;
    const isRoundDue = isFirst && flows.obsoleteRemoved();
    this.#isSwept = true;
    return flows.acknowledged(nodeState.reconcilers.bridge.realizedRevision, now()) || isRoundDue;
  }
}
