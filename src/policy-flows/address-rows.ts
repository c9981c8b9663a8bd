import { addressBits, type Cidr, hostCidr, type Ip } from '../net/ip.ts';
import type { Flow } from '../pipeline/flow.ts';
import type { FlowPattern } from '../pipeline/flow-pattern.ts';
import { addressFlow, type DirectionTables, type IdentityNumbers } from './rows.ts';

/** The row of one address: of an identity that many have, its flows differ in nothing else. */
export interface AddressRow {
  readonly ip: Ip;
  readonly pattern: FlowPattern;
}

/** So many patterns are kept for addresses to come. */
const patternsMost = 4_096;

/** Rows of addresses in one direction: those of one identity have one pattern. */
export class AddressRows {
  readonly #tables: DirectionTables;
  /** By numbers, coarse and fine. */
  readonly #patterns = new Map<string, FlowPattern>();

  constructor(tables: DirectionTables) {
    this.#tables = tables;
  }

  rowOf(cidr: Cidr, numbers: IdentityNumbers): AddressRow | readonly Flow[] {
    if (cidr.prefixLength < addressBits(cidr.family)) return [addressFlow(this.#tables, cidr, numbers)];
    const name = `${numbers.coarse} ${numbers.fine}`;
    const pattern = this.#patterns.get(name) ?? (({ ip }) => [addressFlow(this.#tables, hostCidr(ip), numbers)]);
    if (this.#patterns.size >= patternsMost) this.#patterns.clear();
    this.#patterns.set(name, pattern);
    return { ip: cidr.network, pattern };
  }
}
