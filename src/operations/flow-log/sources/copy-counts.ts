import { features, generation } from '../../../dataplane/pipeline/cookie.ts';
import { tables } from '../../../dataplane/pipeline/tables.ts';
import { endedMeters, openedMeters, seenMeters } from '../../../dataplane/pipeline/well-known.ts';
import type { OpenFlowConnection } from '../../../openflow/connection/connection.ts';
import { decodeMatch } from '../../../openflow/match/match.ts';
import { endedPriorities } from './compile-ended.ts';
import { notSampledPriorities, openedPriorities } from './compile-opened.ts';

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

type CopyReading = Readonly<Record<CopyKind, NewLosses>> & {
  /** Openings that are not chosen by `flowLog.sampling`. */
  readonly notSampled: number;
};

const kinds: readonly CopyKind[] = ['opened', 'ended'];
const counted = [...kinds, 'notSampled'] as const;

/**
 * Openings and ends by the counters of OVS: how many there were, how many copies the meters stopped, and how many of the others did not
 * arrive because the connection to the agent was full. What a previous agent's flows have counted is left out.
 *
 * Sums are kept for each port: what a port that is gone had counted after the last reading must not hide losses of another.
 */
export class CopyCounts {
  readonly #options: CopyCountsOptions;
  readonly #startMs: number;
  readonly #flows = new Map<string, { readonly port: number; readonly packets: number }>();
  readonly #meters = new Map<number, number>();
  readonly #sums: Readonly<Record<CopyKind, Map<number, CopySums>>> = { opened: new Map(), ended: new Map() };
  /** Time of the last reading. */
  #readMs: number;
  /** Ports that had flows at the last reading. */
  #ports: ReadonlySet<number> = new Set();
  #hasOlder = false;
  #isFirst = true;

  constructor(options: CopyCountsOptions) {
    this.#options = options;
    this.#startMs = options.now();
    this.#readMs = this.#startMs;
  }

  /** Counts a copy that arrived. @param ofPort port by which the packet entered */
  received(kind: CopyKind, ofPort: number): void {
    this.#sumsOf(kind, ofPort).received++;
  }

  /**
   * Reads the counters. A copy on its way is no loss: it counts as one if two readings in a row miss it.
   *
   * @throws SeineError as for `OpenFlowConnection.dumpFlows`
   */
  async read(signal: AbortSignal): Promise<CopyReading> {
    const { notSampled, restarted } = await this.#readFlows(signal);
    const metered = await this.#readMeters(signal);
    this.#isFirst = false;
    const queueOf = (kind: CopyKind): number => {
      let queue = 0;
      for (const [port, sums] of this.#sums[kind]) {
        if (restarted.has(port)) sums.forgetSurplus();
        queue += sums.newlyMissing();
      }
      return queue;
    };
    const lossesOf = (kind: CopyKind): NewLosses => ({ metered: metered[kind], queue: queueOf(kind) });
    return { opened: lossesOf('opened'), ended: lossesOf('ended'), notSampled };
  }

  async #readFlows(signal: AbortSignal): Promise<{ readonly notSampled: number; readonly restarted: ReadonlySet<number> }> {
    const { bridge, now } = this.#options;
    const ageMs = now() - this.#startMs;
    const sinceLastNs = BigInt(Math.floor(now() - this.#readMs)) * 1_000_000n;
    const [present, ports, restarted] = [new Set<string>(), new Set<number>(), new Set<number>()];
    let notSampled = 0;
    await bridge.dumpFlows(
      { table: tables.commit.id, cookie: cookieOfFeature, cookieMask: featureMask },
      ({ priority, match, packets: sum, durationNs }) => {
        const kind = counted.find((each) => prioritiesOf[each].has(priority));
        if (kind === undefined) return; // a flow whose packets are none of these
        const packets = Number(sum);
        const port = portOf(match);
        const key = `${priority} ${Buffer.from(match).toString('latin1')}`;
        present.add(key);
        ports.add(port);
        const isOlder = durationNs > BigInt(Math.ceil(ageMs)) * 1_000_000n;
        if (isOlder) this.#hasOlder = true;
        const known = this.#flows.get(key)?.packets;
        // A flow that was installed again counts from 0.
        const isAgain = known !== undefined && (packets < known || durationNs < sinceLastNs);
        if (isAgain) restarted.add(port);
        const added = isAgain ? packets : packets - (known ?? (isOlder ? packets : 0));
        if (kind === 'notSampled') notSampled += added;
        else this.#sumsOf(kind, port).matched += added;
        this.#flows.set(key, { port, packets });
      },
      signal,
    );
    this.#readMs = now();
    for (const [key, { port }] of this.#flows) {
      if (present.has(key)) continue;
      this.#flows.delete(key);
      restarted.add(port); // other flows have taken its place, such as those of another sample
    }
    // A port that never had flows may have got them after this reading.
    for (const port of this.#ports) if (!ports.has(port)) for (const kind of kinds) this.#sums[kind].delete(port);
    this.#ports = ports;
    return { notSampled, restarted };
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
      const stopped = packets < before ? packets : packets - before;
      const kind = id < endedMeters.first ? 'opened' : 'ended';
      added[kind] += stopped;
      const port = id - { opened: openedMeters, ended: endedMeters }[kind].offset;
      if (stopped > 0) this.#sumsOf(kind, port).metered += stopped;
      this.#meters.set(id, packets);
    }
    for (const id of this.#meters.keys()) if (!present.has(id)) this.#meters.delete(id);
    return added;
  }

  #sumsOf(kind: CopyKind, port: number): CopySums {
    const known = this.#sums[kind].get(port);
    if (known) return known;
    const sums = new CopySums();
    this.#sums[kind].set(port, sums);
    return sums;
  }
}

/** Copies of one kind and port since the log was turned on. */
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

  /** Leaves out copies beyond those that flows have counted: OVS counts from 0 again, and its last counters are not known. */
  forgetSurplus(): void {
    this.received = Math.min(this.received, this.matched - this.metered - this.#missing);
  }
}

/** Returns the port that a flow of the log matches. */
function portOf(match: Uint8Array): number {
  const { in_port: port } = decodeMatch(match);
  return typeof port === 'number' ? port : 0;
}

const prioritiesOf: Readonly<Record<(typeof counted)[number], ReadonlySet<number>>> = {
  opened: openedPriorities,
  ended: endedPriorities,
  notSampled: notSampledPriorities,
};
const featureMask = 0xffff_ff00_0000_0000n;
const cookieOfFeature = (BigInt(generation) << 48n) | (BigInt(features.flowLog) << 40n);
