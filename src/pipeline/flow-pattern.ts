import type { Ip } from '../net/ip.ts';
import type { Flow } from './flow.ts';

/** What may differ between flows of one pattern. */
export interface Place {
  readonly ip: Ip;
  readonly port: number;
}

/**
 * Flows that are alike but for an address and a port: what is written for one place serves for all, for a node has a hundred thousand.
 *
 * Pure. Addresses of one family give the same flows in the same order, and address and port stand in them as they are, all of their
 * octets one behind the other or in registers of their own.
 */
export type FlowPattern = (place: Place) => readonly Flow[];
