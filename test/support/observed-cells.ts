import { setTimeout as sleep } from 'node:timers/promises';
import type { NetnsRef } from '../../lab/plan/names.ts';
import { ask } from '../../lab/probe/probe.ts';
import type { Family } from '../../src/base/net/ip.ts';
import { slowness } from './test-datapath.ts';

/** A connection that a lab can attempt. */
export interface Cell {
  /** Name as `seinectl whatif -o json` has it: `red/web-1`. */
  readonly from: string;
  /** `red/db-1`, `node node-1`, `outside 203.0.113.10`, `service red/s1`. */
  readonly to: string;
  /** Node of the client. */
  readonly node: string;
  readonly family: Family;
  readonly protocol: 'TCP' | 'UDP';
  readonly port: number;
  readonly place: NetnsRef;
  /** Undefined for a Service that does not exist. */
  readonly address: string | undefined;
}

/** Attempts that arrive: for a Service those of several connections, which it sends to several endpoints. */
export type Reached = 'none' | 'some' | 'all';

const attemptsOfService = 8;
const answerMs = 900 * slowness;
/** Sockets that are open at the same time. */
const parallel = 400;
const settledWithinMs = 60_000 * slowness;
/** A busy host delays answers for seconds: what is wrong is wrong this often. */
const observationsLeast = 12;

export function keyOfCell({ from, to, family, protocol, port }: Cell): string {
  return `${from} -> ${to} ${family} ${port}/${protocol}`;
}

/** Attempts all connections. A reset arrives only if the attempt did, so a closed port is reached as well. */
async function observe(cells: readonly Cell[], patience: number): Promise<ReadonlyMap<string, Reached>> {
  const attempts = cells.flatMap((cell) => Array.from({ length: attemptsOf(cell, patience) }, () => cell));
  const arrived = new Map<string, boolean[]>(cells.map((cell) => [keyOfCell(cell), []]));
  const queue = attempts.values();
  const worker = async (): Promise<void> => {
    for (const cell of queue) arrived.get(keyOfCell(cell))?.push(await arrives(cell, answerMs * patience));
  };
  await Promise.all(Array.from({ length: parallel }, worker));
  return new Map([...arrived].map(([key, results]) => [key, !results.includes(true) ? 'none' : results.includes(false) ? 'some' : 'all']));
}

function attemptsOf({ to, address }: Cell, patience: number): number {
  if (address === undefined) return 0;
  return to.startsWith('service ') ? attemptsOfService * patience : 1;
}

async function arrives({ place, address = '', protocol, port, to }: Cell, timeoutMs: number): Promise<boolean> {
  const outcome = await ask({ from: place, address, port, protocol: protocol === 'TCP' ? 'tcp' : 'udp', timeoutMs });
  // The node resets connections to a Service without endpoints.
  return outcome.is === 'OK' || (outcome.is === 'REFUSED' && !to.startsWith('service '));
}

/**
 * Observes until every cell is as expected and remains so in a second observation, or until the time is over.
 *
 * @param expected values that a cell may have
 * @returns the last observation
 */
export async function settledCells(
  cells: readonly Cell[],
  expected: (cell: Cell) => readonly Reached[],
  { withinMs = settledWithinMs, least = observationsLeast }: { readonly withinMs?: number; readonly least?: number } = {},
): Promise<ReadonlyMap<string, Reached>> {
  const seen = new Map<string, Reached>();
  const startMs = performance.now();
  let observations = 0;
  const isOver = () => observations >= least && performance.now() - startMs > withinMs;
  for (let calm = 0, patience = 1; calm < 2; ) {
    let waiting = cells;
    for (;;) {
      observations++;
      for (const [key, reached] of await observe(waiting, patience)) seen.set(key, reached);
      const others = waiting.filter((cell) => !expected(cell).includes(seen.get(keyOfCell(cell)) ?? 'none'));
      if (others.length === 0 || isOver()) break;
      calm = 0;
      // A few retries find what was late; the rest is wrong.
      patience = Math.min(4, patience + 1);
      waiting = others;
      await sleep(50);
    }
    if (isOver()) return seen;
    [calm, patience] = [calm + 1, 1];
  }
  return seen;
}
