import type { FlowStats } from '../../../openflow/flows/flow-stats.ts';
import { decodeInstructions } from '../../../openflow/flows/instructions.ts';
import { decodeMatch } from '../../../openflow/match/match.ts';
import { operatorOverrideCookie } from '../../pipeline/cookie.ts';
import { priority } from '../../pipeline/flow.ts';
import { tables } from '../../pipeline/tables.ts';

/** Port of a pod that an operator has opened with flows, in at least one direction. */
interface OpenedPort {
  readonly ofPort: number;
  readonly secondsLeft: number;
}

/** Match field and next table of a flow that opens a port, for each entry table. */
const shapes = [
  { table: tables.egressEntry.id, field: 'in_port', next: tables.route.id },
  { table: tables.ingressEntry.id, field: 'reg1', next: tables.commit.id },
] as const;

/** Maximum number of opened ports that are reported. */
const REPORTED_MAX = 1_000;

/**
 * Flows with which root has opened pods while no agent ran. They are neither desired nor foreign, and stay until they expire. Each must
 * have a hard timeout.
 */
export class OperatorOverrides {
  readonly #nowMs: () => number;
  #untilMs: ReadonlyMap<number, number> = new Map();
  /** Ports found by the check in progress. */
  #found = new Map<number, number>();

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /**
   * Records a flow of the check in progress. @returns whether it is such a flow, to be ignored. One of another shape, or without a hard
   * timeout, is foreign
   */
  note(flow: Pick<FlowStats, 'table' | 'priority' | 'cookie' | 'hardTimeout' | 'match' | 'instructions' | 'durationNs'>): boolean {
    if (flow.cookie !== operatorOverrideCookie || flow.hardTimeout === 0) return false;
    const ofPort = openedPort(flow);
    if (ofPort === undefined) return false;
    const untilMs = this.#nowMs() + flow.hardTimeout * 1_000 - Number(flow.durationNs / 1_000_000n);
    if (this.#found.size < REPORTED_MAX) this.#found.set(ofPort, Math.max(untilMs, this.#found.get(ofPort) ?? 0));
    return true;
  }

  /** Ends a check of all flows: ports that it did not find are no longer open. */
  looked(): void {
    this.#untilMs = this.#found;
    this.#found = new Map();
  }

  /** Returns the ports found by the last check, without those that have expired since. */
  list(): readonly OpenedPort[] {
    const now = this.#nowMs();
    return [...this.#untilMs].flatMap(([ofPort, untilMs]) =>
      untilMs > now ? [{ ofPort, secondsLeft: Math.ceil((untilMs - now) / 1_000) }] : [],
    );
  }
}

function openedPort(flow: Pick<FlowStats, 'table' | 'priority' | 'match' | 'instructions'>): number | undefined {
  const shape = shapes.find(({ table }) => table === flow.table);
  if (!shape || flow.priority !== priority.guard) return undefined;
  const { [shape.field]: port, ...others } = decodeMatch(flow.match);
  const { gotoTable, ...more } = decodeInstructions(flow.instructions);
  if (typeof port !== 'number' || Object.keys(others).length > 0) return undefined;
  return gotoTable === shape.next && Object.keys(more).length === 0 ? port : undefined;
}
