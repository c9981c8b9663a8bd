import type { Ip } from '../net/ip.ts';
import type { Flow } from './flow.ts';

/** What may differ between flows of one pattern. */
export interface TransportAddress {
  readonly ip: Ip;
  readonly port: number;
}

/**
 * Flows that differ only in an address and a port: a node has a hundred thousand of them, and the pattern is encoded once.
 *
 * Pure. Addresses of one family give the same flows in the same order, and address and port appear in them unchanged, their octets
 * contiguous or in registers of their own.
 */
export type FlowPattern = (place: TransportAddress) => readonly Flow[];
