import { type Family, type Ip, ipFromValue } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { Flow, Match, Step, TransportAddress } from './flow.ts';
import type { PipelineTableName } from './tables.ts';

/**
 * Flows that differ only in an address and a port: a node has a hundred thousand of them, and the pattern is encoded once.
 *
 * Pure. Addresses of one family give the same flows in the same order. Address and port appear in them unchanged, with contiguous bytes or
 * in registers of their own.
 */
export type FlowPattern = (place: TransportAddress) => readonly Flow[];

/** Number of 32-bit numbers in a flow of a `EntryPattern`. */
export const entryNumbers = 2;

/** Values that may differ between flows of one `EntryPattern`. */
export interface EntryPlace extends TransportAddress {
  readonly numbers: readonly [number, number];
}

/**
 * Flow for an address and a port, with two numbers: a node has ten thousand of those that forward to Services' groups.
 *
 * Pure. Addresses of one family give the same flow, in which address, port and numbers appear unchanged, with contiguous bytes, or not at
 * all; of a number below 64, the last six bits are enough. Its learn actions differ by their cookies at most.
 */
export type EntryPattern = (place: EntryPlace) => Flow;

/** Values that may differ between the flows of two pods. */
export interface PodPlace {
  readonly ofPort: number;
  readonly mac: Mac;
  /** Addresses, at most one of each family. */
  readonly addresses: readonly Ip[];
}

/**
 * Flows of a pod: each new pod waits for them to be encoded.
 *
 * Pure. Pods with addresses of the same families have the same flows in the same order, in which the bytes of port, MAC and addresses
 * appear unchanged; the MAC's first byte also with the universal/local bit flipped (RFC 4291 appendix A). They contain no learn action.
 */
export type PodPattern = (place: PodPlace) => readonly Flow[];

/** Flow that is compiled only when it is read: it is encoded from its pattern. */
export class PatternFlow implements Flow {
  readonly from: { readonly pattern: EntryPattern; readonly place: EntryPlace };

  constructor(pattern: EntryPattern, place: EntryPlace) {
    this.from = { pattern, place };
  }

  get table(): PipelineTableName {
    return this.#made.table;
  }

  get priority(): number {
    return this.#made.priority;
  }

  get match(): Match {
    return this.#made.match;
  }

  get steps(): readonly Step[] {
    return this.#made.steps;
  }

  get #made(): Flow {
    return this.from.pattern(this.from.place);
  }
}

/**
 * Returns the flow of one share of senders. A node has hundreds of them, which differ in the last bits of the source address and in a
 * number, the two numbers of their pattern: each start of the agent waits until these flows are encoded.
 */
export function shareFlow(pattern: EntryPattern, family: Family, lastBits: number, number: number): Flow {
  return new PatternFlow(pattern, { ip: ipFromValue(family, 0n), port: 0, numbers: [lastBits, number] });
}

/**
 * Rows of a table that may have a hundred thousand: one for each address, with a number for its packets. Each has its own owner.
 *
 * Pure. Rows of one family have one form. The address appears exactly once in the match, the number's 32 bits exactly once in the steps,
 * both with unchanged bytes.
 */
export interface NumberedRows {
  /** Beginning of each owner's name, which ends with the address as a network. */
  readonly owners: string;
  readonly flowOf: (ip: Ip, number: number) => Flow;
}

/** One of these rows. */
export interface NumberedRow {
  readonly rows: NumberedRows;
  readonly ip: Ip;
  readonly number: number;
}
