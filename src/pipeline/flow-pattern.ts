import type { Ip } from '../net/ip.ts';
import type { Flow, TransportAddress } from './flow.ts';

/**
 * Flows that differ only in an address and a port: a node has a hundred thousand of them, and the pattern is encoded once.
 *
 * Pure. Addresses of one family give the same flows in the same order, and address and port appear in them unchanged, their octets
 * contiguous or in registers of their own.
 */
export type FlowPattern = (place: TransportAddress) => readonly Flow[];

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
