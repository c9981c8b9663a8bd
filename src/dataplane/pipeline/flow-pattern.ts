import type { Ip } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { Flow, Match, Step, TransportAddress } from './flow.ts';
import type { PipelineTableName } from './tables.ts';

/**
 * Flows that differ only in an address and a port: a node has a hundred thousand of them, and the pattern is encoded once.
 *
 * Pure. Addresses of one family give the same flows in the same order, and address and port appear in them unchanged, their octets
 * contiguous or in registers of their own.
 */
export type FlowPattern = (place: TransportAddress) => readonly Flow[];

/** So many numbers of 32 bits has a flow of a `LeadPattern`. */
export const leadNumbers = 2;

/** What may differ between flows of one `LeadPattern`. */
export interface LeadPlace extends TransportAddress {
  readonly numbers: readonly [number, number];
}

/**
 * A flow of an address and a port, with two numbers: of those that lead to Services' groups a node has ten thousand.
 *
 * Pure. Addresses of one family give the same flow, in which address, port and numbers appear unchanged, their octets contiguous. It teaches the switch nothing.
 */
export type LeadPattern = (place: LeadPlace) => Flow;

/** What may differ between the flows of two pods. */
export interface PodPlace {
  readonly ofPort: number;
  readonly mac: Mac;
  /** At most one of each family. */
  readonly addresses: readonly Ip[];
}

/**
 * The flows of a pod: each pod that starts waits for them to be encoded.
 *
 * Pure. Pods with addresses of the same families have the same flows in the same order, in which the octets of port, MAC and addresses appear unchanged; the MAC's first one
 * also with the bit turned that tells universal from local (RFC 4291 appendix A). They teach the switch nothing.
 */
export type PodPattern = (place: PodPlace) => readonly Flow[];

/** A flow that is made when somebody looks at it: it is encoded from its pattern. */
export class PatternFlow implements Flow {
  readonly from: { readonly pattern: LeadPattern; readonly place: LeadPlace };

  constructor(pattern: LeadPattern, place: LeadPlace) {
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
 * Rows of a table of which there may be a hundred thousand: one for each address, with a number for its packets. Each has an owner of its own.
 *
 * Pure. Rows of one family have one form; the address appears once in what is matched and nowhere else, the number's 32 bits once in the steps and nowhere
 * else, their octets unchanged.
 */
export interface NumberedRows {
  /** Begins the name of each owner, which ends with the address as a network. */
  readonly owners: string;
  readonly flowOf: (ip: Ip, number: number) => Flow;
}

/** One of them. */
export interface NumberedRow {
  readonly rows: NumberedRows;
  readonly ip: Ip;
  readonly number: number;
}
