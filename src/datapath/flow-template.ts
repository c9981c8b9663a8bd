import { SeineError } from '../errors/seine-error.ts';
import { addressBits, type Family, ipFromBytes } from '../net/ip.ts';
import { cookieWords, type Owner, ownerOf } from '../pipeline/cookie.ts';
import type { FlowPattern, Place } from '../pipeline/flow-pattern.ts';
import { nothing } from '../wanted/wanted.ts';
import { type BridgeKey, type BridgeValue, encodeBridgeEntries } from './bridge-entry.ts';

/** Octets of which some are a place's. */
interface Mould {
  readonly octets: Buffer;
  /** Where an octet of the place goes, and which, in turn: those of the address, then two of the port. */
  readonly holes: readonly number[];
}

interface EntryTemplate {
  readonly key: Mould;
  readonly value: Mould;
}

/** Whose flows probes are: the cookie is written anew for each owner. */
const prober = ownerOf('node');

/**
 * Entries of the bridge from patterns. Where address and port stand is not known here but found, by encoding two places that differ in
 * every octet; a third place says whether that was right.
 */
export class FlowTemplates {
  readonly #known = new Map<FlowPattern, Map<Family, readonly EntryTemplate[]>>();
  readonly #place = new Uint8Array(18);
  readonly #view = new DataView(this.#place.buffer);

  /**
   * What `encodeBridgeEntries` gives for the flows of one place.
   *
   * @throws SeineError `INVARIANT` if the flows of the pattern differ by more than their place
   */
  entriesOf(owner: Owner, pattern: FlowPattern, place: Place): ReadonlyMap<BridgeKey, BridgeValue> {
    this.#take(place);
    const { high, low } = cookieWords(owner);
    const entries = new Map<BridgeKey, BridgeValue>();
    for (const { key, value } of this.#templatesOf(pattern, place.ip.family)) {
      value.octets.writeUInt32BE(high, 0);
      value.octets.writeUInt32BE(low, 4);
      entries.set(this.#cast(key) as BridgeKey, this.#cast(value) as BridgeValue);
    }
    return entries;
  }

  #cast({ octets, holes }: Mould): string {
    for (let at = 0; at < holes.length; at += 2) octets[holes[at] ?? 0] = this.#place[holes[at + 1] ?? 0] ?? 0;
    return octets.toString('latin1');
  }

  #take({ ip: { family, value }, port }: Place): void {
    if (family === 'ipv4') this.#view.setUint32(0, Number(value));
    else {
      this.#view.setBigUint64(0, value >> 64n);
      this.#view.setBigUint64(8, BigInt.asUintN(64, value));
    }
    this.#view.setUint16(addressBits(family) / 8, port);
  }

  #templatesOf(pattern: FlowPattern, family: Family): readonly EntryTemplate[] {
    const known = this.#known.get(pattern)?.get(family);
    if (known) return known;
    const made = templatesOf(pattern, family);
    const byFamily = this.#known.get(pattern) ?? new Map<Family, readonly EntryTemplate[]>();
    this.#known.set(pattern, byFamily.set(family, made));
    return made;
  }
}

function templatesOf(pattern: FlowPattern, family: Family): readonly EntryTemplate[] {
  const [first, second, third] = [0x10, 0x40, 0xa0].map((base) => encodedAt(pattern, family, base));
  if (!first || !second || !third) throw new SeineError('INVARIANT', 'three probes');
  return first.map(([key, value], at) => {
    const others = [second[at], third[at]] as const;
    const template = {
      key: mouldOf(family, [key, others[0]?.[0], others[1]?.[0]]),
      value: mouldOf(family, [value, others[0]?.[1], others[1]?.[1]]),
    };
    return template;
  });
}

/** The place whose octets are `base`, `base + 1` and so on: no other octet of an entry differs by as much between two of them. */
function encodedAt(pattern: FlowPattern, family: Family, base: number): readonly (readonly [BridgeKey, BridgeValue])[] {
  const octets = Uint8Array.from({ length: placeOctets(family) }, (_, at) => base + at);
  const ip = ipFromBytes(octets.subarray(0, -2));
  const port = ((octets.at(-2) ?? 0) << 8) | (octets.at(-1) ?? 0);
  return [...encodeBridgeEntries(prober, { ...nothing, flows: pattern({ ip, port }) })];
}

function mouldOf(family: Family, [first, second, third]: readonly [string, string | undefined, string | undefined]): Mould {
  if (second?.length !== first.length || third?.length !== first.length) throw misfit('their lengths differ');
  const holes: number[] = [];
  for (let at = 0; at < first.length; at++) {
    const [a, b, c] = [first.charCodeAt(at), second.charCodeAt(at), third.charCodeAt(at)];
    if (a === b && b === c) continue;
    const which = a - 0x10;
    if (which < 0 || which >= placeOctets(family) || b !== which + 0x40 || c !== which + 0xa0)
      throw misfit(`octet ${at} is none of a place`);
    holes.push(at, which);
  }
  return { octets: Buffer.from(first, 'latin1'), holes };
}

function placeOctets(family: Family): number {
  return addressBits(family) / 8 + 2;
}

function misfit(why: string): SeineError {
  return new SeineError('INVARIANT', `flows of one pattern differ by more than their place: ${why}`);
}
