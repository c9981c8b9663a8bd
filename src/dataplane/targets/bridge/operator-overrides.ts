import type { FlowStats } from '../../../openflow/flows/flow-stats.ts';
import { decodeInstructions } from '../../../openflow/flows/instructions.ts';
import { decodeMatch } from '../../../openflow/match/match.ts';
import { openedByHandCookie } from '../../pipeline/cookie.ts';
import { priority } from '../../pipeline/flow.ts';
import { tables } from '../../pipeline/tables.ts';

/** A pod's port that flows put by hand open, in one direction at least. */
interface OpenedPort {
  readonly ofPort: number;
  readonly secondsLeft: number;
}

/** What a flow of each entry table that opens a port matches, and where it leads. */
const shapes = [
  { table: tables.egressEntry.id, field: 'in_port', next: tables.route.id },
  { table: tables.ingressEntry.id, field: 'reg1', next: tables.commit.id },
] as const;

/** Of more than these the rest is not told. */
const TOLD_MAX = 1_000;

/**
 * Flows by which root has opened pods while no agent ran. They are neither wanted nor foreign: they stay until their time is over, which each
 * must have.
 */
export class OpenedByHand {
  readonly #nowMs: () => number;
  #untilMs: ReadonlyMap<number, number> = new Map();
  /** Ports that a look under way has found. */
  #found = new Map<number, number>();

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Whether it is one, to be left alone. Of another shape, or without an end, it is foreign as any. */
  note(flow: Pick<FlowStats, 'table' | 'priority' | 'cookie' | 'hardTimeout' | 'match' | 'instructions' | 'durationNs'>): boolean {
    if (flow.cookie !== openedByHandCookie || flow.hardTimeout === 0) return false;
    const ofPort = openedPort(flow);
    if (ofPort === undefined) return false;
    const untilMs = this.#nowMs() + flow.hardTimeout * 1_000 - Number(flow.durationNs / 1_000_000n);
    if (this.#found.size < TOLD_MAX) this.#found.set(ofPort, Math.max(untilMs, this.#found.get(ofPort) ?? 0));
    return true;
  }

  /** A look at all flows is over: what it has not found is gone. */
  looked(): void {
    this.#untilMs = this.#found;
    this.#found = new Map();
  }

  /** As of the last look; those whose time is over since are not among them. */
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
