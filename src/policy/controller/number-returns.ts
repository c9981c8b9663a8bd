import type { NodeState } from '../../dataplane/targets/node-state.ts';
import type { PolicyFlows } from '../flows/policy-flows.ts';

interface NumberReturnsOptions {
  readonly flows: Pick<PolicyFlows, 'acknowledged' | 'leftoversGone'>;
  readonly nodeState: Pick<NodeState, 'hasPolicyLeftovers'> & {
    readonly reconcilers: { readonly bridge: Pick<NodeState['reconcilers']['bridge'], 'realizedRevision'> };
  };
  /** Milliseconds from any fixed moment. */
  readonly now: () => number;
}

/** Says which revisions the bridge has reached with their removals: what is not on it any more can be lent again. */
export class NumberReturns {
  readonly #options: NumberReturnsOptions;
  #areRemovalsAllowed = false;
  /** Whether the bridge was seen without anything of an earlier agent that nobody wants. */
  #isSwept = false;

  constructor(options: NumberReturnsOptions) {
    this.#options = options;
  }

  /** Before this a revision may be reached with what it does not want still on the bridge. */
  removalsAllowed(): void {
    this.#areRemovalsAllowed = true;
  }

  /** Whether the bridge is rid of what nobody wants, and stays so. */
  get isSwept(): boolean {
    return this.#isSwept;
  }

  /** @returns whether a round has something to do: what went without a number may get one now, or what was kept of an earlier agent can go */
  look(): boolean {
    const { flows, nodeState, now } = this.#options;
    const isFirst = !this.#isSwept;
    if (!this.#areRemovalsAllowed || (isFirst && nodeState.hasPolicyLeftovers())) return false;
    const isRoundDue = isFirst && flows.leftoversGone();
    this.#isSwept = true;
    return flows.acknowledged(nodeState.reconcilers.bridge.realizedRevision, now()) || isRoundDue;
  }
}
