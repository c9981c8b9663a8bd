import type { FlowDecision } from '../../../api/flow-log.ts';
import type { PolicyDirection, PolicyMatrix } from '../../../policy/matrix/matrix.ts';
import type { RecordedEnd } from '../records/flow-record.ts';
import { decisionAt } from './attribution.ts';

/** Maximum number of decisions that are remembered; beyond that all are forgotten. */
const decisionsMax = 8_192;

interface KnownDecisionsOptions {
  /** Returns the matrix of policies in force. */
  readonly matrix: () => PolicyMatrix;
  /** Returns a number that grows whenever the matrix may be another. */
  readonly revision: () => number;
}

interface DecidedEnds {
  readonly protocol: number;
  readonly source: RecordedEnd;
  readonly destination: RecordedEnd;
}

/**
 * Decisions of policies, remembered as long as the matrix is the same: a decision takes microseconds, and a pod opens many connections to
 * one other end and port.
 */
export class KnownDecisions {
  readonly #options: KnownDecisionsOptions;
  readonly #known = new Map<string, FlowDecision | undefined>();
  #revision = -1;

  constructor(options: KnownDecisionsOptions) {
    this.#options = options;
  }

  /** Returns what `decisionAt` returns for the matrix in force. */
  at(direction: PolicyDirection, ends: DecidedEnds, throughService: boolean): FlowDecision | undefined {
    const [own, peer] = direction === 'egress' ? [ends.source, ends.destination] : [ends.destination, ends.source];
    if (own.kind !== 'pod') return undefined;
    const { matrix, revision } = this.#options;
    const now = revision();
    if (now !== this.#revision || this.#known.size >= decisionsMax) this.#known.clear();
    this.#revision = now;
    const key = `${direction} ${own.name} ${peer.ip.text} ${ends.protocol} ${ends.destination.port} ${throughService}`;
    const known = this.#known.get(key);
    if (known !== undefined || this.#known.has(key)) return known;
    const decision = decisionAt(matrix(), direction, ends, throughService);
    this.#known.set(key, decision);
    return decision;
  }
}
