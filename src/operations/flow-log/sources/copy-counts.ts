import { features, generation } from '../../../dataplane/pipeline/cookie.ts';
import { tables } from '../../../dataplane/pipeline/tables.ts';
import { endedMeters, openedMeters, seenMeters } from '../../../dataplane/pipeline/well-known.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import { endedPriorities } from './compile-ended.ts';
import { openedPriorities } from './compile-opened.ts';

/** Event that a copied packet shows. */
type CopyKind = 'opened' | 'ended';

interface CopyCountsOptions {
  readonly bridge: Pick<OpenFlowConnection, 'dumpFlows' | 'dumpMeterStats'>;
  /** Milliseconds, from any fixed moment; never goes back. */
  readonly now: () => number;
}

/** New losses since the previous reading. */
interface NewLosses {
  /** Copies that the meters stopped. */
  readonly metered: number;
  /** Copies that OVS made and the agent did not get. */
  readonly queue: number;
}

const kinds: readonly CopyKind[] = ['opened', 'ended'];

/**
 * Openings and ends by the counters of OVS: how many there were, how many copies the meters stopped, and how many of the others did not
 * arrive because the connection to the agent was full. What a previous agent's flows have counted is left out.
 */
export class CopyCounts {
  readonly #options: CopyCountsOptions;
  readonly #startMs: number;
  readonly #flows = new Map<string, number>();
  readonly #meters = new Map<number, number>();
  readonly #sums: Readonly<Record<CopyKind, CopySums>> = { opened: new CopySums(), ended: new CopySums() };
  #hasOlder = false;
  #isFirst = true;

  constructor(options: CopyCountsOptions) {
    this.#options = options;
    this.#startMs = options.now();
  }

  /** Counts a copy that arrived. */
  received(kind: CopyKind): void {
    this.#sums[kind].received++;
  }

  /**
   * Reads the counters. A copy on its way is no loss: it counts as one if two readings in a row miss it.
   *
   * @throws SeineError as for `OpenFlowConnection.dumpFlows`
   */
  async read(signal: AbortSignal): Promise<Readonly<Record<CopyKind, NewLosses>>> {
    await this.#readFlows(signal);
    const metered = await this.#readMeters(signal);
    this.#isFirst = false;
    const lossesOf = (kind: CopyKind): NewLosses => ({ metered: metered[kind], queue: this.#sums[kind].newlyMissing() });
    return { opened: lossesOf('opened'), ended: lossesOf('ended') };
  }

  async #readFlows(signal: AbortSignal): Promise<void> {
    const { bridge, now } = this.#options;
    const ageMs = now() - this.#startMs;
    const present = new Set<string>();
    await bridge.dumpFlows(
      { table: tables.commit.id, cookie: cookieOfFeature, cookieMask: featureMask },
      ({ priority, match, packets: counted, durationNs }) => {
        const kind = kinds.find((each) => prioritiesOf[each].has(priority));
        if (kind === undefined) return; // a flow that copies nothing
        const packets = Number(counted);
        const key = `${priority} ${Buffer.from(match).toString('latin1')}`;
        present.add(key);
        const isOlder = durationNs > BigInt(Math.ceil(ageMs)) * 1_000_000n;
        if (isOlder) this.#hasOlder = true;
        const before = this.#flows.get(key) ?? (isOlder ? packets : 0);
        this.#sums[kind].matched += packets < before ? packets : packets - before; // a flow that was installed again counts from 0
        this.#flows.set(key, packets);
      },
      signal,
    );
    for (const key of this.#flows.keys()) if (!present.has(key)) this.#flows.delete(key);
  }

  async #readMeters(signal: AbortSignal): Promise<Readonly<Record<CopyKind, number>>> {
    const added: Record<CopyKind, number> = { opened: 0, ended: 0 };
    const present = new Set<number>();
    for (const { id, bands } of await this.#options.bridge.dumpMeterStats(signal)) {
      if (id < openedMeters.first || id >= seenMeters.first) continue;
      present.add(id);
      const packets = Number(bands[0]?.packets ?? 0n);
      // Meters do not report their age: they are as old as the flows that use them.
      const before = this.#meters.get(id) ?? (this.#isFirst && this.#hasOlder ? packets : 0);
      added[id < endedMeters.first ? 'opened' : 'ended'] += packets < before ? packets : packets - before;
      this.#meters.set(id, packets);
    }
    for (const id of this.#meters.keys()) if (!present.has(id)) this.#meters.delete(id);
    for (const kind of kinds) this.#sums[kind].metered += added[kind];
    return added;
  }
}

/** Copies of one kind since the log was turned on. */
class CopySums {
  matched = 0;
  metered = 0;
  received = 0;
  #missing = 0;
  #lastMissing = 0;

  /** Returns the number of copies that the last two readings both miss, without those returned before. */
  newlyMissing(): number {
    const missing = this.matched - this.metered - this.received;
    const certain = Math.min(missing, this.#lastMissing);
    this.#lastMissing = missing;
    const added = Math.max(0, certain - this.#missing);
    this.#missing += added;
    return added;
  }
}

const prioritiesOf: Readonly<Record<CopyKind, ReadonlySet<number>>> = { opened: openedPriorities, ended: endedPriorities };
const featureMask = 0xffff_ff00_0000_0000n;
const cookieOfFeature = (BigInt(generation) << 48n) | (BigInt(features.flowLog) << 40n);
